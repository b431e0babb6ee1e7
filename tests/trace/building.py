"""Builds kernels for the tests: generated source for any target, and kernels that run on the CPU."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tilelang
import tilelang.language as T

from tileops.trace import TraceWarning, trace

tvm = tilelang.tvm

HOPPER, AMPERE, CPU = "sm_90a", "sm_80", "c"


class NoTrace:
    """Stands in for ``trace`` where a kernel is wanted that never had a marker."""

    def group(self, *_: Any, **__: Any) -> Any:
        return contextlib.nullcontext()

    range = group

    def range_start(self, *_: Any, **__: Any) -> None:
        return None

    range_end = record = dag = range_start


no_trace = NoTrace()


def target_of(arch: str) -> Any:
    return tvm.target.Target("c" if arch == CPU else {"kind": "cuda", "arch": arch})


def source(func: Any, arch: str = HOPPER) -> str:
    """What TileLang generates from a PrimFunc."""
    target = target_of(arch)
    with target:
        return str(tilelang.lower(func, target=target).kernel_source)


def lowered(func: Any, arch: str = HOPPER, max_events: int = 256, quiet: bool = True) -> Any:
    """The PrimFunc that records."""
    with target_of(arch), warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore", TraceWarning)
        return trace.lower(func, max_events)


def traced_source(func: Any, arch: str = HOPPER, **options: Any) -> str:
    """What TileLang generates from a PrimFunc with markers, once it records."""
    return source(lowered(func, arch, **options), arch)


def body(text: str) -> str:
    """The kernel's definition in generated source: what follows the last prototype."""
    at = text.rfind('extern "C" __global__')
    if at < 0:
        at = text.rfind("#ifdef __cplusplus\nextern")
    return text[at:]


def calls(text: str) -> list[str]:
    """The recording calls in the kernel's definition, in order, without their spaces."""
    found = re.findall(r"^\s*(tileops_(?:open|mark|close)\w*\(.*\));$", body(text), re.M)
    return [call.replace(" ", "") for call in found]


def joined(sources: Mapping[str, str]) -> str:
    """Generated CUDA sources of one kernel each as a single one: nvcc mostly reads headers, which are the same in all.

    A kernel's name and, in the compiler's messages, its file's name are its key.
    """
    texts = []
    for number, (name, text) in enumerate(sources.items()):
        kernels = {*re.findall(r'^extern "C" __global__ void .*?(\w+)\((?!\d)', text, re.M)}
        assert len(kernels) == 1, kernels
        text = re.sub(rf"\b{kernels.pop()}\b", name, text)
        text = text.replace("tileops_trace", f"tileops_trace{number}")  # each brings its own recorder
        texts.append(f'#line 1 "{name}.cu"\n{text}\n')
    return "".join(texts)


def without_tracing(text: str) -> str:
    """The kernel's definition less what tracing added to it: calls, an ``if`` around nothing but calls, a parameter."""
    kept = "\n".join(line for line in body(text).splitlines() if not re.match(r"\s*tileops_\w+\(.*\);$", line))
    kept = re.sub(r"\n *if \(.*\) \{\n *\}(?! else)", "", kept)
    return kept.replace(", int64_t* __restrict__ slots", "").rstrip()


def line_of(module: Any, text: str, after: str = "") -> int:
    """The number of the one line in a module's file that holds ``text``, or of the first behind ``after``."""
    lines = Path(module if isinstance(module, str) else module.__file__).read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if after in line)
    found = [number + 1 for number, line in enumerate(lines) if number >= first and text in line]
    assert after or len(found) == 1, found
    return found[0]


def cpu_kernel(make: Callable[[], Any], traced: bool = True, outputs: int = 1, **options: Any) -> Any:
    """A kernel compiled for the CPU target from a function that makes its PrimFunc."""

    @tilelang.jit(out_idx=trace.out_idx(outputs, traced), target="c", execution_backend="cython")
    def factory() -> Any:
        return trace.finalize(make(), traced=traced, **options)

    return factory()


__all__ = [
    "AMPERE",
    "CPU",
    "HOPPER",
    "NoTrace",
    "T",
    "body",
    "calls",
    "cpu_kernel",
    "joined",
    "line_of",
    "lowered",
    "no_trace",
    "source",
    "target_of",
    "traced_source",
    "tvm",
    "without_tracing",
]  # fmt: skip
