"""What a kernel's name tells of the cores it computes on.

Libraries spell their tile's instruction: ``s16816`` is a tensor-core product of 16 × 8 × 16, ``simt`` is CUTLASS's word
for ordinary cores, ``nvjet`` are cuBLAS's kernels for Hopper and later. A name that says neither says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_TENSOR = re.compile(
    r"tensorop|nvjet|w?gmma|hmma|imma|_[sdhi]\d{3,5}(?:gemm|fprop|dgrad|wgrad|cudnn|_)|"
    r"[sh](?:884|1688|16816)|xmma_\w*(?:f16|bf16|tf32|e4m3|e5m2)|flash_(?:fwd|bwd)|fmha_cutlass|cublasLt\w*tensor",
    re.IGNORECASE,
)
_ORDINARY = re.compile(
    r"simt|(?:^|_)[sd]gemm_(?:\d|largek)|elementwise|reduce_kernel|layer_norm|softmax|CatArray|index_select|"
    r"fill_|copy_kernel|scudnn_\d|multi_tensor_apply"
)


def uses_tensor_cores(names: Iterable[str]) -> bool | None:
    """Whether kernels of these names compute on tensor cores.

    Args:
        names: of the kernels that take most of the time.

    Returns:
        True if one of them does, False if none can, None if a name leaves it open, or there is none.
    """
    names = list(names)
    if any(_TENSOR.search(name) for name in names):
        return True
    return False if names and all(_ORDINARY.search(name) for name in names) else None
