"""Operators: what users call."""

from .gemm import GemmOp

__all__ = ["GemmOp"]
