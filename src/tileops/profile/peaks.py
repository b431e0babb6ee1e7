"""What GPUs can do at most, by their makers' datasheets, and which of that a workload can reach.

Matrix rates are dense: where a datasheet gives the rate with sparsity, half of it stands here, and the entry says so.
A rate of 1e12 operations counts a multiplication and an addition as two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import ProfileError

# PyTorch's names, and what else people write.
DTYPES = {
    "half": "float16", "fp16": "float16", "f16": "float16", "bf16": "bfloat16", "fp32": "float32", "float": "float32",
    "f32": "float32", "fp64": "float64", "double": "float64", "f64": "float64", "tfloat32": "tf32",
    "float8": "float8_e4m3fn", "fp8": "float8_e4m3fn", "float8_e4m3": "float8_e4m3fn", "e4m3": "float8_e4m3fn",
    "float8_e4m3fnuz": "float8_e4m3fn", "float8_e5m2fnuz": "float8_e5m2", "e5m2": "float8_e5m2", "s8": "int8",
}  # fmt: skip
# The type where nobody gives one.
ASSUMED = "float16"
# What a type's rate is listed under.
_RATE = {"bfloat16": "float16", "float8_e4m3fn": "float8", "float8_e5m2": "float8"}
# Types whose rate on the ordinary cores is float32's unless another is known.
_AS_FLOAT32 = ("tf32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True)
class Gpu:
    """A GPU's peaks.

    Attributes:
        name: as people call it.
        pattern: a regular expression for what the driver calls it, whole.
        bandwidth: of its memory, in GB/s (1e9 bytes).
        matrix: TFLOP/s of tensor or matrix cores by type, accumulating in float32 (int8: in int32).
        vector: TFLOP/s of the ordinary cores by type.
        source: the document.
        published: the year of that edition.
        derived: which figures follow from others, and how.
        memory: bytes, from and below; for variants that differ in nothing else.
    """

    name: str
    pattern: str
    bandwidth: float
    matrix: Mapping[str, float]
    vector: Mapping[str, float]
    source: str
    published: int
    derived: str = ""
    memory: tuple[float, float] = (0, float("inf"))


_HALVED = "matrix rates: half of the ones given with sparsity"
_PACKED = "float16 and bfloat16 without tensor cores: twice float32, as the H100 whitepaper has it"
_A100 = {"float16": 312.0, "tf32": 156.0, "float64": 19.5, "int8": 624.0}
_A100_VECTOR = {"float32": 19.5, "float64": 9.7, "float16": 78.0, "bfloat16": 39.0}
_A100_SHEET = "NVIDIA A100 Tensor Core GPU datasheet; float16 and bfloat16 without tensor cores: A100 whitepaper"
_H100 = {"float16": 989.5, "tf32": 494.5, "float8": 1979.0, "int8": 1979.0, "float64": 67.0}
_H100_VECTOR = {"float32": 67.0, "float64": 34.0, "float16": 133.8, "bfloat16": 133.8}
_NVL = {"float16": 835.5, "tf32": 417.5, "float8": 1670.5, "int8": 1670.5, "float64": 60.0}
_NVL_VECTOR = {"float32": 60.0, "float64": 30.0, "float16": 120.0, "bfloat16": 120.0}

GPUS = (
    Gpu("A100 40GB", r"A100-(SXM4|PCIE|PG509)-?\w*", 1555.0, _A100, _A100_VECTOR, _A100_SHEET, 2021, memory=(0, 60e9)),
    Gpu("A100 80GB SXM", r"A100-SXM4-80GB", 2039.0, _A100, _A100_VECTOR, _A100_SHEET, 2021, memory=(60e9, 1e12)),
    Gpu("A100 80GB PCIe", r"A100 80GB PCIe", 1935.0, _A100, _A100_VECTOR, _A100_SHEET, 2021),
    Gpu(
        "H100 SXM", r"H100 80GB HBM3|H100 SXM5?( 80GB)?", 3350.0, _H100, _H100_VECTOR,
        "NVIDIA H100 Tensor Core GPU datasheet", 2023, f"{_HALVED}; {_PACKED}",
    ),
    Gpu(
        "H100 PCIe", r"H100 PCIe", 2000.0,
        {"float16": 756.5, "tf32": 378.0, "float8": 1513.0, "int8": 1513.0, "float64": 51.0},
        {"float32": 51.0, "float64": 26.0, "float16": 102.4, "bfloat16": 102.4},
        "NVIDIA H100 Tensor Core GPU datasheet", 2022, f"{_HALVED}; {_PACKED}",
    ),
    Gpu(
        "H100 NVL", r"H100 NVL", 3900.0, _NVL, _NVL_VECTOR,
        "NVIDIA H100 Tensor Core GPU datasheet", 2024, f"{_HALVED}; {_PACKED}",
    ),
    Gpu(
        "H200 SXM", r"H200", 4800.0, _H100, _H100_VECTOR,
        "NVIDIA H200 Tensor Core GPU datasheet", 2024, f"{_HALVED}; {_PACKED}",
    ),
    Gpu(
        "H200 NVL", r"H200 NVL", 4800.0, _NVL, _NVL_VECTOR,
        "NVIDIA H200 Tensor Core GPU datasheet", 2024, f"{_HALVED}; {_PACKED}",
    ),
    Gpu(
        "H20", r"H20", 4000.0, {"float16": 148.0, "tf32": 74.0, "float8": 296.0, "int8": 296.0},
        {"float32": 44.0, "float64": 1.0},
        "NVIDIA's figures for the H20 as its partners quote them: there is no public datasheet", 2023,
    ),
    Gpu(
        "B200", r"B200", 8000.0,
        {"float16": 2250.0, "tf32": 1125.0, "float8": 4500.0, "int8": 4500.0, "float64": 37.0},
        {"float32": 75.0, "float64": 37.0}, "NVIDIA DGX B200 and HGX B200 datasheets", 2024,
        _HALVED + ", and everything an eighth of what the machine of eight GPUs has",
    ),
    Gpu(
        "L40S", r"L40S", 864.0, {"float16": 362.05, "tf32": 183.0, "float8": 733.0, "int8": 733.0},
        {"float32": 91.6}, "NVIDIA L40S datasheet", 2023,
    ),
    Gpu(
        "RTX 4090", r"GeForce RTX 4090", 1008.0, {"float16": 165.2, "tf32": 82.6, "float8": 330.3, "int8": 660.6},
        {"float32": 82.6, "float16": 82.6}, "NVIDIA Ada GPU Architecture whitepaper", 2022,
    ),
    Gpu(
        "RTX 5090", r"GeForce RTX 5090", 1792.0, {"float16": 209.5, "tf32": 104.8, "float8": 419.0, "int8": 838.0},
        {"float32": 104.8, "float16": 104.8}, "NVIDIA RTX Blackwell GPU Architecture whitepaper", 2025,
    ),
    Gpu(
        "MI300X", r"Instinct MI300X( VF| OAM)?|MI300X", 5300.0,
        {"float16": 1307.4, "tf32": 653.7, "float8": 2614.9, "int8": 2614.9, "float64": 163.4, "float32": 163.4},
        {"float32": 163.4, "float64": 81.7}, "AMD Instinct MI300X data sheet", 2023,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Ceilings:
    """What a workload of one type can reach on one GPU. None is unknown.

    Attributes:
        gpu: its name; empty if the GPU is unknown.
        dtype: PyTorch's name of the type.
        bandwidth: GB/s.
        matrix: TFLOP/s on tensor cores; None also where the GPU has none for the type.
        vector: TFLOP/s on the ordinary cores.
        measured: which of the three were measured on this GPU, and are not a datasheet's.
        limits: the datasheet's figures for the three, where known: what cannot be passed. What was measured can, by a
            program that only reads, for one.
        source: where the others are from, in words.
    """

    gpu: str
    dtype: str
    bandwidth: float | None = None
    matrix: float | None = None
    vector: float | None = None
    measured: frozenset[str] = field(default_factory=frozenset)
    limits: Mapping[str, float] = field(default_factory=dict)
    source: str = ""


def dtype_name(dtype: object) -> str:
    """PyTorch's name of a type, given as that, as ``torch.float16`` or as people write it.

    Returns:
        The name; one that is not known comes back as it is.
    """
    name = str(dtype).removeprefix("torch.").strip().lower()
    return DTYPES.get(name, name)


def known_dtype(dtype: object) -> str:
    """A type's name, for peaks to be chosen by.

    Raises:
        ProfileError: if there is no such type, since the peaks would be another one's.
    """
    import torch

    name = dtype_name(dtype)
    if name != "tf32" and not isinstance(getattr(torch, name, None), torch.dtype):
        raise ProfileError(
            f"dtype is {dtype!r}, which is no type: give one of PyTorch's, such as float16, bfloat16, float32, "
            "float8_e4m3fn or int8, or tf32"
        )
    return name


def find_gpu(name: str, memory: float | None = None) -> Gpu | None:
    """A GPU by the driver's name for it.

    Args:
        name: such as ``NVIDIA H100 80GB HBM3``.
        memory: its bytes, where names leave that open.

    Returns:
        Its peaks; None for a GPU that is not listed, and for a slice of one (MIG), which has less.
    """
    bare = re.sub(r"^(?:NVIDIA|AMD|Tesla)\s+", "", name.strip())
    for gpu in GPUS:
        if re.fullmatch(gpu.pattern, bare, re.IGNORECASE):
            # The name says 80GB where it does; without either, the smaller one is assumed to be meant.
            size = memory if memory is not None else 80e9 if "80GB" in bare else 40e9
            if gpu.memory[0] <= size < gpu.memory[1]:
                return gpu
    return None


def ceilings(
    name: str, dtype: object, measured: Mapping[str, float] | None = None, memory: float | None = None
) -> Ceilings:
    """What a workload can reach: what was measured on the GPU where it was, else its datasheet.

    Args:
        name: the driver's name of the GPU.
        dtype: of the operands.
        measured: ``bandwidth`` in GB/s; ``matrix:float16`` and ``vector:float32`` and the like in TFLOP/s.
        memory: the GPU's bytes, if known.
    """
    kind = dtype_name(dtype)
    rate = _RATE.get(kind, kind)
    gpu = find_gpu(name, memory)
    values: dict[str, float | None] = {"bandwidth": None, "matrix": None, "vector": None}
    if gpu is not None:
        values["bandwidth"] = gpu.bandwidth
        values["matrix"] = gpu.matrix.get(rate)
        # Smaller floats compute as float32 does where nothing else is listed; of integers the sheets say nothing.
        other = gpu.vector.get(rate, gpu.vector.get("float32")) if kind in _AS_FLOAT32 else None
        values["vector"] = gpu.vector.get(kind, other)
    as_float32 = kind in _AS_FLOAT32 and (gpu is None or kind not in gpu.vector)
    limits = {key: value for key, value in values.items() if value is not None}
    seen = set()
    for key, names in (
        ("bandwidth", ("bandwidth",)),
        ("matrix", (f"matrix:{kind}", f"matrix:{rate}")),
        ("vector", (f"vector:{kind}", *(("vector:float32",) if as_float32 else ()))),
    ):
        for candidate in names:
            if measured is not None and measured.get(candidate):
                values[key] = float(measured[candidate])
                seen.add(key)
                break
    if gpu is not None:
        source = f"{gpu.source} ({gpu.published})" + (f"; {gpu.derived}" if gpu.derived else "")
    else:
        source = f"{name or 'this device'} is not among the GPUs whose datasheet is listed"
    return Ceilings(gpu.name if gpu else "", kind, **values, measured=frozenset(seen), limits=limits, source=source)
