"""Matrix multiplication kernels."""

from .dense import build_gemm, build_gemm_unaligned, default_config, is_aligned

__all__ = ["build_gemm", "build_gemm_unaligned", "default_config", "is_aligned"]
