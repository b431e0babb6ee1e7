"""The source that TileLang generated for the kernels a callable launches, as evidence of the path it took.

What stands in the source is what the compiler was given, not what it made of it, nor how well that runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

# What is looked for, and what it is. TileLang hides instructions behind functions of its headers, so these count too.
_TENSOR = {
    "WGMMA": r"wgmma",
    "tcgen05": r"tcgen05",
    "MMA": r"tl::mma_sync|mma\.sync|nvcuda::wmma|ldmatrix|ptx_ldmatrix|__builtin_amdgcn_mfma",
    "a GEMM of TileLang's templates": r"tl::gemm_(?:ss|rs|sr|rr|sp)|tl_templates/\w+/gemm",
}
_AROUND = {
    "TMA": r"tma_load|tma_store|CUtensorMap",
    "mbarriers": r"mbarrier|\bBarrier\b",
    "asynchronous copies": r"cp_async",
    "separate warps for loading": r"warpgroup_reg_(?:de)?alloc|setmaxnreg",
}
CAUTION = "The source alone proves nothing: the compiled code, and what it waits for, are another matter."


def kernels_of(work: Callable[[], object]) -> list[Any]:
    """The compiled TileLang kernels that a callable refers to.

    Args:
        work: such as ``lambda: kernel(a, b)``, or a kernel itself. Only what it names directly is seen.
    """
    code = getattr(work, "__code__", None)
    seen: list[Any] = [work, getattr(work, "func", None)]
    for cell in getattr(work, "__closure__", None) or ():
        try:
            seen.append(cell.cell_contents)
        except ValueError:  # a name that was not bound yet
            continue
    if code is not None:
        known = getattr(work, "__globals__", {})
        seen += [known[name] for name in code.co_names if name in known]
    found: list[Any] = []
    for kernel in seen:
        # A kernel, and not the factory of kernels that has a method of that name too.
        is_kernel = hasattr(kernel, "get_kernel_source") and hasattr(kernel, "prim_func")
        if is_kernel and not isinstance(kernel, type) and not any(kernel is other for other in found):
            found.append(kernel)
    return found


def generated_sources(work: Callable[[], object]) -> dict[str, str]:
    """The sources of the TileLang kernels that a callable refers to, by the kernel's name."""
    found: dict[str, str] = {}
    for kernel in kernels_of(work):
        try:
            source = str(kernel.get_kernel_source())
        except Exception:  # TileLang's backends have each their own, and evidence is worth no failure
            continue
        name = re.search(r"__launch_bounds__\([^)]*\)\s+(\w+)|\bint32_t\s+(\w+)\(", source)
        found[(name[1] or name[2]) if name else f"kernel {len(found) + 1}"] = source
    return found


def tensor_path(source: str) -> bool:
    """Whether a source takes the tensor cores' path."""
    return any(re.search(pattern, source) for pattern in _TENSOR.values())


def told(name: str, source: str) -> str:
    """What a source shows, as a sentence."""
    path = [what for what, pattern in _TENSOR.items() if re.search(pattern, source)]
    around = [what for what, pattern in _AROUND.items() if re.search(pattern, source)]
    cores = f"takes the tensor cores' path ({', '.join(path)})" if path else "shows no instruction of tensor cores"
    beside = f", with {', '.join(around)}" if around else ""
    return f"The generated source of {name} {cores}{beside}. {CAUTION}"
