"""Tensors that say they lie on a GPU: host code takes them, and device code would not."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tvm_ffi

CUDA = 2  # DLPack's number
SET_DEVICE = "__tvm_set_device"


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", _Device), ("dimensions", ctypes.c_int32), ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class OnGpu:
    """A vector of float32 in host memory, which DLPack takes for one on a GPU; it has to outlive what is made of it."""

    def __init__(self, values: np.ndarray):
        self._values = values.astype(np.float32)
        self._shape, self._strides = (ctypes.c_int64 * 1)(len(values)), (ctypes.c_int64 * 1)(1)
        tensor = _Tensor(
            self._values.ctypes.data, _Device(CUDA, 0), 1, _Type(2, 32, 1), self._shape, self._strides, 0
        )  # fmt: skip
        self._managed = _Managed(tensor, None, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def __dlpack__(self, **_: Any) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self._managed), b"dltensor", None)


@contextmanager
def any_device() -> Iterator[None]:
    """Lets host code choose a GPU that is not there."""
    before = tvm_ffi.get_global_func(SET_DEVICE)
    tvm_ffi.register_global_func(SET_DEVICE, f=lambda *_: None, override=True)
    try:
        yield
    finally:
        tvm_ffi.register_global_func(SET_DEVICE, f=before, override=True)
