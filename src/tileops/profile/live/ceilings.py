"""What this GPU really reaches: measured once, kept, and preferred to its datasheet."""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Callable
from pathlib import Path

from ..errors import ProfileError
from .device import Device

# Bytes of each of the copy's two buffers: far beyond any L2.
_COPY = 1 << 30
# Square products of random numbers: zeros would let the tensor cores draw less power and clock higher.
_SIDE = 8192
_REPEATS = 20
_TYPES = ("float16", "bfloat16", "float32", "float8_e4m3fn")


def load(device: Device) -> dict[str, float]:
    """What was measured on a GPU of this name before; empty if nothing was."""
    try:
        values = json.loads(_path(device).read_text())
        return {str(key): float(value) for key, value in values.items() if float(value) > 0}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def store(device: Device, values: dict[str, float]) -> Path:
    """Keeps what was measured.

    Raises:
        ProfileError: if the file cannot be written.
    """
    path = _path(device)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values, indent=2) + "\n")
    except OSError as error:
        raise ProfileError(f"{path}: cannot be written: {error.strerror or error}") from error
    return path


def _path(device: Device) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base, "tileops", "peaks", re.sub(r"\W+", "-", device.name).strip("-").lower() + ".json")


def measure(device: Device, progress: Callable[[str], None] = lambda text: None) -> dict[str, float]:
    """Measures a GPU's ceilings.

    Args:
        device: the GPU.
        progress: is told what is being measured.

    Returns:
        ``bandwidth`` in GB/s, read and written bytes of a copy together; ``matrix:TYPE`` in TFLOP/s. A type that this
        GPU or PyTorch has no product for is left out. TF32 is not used for float32.

    Raises:
        ProfileError: without a GPU.
    """
    if not device.gpu:
        raise ProfileError("measuring peaks needs a GPU, and PyTorch sees none here")
    found = {}
    progress("copy bandwidth")
    found["bandwidth"] = 2 * _COPY / _best(device, _copy())
    for name in _TYPES:
        progress(f"{name} products")
        try:
            time = _best(device, _product(name))
        except (RuntimeError, AttributeError, TypeError):
            continue
        key = "vector" if name == "float32" else "matrix"
        found[f"{key}:{name}"] = 2 * _SIDE**3 / time / 1e3
    return found


def _copy() -> Callable[[], object]:
    import torch

    source = torch.empty(_COPY, dtype=torch.uint8, device="cuda").random_(0, 256)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _product(name: str) -> Callable[[], object]:
    import torch

    dtype = getattr(torch, name)
    a, b = (torch.randn(_SIDE, _SIDE, device="cuda") for _ in range(2))
    if name.startswith("float8"):
        one = torch.ones((), device="cuda")
        left, right = a.to(dtype), b.to(dtype).t()
        return lambda: torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    left, right = a.to(dtype), b.to(dtype)
    return lambda: left @ right


def _best(device: Device, work: Callable[[], object]) -> float:
    """The median time of a call in ns, warm."""
    for _ in range(10):
        work()
    device.wait()
    return statistics.median(device.time(work, 3) for _ in range(_REPEATS))
