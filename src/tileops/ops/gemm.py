"""The matrix multiplication operator."""

from __future__ import annotations

import torch

from tileops.kernels.gemm import build_gemm, build_gemm_unaligned, default_config, is_aligned
from tileops.trace import trace

_DTYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
_HOPPER = (9, 0)


class GemmOp:
    """Multiplies matrices of one shape and type on a Hopper GPU.

    ``a`` has shape (m, k), or (k, m) with ``trans_a``; ``b`` has shape (k, n), or (n, k) with ``trans_b``; the result
    has shape (m, n). Sums are kept in float32. While tracing is on (``trace.enable()``), a call also writes its
    timeline.

    Args:
        m: rows of the result, at least 1.
        n: columns of the result, at least 1.
        k: length of the sums, at least 1.
        dtype: ``torch.float16`` or ``torch.bfloat16``, of operands and result.
        trans_a: whether ``a`` comes transposed.
        trans_b: whether ``b`` comes transposed.
        config: arguments of the kernel's factory to use instead of those that suit the shape; see
            :func:`tileops.kernels.gemm.build_gemm`.

    Raises:
        ValueError: if the shape is empty or the type is another one.
    """

    def __init__(
        self,
        m: int,
        n: int,
        k: int,
        dtype: torch.dtype = torch.float16,
        trans_a: bool = False,
        trans_b: bool = True,
        *,
        config: dict[str, int] | None = None,
    ):
        if min(m, n, k) < 1:
            raise ValueError(f"m, n and k must be at least 1, got m={m}, n={n}, k={k}")
        if dtype not in _DTYPES:
            raise ValueError(f"dtype must be torch.float16 or torch.bfloat16, got {dtype}")
        self.m, self.n, self.k = m, n, k
        self.dtype, self.dtype_str = dtype, _DTYPES[dtype]
        self.trans_a, self.trans_b = trans_a, trans_b
        aligned = is_aligned(m, n, k, trans_a, trans_b)
        self._build = build_gemm if aligned else build_gemm_unaligned
        if config is None:
            config = default_config(m, n, k) if aligned else {}
        self.config = dict(config)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Multiplies ``a`` and ``b``.

        Args:
            a: (m, k), or (k, m) with ``trans_a``: contiguous, on a Hopper GPU, its data at a multiple of 16 bytes.
            b: (k, n), or (n, k) with ``trans_b``: likewise, on the same GPU.

        Returns:
            The product, (m, n).

        Raises:
            ValueError: if an operand is not as described; the message says which and what to change.
        """
        self._check("a", a, (self.k, self.m) if self.trans_a else (self.m, self.k))
        self._check("b", b, (self.n, self.k) if self.trans_b else (self.k, self.n))
        for name, operand in (("a", a), ("b", b)):
            self._check_place(name, operand)
        if a.device != b.device:
            raise ValueError(f"a is on {a.device} and b on {b.device}: move both to one GPU")
        compiled = self._build(
            self.m, self.n, self.k, self.dtype_str, self.trans_a, self.trans_b, traced=trace.enabled
        )(**self.config)
        return trace.run(compiled, (a, b), stem=f"gemm_{self.m}x{self.n}x{self.k}")

    __call__ = forward

    def _check(self, name: str, operand: torch.Tensor, shape: tuple[int, int]) -> None:
        if tuple(operand.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(operand.shape)}")
        if operand.dtype != self.dtype:
            raise ValueError(f"{name} must be of type {self.dtype}, got {operand.dtype}")
        if not operand.is_contiguous():
            raise ValueError(f"{name} must be contiguous, got strides {operand.stride()}: call .contiguous()")

    @staticmethod
    def _check_place(name: str, operand: torch.Tensor) -> None:
        if operand.device.type != "cuda":
            raise ValueError(f"{name} must be on a GPU, got {operand.device}: call .cuda()")
        if torch.cuda.get_device_capability(operand.device) != _HOPPER:
            raise ValueError(f"{name} is on {torch.cuda.get_device_name(operand.device)}: this kernel needs Hopper")
        if operand.data_ptr() % 16:
            raise ValueError(f"{name}'s data must start at a multiple of 16 bytes: pass a copy, {name}.clone()")
