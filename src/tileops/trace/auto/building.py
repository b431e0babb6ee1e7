"""Builds of kernels that record without a marker in them.

The recorder's source and its calls can only be put into what TileLang generates, in its CUDA post-processing callback.
That callback isn't part of the kernel cache's key and can't add a parameter. So the PrimFunc gets both first: a
parameter ``slots``, an attribute that says how the build differs, and one opaque call that marks the source as meant.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from typing import Any

import tilelang.language as T
from tilelang import tvm

from ..lowering import IMPORT_SOURCE, ROOT_BLOCK, device_source
from ..sites import AUTO_ATTRIBUTE
from .rewrite import PLACEHOLDER, REFUSED_COMMENT, instrument, is_placeholder, without_placeholder
from .syntax import UnreadableError

tirx = tvm.tirx

CALLBACK = "tilelang_callback_cuda_postproc"
_callback_lock = threading.RLock()


def with_slots(func: Any, level: str, max_events: int | None) -> Any:
    """A PrimFunc with a last parameter ``slots``, an input of any length, which the build puts recorder calls in for.

    Raises:
        UnreadableError: if it's no PrimFunc with one kernel.
    """
    name = _unused("slots", {b.name for b in func.buffer_map.values()} | {param.name for param in func.params})
    words = tirx.Var(f"{name}_words", "int32")
    slots = tirx.decl_buffer((words,), "int64", name=name)
    handle = tirx.Var(f"{name}_handle", "handle")
    placeholder = tirx.Evaluate(T.call_extern("int32", PLACEHOLDER, slots.access_ptr("w")))
    roots: list[Any] = []

    def root(block: Any) -> Any:
        if block.name_hint != ROOT_BLOCK:
            return None
        roots.append(block)
        return tirx.SBlock(
            block.iter_vars, block.reads, block.writes, block.name_hint, tirx.SeqStmt([placeholder, block.body]),
            block.init, block.alloc_buffers, block.match_buffers, dict(block.annotations.items()),
        )  # fmt: skip

    body = tirx.stmt_functor.ir_transform(func.body, None, root, ["tirx.SBlock"])
    if len(roots) != 1:
        raise UnreadableError(f"its PrimFunc holds {len(roots)} `with T.Kernel(...)`; one can be instrumented")
    if PLACEHOLDER in str(roots[0].annotations.get(IMPORT_SOURCE, "")):
        raise UnreadableError("it is instrumented already")
    made = tirx.PrimFunc(
        [*func.params, handle], body, func.ret_type, {**dict(func.buffer_map.items()), handle: slots}, func.attrs
    )
    return made.with_attr(AUTO_ATTRIBUTE, f"{level} {max_events} {_digest()}")


def grid(func: Any) -> list[Any]:
    """The extents of a PrimFunc's grid along x, y and z: numbers or TIR expressions."""
    extents: list[Any] = [1, 1, 1]

    def visit(node: Any) -> None:
        if isinstance(node, tirx.For) and node.thread_binding is not None:
            tag = str(node.thread_binding.thread_tag)
            if tag.startswith("blockIdx."):
                extents["xyz".index(tag[-1])] = node.extent

    tirx.stmt_functor.post_order_visit(func.body, visit)
    return extents


@contextlib.contextmanager
def instrumenting(level: str, max_events: int | None) -> Iterator[None]:
    """Puts recorder calls into what is generated inside, where :func:`with_slots` asked for them.

    A callback that somebody else has registered still runs, first; leaving restores it.
    """

    def filled(source: str, previous: Any, target: Any) -> str:
        if previous is not None:
            source = str(previous(source, target))
        return fill(source, level, max_events) if is_placeholder(source) else source

    with _callback_lock, chained(CALLBACK, filled):
        yield


@contextlib.contextmanager
def chained(name: str, process: Any) -> Iterator[None]:
    """Registers ``process(source, previous, target)`` as one of TileLang's callbacks while inside."""
    import tvm_ffi

    previous = tvm_ffi.get_global_func(name, allow_missing=True)

    def callback(source: Any, target: Any = None) -> str:
        return str(process(str(source), previous, target))

    tvm_ffi.register_global_func(name, f=callback, override=True)
    try:
        yield
    finally:
        if previous is None:
            tvm_ffi.remove_global_func(name)
        else:
            tvm_ffi.register_global_func(name, f=previous, override=True)


def fill(source: str, level: str, max_events: int | None) -> str:
    """Generated source with its recorder calls; where they can't be put in, as it was, with a comment that says why."""
    source, slots = without_placeholder(source)
    try:
        return instrument(source, slots, level, max_events=max_events).source
    except UnreadableError as reason:
        return f"{REFUSED_COMMENT}{' '.join(str(reason).split())}\n{source}"


@lru_cache(maxsize=1)
def _digest() -> str:
    """Tells builds of different versions of this package apart in TileLang's cache."""
    folder = resources.files(__package__)
    own = sorted((one for one in folder.iterdir() if one.name.endswith(".py")), key=lambda one: one.name)
    texts = [one.read_text(encoding="utf-8") for one in own]
    return hashlib.sha256("\0".join([*texts, device_source("recorder.cuh")]).encode()).hexdigest()[:16]


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
