"""Kineto's categories, under all the names that releases of PyTorch and makers of GPUs gave them."""

from __future__ import annotations

from ..columns import GPU_LABEL, KERNEL, LABEL, MEMCPY, MEMSET, OP, OVERHEAD, PYTHON, RUNTIME, SPAN, SYNC

KIND = {
    "cpu_op": OP,
    "Operator": OP,
    "operator": OP,
    "user_annotation": LABEL,
    "python_function": PYTHON,
    "Python": PYTHON,
    "cuda_runtime": RUNTIME,
    "cuda_driver": RUNTIME,
    "Runtime": RUNTIME,
    "runtime": RUNTIME,
    "hip_runtime": RUNTIME,
    "hip_driver": RUNTIME,
    "xpu_runtime": RUNTIME,
    "xpu_driver": RUNTIME,
    "mtia_runtime": RUNTIME,
    "privateuse1_runtime": RUNTIME,
    "privateuse1_driver": RUNTIME,
    "kernel": KERNEL,
    "Kernel": KERNEL,
    "gpu_memcpy": MEMCPY,
    "Memcpy": MEMCPY,
    "gpu_memset": MEMSET,
    "Memset": MEMSET,
    "gpu_user_annotation": GPU_LABEL,
    "cuda_sync": SYNC,
    "overhead": OVERHEAD,
    "cuda_profiler_range": OVERHEAD,
    "Trace": SPAN,
}
