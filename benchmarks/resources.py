"""Registers, spills, stack and shared memory of kernels with and without tracing, as ptxas tells them.

    python benchmarks/resources.py [--arch sm_90a] [--kernels NAME ...]

Needs nvcc and no GPU. Kernels: the production GEMM in the configurations of both shapes of ``gemm.py``, and some of
the tests' kernels (``tests/trace/marked.py``). Exits with 1 if a traced kernel spills where the stripped one does not.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHAPES = ((4096, 4096, 4096), (128, 2112, 7168))
MARKED = Path(__file__).resolve().parents[1] / "tests" / "trace" / "marked.py"
FROM_MARKED = ("serial_loops", "branches", "pipelined", "persistent")


@dataclass(frozen=True)
class Usage:
    """What a kernel takes.

    Attributes:
        registers: a thread's.
        spill_stores, spill_loads, stack: bytes a thread.
        shared: bytes a block, static and dynamic together.
        code: bytes of the cubin.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int
    code: int

    @property
    def spills(self) -> bool:
        """Whether registers are spilled."""
        return bool(self.spill_stores or self.spill_loads)


def gemm(shape: tuple[int, int, int]) -> Callable[[bool], Any]:
    """What makes the PrimFunc of the production GEMM, traced or stripped."""

    def make(traced: bool) -> Any:
        from tileops.kernels.gemm import build_gemm, default_config

        return build_gemm(*shape, traced=traced).get_tir(**default_config(*shape))

    return make


def marked(name: str) -> Callable[[bool], Any]:
    """The same for a kernel of the tests."""

    def make(traced: bool) -> Any:
        from tileops.trace import trace

        spec = importlib.util.spec_from_file_location("marked", MARKED)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["marked"] = module  # T.prim_func looks its module up
        spec.loader.exec_module(module)
        return trace.finalize(getattr(module, name)(trace), traced=traced)

    return make


def kernels() -> dict[str, Callable[[bool], Any]]:
    """Name to what makes a kernel's PrimFunc, traced or stripped."""
    production = {f"gemm {'x'.join(map(str, shape))}": gemm(shape) for shape in SHAPES}
    return {**production, **{name: marked(name) for name in FROM_MARKED if MARKED.exists()}}


def generated(name: str, traced: bool, arch: str) -> tuple[str, int]:
    """A kernel's CUDA source, and the bytes of dynamic shared memory that its launch asks for."""
    import tilelang

    from tileops.kernels.gemm.dense import PASS_CONFIGS
    from tileops.trace import TraceWarning

    target = tilelang.tvm.target.Target({"kind": "cuda", "arch": arch})
    config = PASS_CONFIGS if name.startswith("gemm ") else {}
    with target, tilelang.transform.PassContext(config=config), warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        artifact = tilelang.lower(kernels()[name](traced), target=target)
    (func,) = artifact.device_mod.functions.values()
    return str(artifact.kernel_source), int((func.attrs or {}).get("dyn_shared_memory_buf", 0))


def usage(text: str, dynamic: int, arch: str) -> Usage:
    """Compiles CUDA source and reads what ptxas says of it.

    Raises:
        RuntimeError: if it does not compile, or ptxas says something else than expected.
    """
    from tilelang.contrib.nvcc import get_nvcc_compiler
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    number = arch.removeprefix("sm_")
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "kernel.cu"), Path(folder, "kernel.cubin")
        source.write_text(text)
        command = [
            get_nvcc_compiler(), "-cubin", "-O3", "-std=c++17", "-w", f"-gencode=arch=compute_{number},code={arch}",
            "-Xptxas", "-v", "-I", TILELANG_TEMPLATE_PATH, "-I", CUTLASS_INCLUDE_DIR, "-o", str(cubin), str(source),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"nvcc failed:\n{done.stderr[:2000]}")
        size = cubin.stat().st_size

    def number_of(pattern: str, default: int | None = None) -> int:
        found = re.findall(pattern, done.stderr)
        if len(found) != 1 and (found or default is None):
            raise RuntimeError(f"expected one kernel in what ptxas says:\n{done.stderr[-2000:]}")
        return int(found[0]) if found else int(default or 0)

    return Usage(
        registers=number_of(r"Used (\d+) registers"),
        spill_stores=number_of(r"(\d+) bytes spill stores"),
        spill_loads=number_of(r"(\d+) bytes spill loads"),
        stack=number_of(r"(\d+) bytes stack frame"),
        shared=number_of(r"(\d+) bytes smem", 0) + dynamic,
        code=size,
    )


def measure(names: list[str] | None = None, arch: str = "sm_90a") -> dict[str, tuple[Usage, Usage]]:
    """What kernels take, stripped and traced.

    Args:
        names: some of :func:`kernels`, or ``None`` for all.
        arch: for which GPU to compile.
    """
    chosen = [name for name in kernels() if names is None or name in names]
    sources = {(name, traced): generated(name, traced, arch) for name in chosen for traced in (False, True)}
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:  # the work is nvcc's
        found = dict(zip(sources, pool.map(lambda source: usage(*source, arch), sources.values())))
    return {name: (found[name, False], found[name, True]) for name in chosen}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90a", help="compile for this GPU (default %(default)s)")
    parser.add_argument("--kernels", nargs="+", choices=list(kernels()), metavar="NAME", help="only these")
    options = parser.parse_args()
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")

    print(f"{options.arch}; stack and spills in bytes a thread, shared memory in bytes a block, cubin in bytes")
    heads = ("registers", "spill st.", "spill ld.", "stack", "shared", "cubin")
    print(f"{'':22s}{'':9s}" + "".join(f"{head:>10s}" for head in heads))
    worse = []
    for name, pair in measure(options.kernels, options.arch).items():
        for build, used in zip(("stripped", "traced"), pair):
            fields = (used.registers, used.spill_stores, used.spill_loads, used.stack, used.shared, used.code)
            print(f"{name if build == 'stripped' else '':22s}{build:9s}" + "".join(f"{field:10d}" for field in fields))
        stripped, traced = pair
        if traced.spills and not stripped.spills:
            worse.append(name)
    print(f"spills where the stripped kernel has none: {', '.join(worse) or 'none'}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
