"""Builds of kernels that record without a marker in them.

The recorder's source and its calls can only be put into what TileLang generates, in its CUDA post-processing callback.
That callback isn't part of the kernel cache's key and can't add a parameter. So the PrimFunc gets both first: for each
of its kernels a parameter ``slots`` and one opaque call that marks its source as meant, and an attribute that says how
the build differs.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import tilelang.language as T
from tilelang import tvm

from ..choice import Choice
from ..lowering import ROOT_BLOCK, device_source
from ..placing import CALLBACK, came_in_place_of
from ..sites import AUTO_ATTRIBUTE
from .notes import PLACEHOLDER, is_meant, meant, refused
from .rewrite import instrument
from .syntax import UnreadableError, functions

tirx = tvm.tirx

callback_lock = threading.RLock()


def with_slots(func: Any, level: str, max_events: int | None, choice: Choice | None = None) -> Any:
    """A PrimFunc with a last parameter ``slots`` for each of its kernels, which their recorder calls will write to.

    These are inputs of any length: ``slots``, ``slots_1`` and so on.

    Raises:
        UnreadableError: if it's no PrimFunc with a kernel.
    """
    if AUTO_ATTRIBUTE in (func.attrs or {}):
        raise UnreadableError("it is instrumented already")
    taken = {buffer.name for buffer in func.buffer_map.values()} | {param.name for param in func.params}
    added: dict[Any, Any] = {}  # of each kernel, the handle and the buffer

    def root(block: Any) -> Any:
        if block.name_hint != ROOT_BLOCK:
            return None
        number = len(added)
        name = _unused(f"slots_{number}" if number else "slots", taken)
        taken.add(name)
        slots = tirx.decl_buffer((tirx.Var(f"{name}_words", "int32"),), "int64", name=name)
        added[tirx.Var(f"{name}_handle", "handle")] = slots
        placeholder = tirx.Evaluate(T.call_extern("int32", PLACEHOLDER, number, slots.access_ptr("w")))
        return tirx.SBlock(
            block.iter_vars, block.reads, block.writes, block.name_hint, tirx.SeqStmt([placeholder, block.body]),
            block.init, block.alloc_buffers, block.match_buffers, dict(block.annotations.items()),
        )  # fmt: skip

    body = tirx.stmt_functor.ir_transform(func.body, None, root, ["tirx.SBlock"])
    if not added:
        raise UnreadableError("its PrimFunc holds no `with T.Kernel(...)`")
    made = tirx.PrimFunc(
        [*func.params, *added], body, func.ret_type, {**dict(func.buffer_map.items()), **added}, func.attrs
    )
    return made.with_attr(AUTO_ATTRIBUTE, f"{len(added)} {level} {max_events} {choice} {_digest()}")


def grids(func: Any) -> list[list[Any]]:
    """Of each kernel of a PrimFunc, its grid's extents along x, y and z: numbers or TIR expressions."""
    found: list[list[Any]] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.SBlock) and node.name_hint == ROOT_BLOCK:
            found.append([1, 1, 1])
        elif isinstance(node, tirx.For) and node.thread_binding is not None and found:
            tag = str(node.thread_binding.thread_tag)
            if tag.startswith("blockIdx."):
                found[-1]["xyz".index(tag[-1])] = node.extent

    # A kernel's grid stands around its root, and comes behind it in this order.
    tirx.stmt_functor.post_order_visit(func.body, visit)
    return found


@contextlib.contextmanager
def instrumenting(level: str, max_events: int | None, choice: Choice | None = None) -> Iterator[None]:
    """Puts recorder calls into what is generated inside, where :func:`with_slots` asked for them.

    A callback that somebody else has registered still runs, first; leaving restores it.
    """

    def filled(source: str, previous: Any, target: Any) -> str:
        if previous is not None:
            source = str(previous(source, target))
        return fill(source, level, max_events, choice) if is_meant(source) else source

    with callback_lock, chained(CALLBACK, filled):
        yield


class Chained:
    """One of TileLang's callbacks, as long as it is open: ``process(source, previous, target)``.

    A callback that somebody else has registered is its ``previous``, for it to run first.
    """

    def __init__(self, name: str, process: Any):
        self._name = name
        self._process = process
        self._registered: list[_Link] = []
        self._is_open = True
        self._here = _Here()
        self._register()

    def reached(self) -> None:
        """Registers again where a callback that was registered meanwhile need not call what was there before it."""
        with callback_lock:
            link = _link(_now(self._name))
            while link is not None and link not in self._registered:
                link = _link(link.previous)
            if link is None and self._is_open:
                self._register()

    def close(self) -> None:
        """Restores what was registered before; what somebody else has registered meanwhile stays, or stays away."""
        import tvm_ffi

        with callback_lock:
            self._is_open = False
            now, first = _now(self._name), self._registered[0].previous
            left = now
            while left is not None and left != first and (link := _link(left)) is not None:
                left = link.previous
            for link in self._registered:
                _links.remove(link)
            if left is None and now is not None:
                tvm_ffi.remove_global_func(self._name)
            elif left is not None and left != now:
                tvm_ffi.register_global_func(self._name, f=left, override=True)

    def _register(self) -> None:
        import tvm_ffi

        previous = _now(self._name)
        number = len(self._registered)

        def callback(source: Any, target: Any = None) -> str:
            under_way = self._here.under_way
            if number in under_way:  # called by what it calls itself
                return str(source)
            under_way.append(number)
            try:
                if not self._is_open or len(under_way) > 1:  # or called by what a newer one of these calls
                    return str(source) if previous is None else str(previous(source, target))
                return str(self._process(str(source), previous, target))
            finally:
                under_way.remove(number)

        tvm_ffi.register_global_func(self._name, f=callback, override=True)
        link = _Link(_now(self._name), previous)
        self._registered.append(link)
        _links.append(link)


@dataclass(frozen=True, eq=False)
class _Link:
    """A callback of this module's, and the one that it came in place of."""

    callback: Any
    previous: Any


_links: list[_Link] = []  # of all that are open


class _Here(threading.local):
    def __init__(self) -> None:
        self.under_way: list[int] = []


def _now(name: str) -> Any:
    import tvm_ffi

    return tvm_ffi.get_global_func(name, allow_missing=True)


def _link(callback: Any) -> _Link | None:
    """What is known of a registered callback, if it is this package's own."""
    placing = came_in_place_of(callback)
    if placing is not None:
        return _Link(*placing)
    return next((link for link in _links if link.callback == callback), None)


@contextlib.contextmanager
def chained(name: str, process: Any) -> Iterator[Chained]:
    """Registers ``process`` as one of TileLang's callbacks while inside."""
    made = Chained(name, process)
    try:
        yield made
    finally:
        made.close()


def fill(source: str, level: str, max_events: int | None, choice: Choice | None = None) -> str:
    """Generated source with its kernels' recorder calls; one that can't be instrumented is as it was, with a note."""
    for name in [function.name for function in functions(source)]:
        found = meant(source, name)
        if found is None:
            continue
        try:
            source = instrument(
                found.source, found.slots, level, max_events=max_events, kernel=name, number=found.number,
                choice=choice,
            ).source  # fmt: skip
        except UnreadableError as reason:
            source = refused(found.source, name, str(reason))
    return source


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
