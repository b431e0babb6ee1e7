"""Markers: what a kernel's author writes, left in TIR as opaque calls.

A marker emits one external call whose first argument is a JSON text that says all there is to know about it. Nothing
is kept outside the IR under construction but the stack of open groups, which ``with`` unwinds also when a build
raises; builds that fail, interleave or run in several threads leave nothing behind for the next one.

The call's symbol is what a user meets who compiles such a kernel without ``trace.finalize``; it says what to do.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import numbers
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import tilelang.language as T
from tilelang import tvm
from tilelang.language.eager.builder import Builder
from tilelang.language.kernel import KernelLaunchFrame

from .errors import TraceError

tirx = tvm.tirx

SYMBOL = "tileops_trace_marker_left_in_kernel__return_trace_finalize_of_the_prim_func"
DEFAULT_GROUP, DEFAULT_LANE = "main", "main"

RANGE_BEGIN, RANGE_END, RECORD, DAG = "range_begin", "range_end", "record", "dag"
CAST_TO_INT32 = ("bool", "int8", "uint8", "int16", "uint16", "uint32")
FLOAT32_LIMIT = float.fromhex("0x1.ffffffp127")  # halfway from the largest float32 to the next: rounds to infinity

_identities = itertools.count()
_not_the_author = (os.path.dirname(__file__) + os.sep, contextlib.__file__)


class Place(NamedTuple):
    """A line of a file; as a text ``file:line``."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class GroupMark:
    """An entered ``trace.group``: its name, its lead thread and where it was written."""

    name: str
    lead: int
    file: str = ""
    line: int = 0

    @property
    def where(self) -> str:
        """``file:line`` of the group, empty for the group that is there without one."""
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(frozen=True)
class Marker:
    """One marker as it stands in the IR.

    Attributes:
        kind: one of this module's kinds.
        identity: tells apart two markers that are alike.
        group: the group around it.
        name, lane: as the author gave them; a ``dag`` has its source and destination there.
        token: the identity of the range's begin, for both of its ends.
        payload: ``""``, ``"i"`` (int32), ``"u"`` (uint32) or ``"f"`` (float32).
        shift: of a ``dag``.
        file, line: where the author wrote it.
    """

    kind: str
    identity: int
    group: GroupMark
    name: str
    lane: str
    token: int
    payload: str
    shift: int
    file: str
    line: int

    @property
    def where(self) -> str:
        """``file:line`` of the marker."""
        return f"{self.file}:{self.line}"

    @property
    def what(self) -> str:
        """What the author called it, such as ``range 'load'``."""
        return f"{self.kind.split('_')[0]} {self.name!r}"

    @classmethod
    def of(cls, stmt: Any) -> Marker | None:
        """The marker that a TIR statement is, or ``None``."""
        if not isinstance(stmt, tirx.Evaluate) or not isinstance(stmt.value, tirx.Call):
            return None
        call = stmt.value
        if getattr(call.op, "name", "") != "tirx.call_extern" or str(call.args[0].value) != SYMBOL:
            return None
        raw = json.loads(str(call.args[1].value))
        return cls(**{**raw, "group": GroupMark(**raw["group"])})


@dataclass(frozen=True)
class Token:
    """What ``range_start`` returns and ``range_end`` takes."""

    marker: Marker


class _Groups(threading.local):
    def __init__(self) -> None:
        self.stack: list[GroupMark] = []


_groups = _Groups()


def group(name: str, lead: int) -> Any:
    """See :meth:`tileops.trace.namespace.Trace.group`."""
    place = author()
    _text(place, "group", "name", name)
    if isinstance(lead, bool) or not isinstance(lead, int):
        raise TraceError(f"{place}: group {name!r}: lead must be an int, the recording thread, got {lead!r}")
    threads = _launched_threads(place, f"group {name!r}")
    if lead < 0 or (threads is not None and lead >= threads):
        block = "a thread is 0 or more" if threads is None else f"the block has threads 0 to {threads - 1}"
        raise TraceError(f"{place}: group {name!r}: lead {lead} is outside the block; {block}")
    return _group(GroupMark(name, lead, *place))


@contextmanager
def _group(mark: GroupMark) -> Iterator[None]:
    _groups.stack.append(mark)
    try:
        yield
    finally:
        _groups.stack.pop()


def range_start(name: str, lane: str, payload: Any) -> Token:
    """See :meth:`tileops.trace.namespace.Trace.range_start`."""
    place = author()
    _text(place, "range", "name", name)
    _text(place, f"range {name!r}", "lane", lane)
    identity = next(_identities)
    return Token(_emit(place, RANGE_BEGIN, name, lane, identity=identity, token=identity, payload=payload))


def range_end(token: Token) -> None:
    """See :meth:`tileops.trace.namespace.Trace.range_end`."""
    place = author()
    if not isinstance(token, Token):
        raise TraceError(f"{place}: range_end takes the token that range_start returned, got {token!r}")
    begin, now = token.marker, _current_group()
    if now.name != begin.group.name:
        raise TraceError(
            f"{place}: range {begin.name!r} is ended in group {now.name!r} but was started in group "
            f"{begin.group.name!r} at {begin.where}: end it in the group that started it"
        )
    _emit(place, RANGE_END, begin.name, begin.lane, token=begin.identity)


@contextmanager
def range(name: str, lane: str, payload: Any) -> Iterator[None]:
    """See :meth:`tileops.trace.namespace.Trace.range`."""
    token = range_start(name, lane, payload)
    try:
        yield
    except (Builder.PythonLoopBreak, Builder.PythonLoopContinue):
        # How TileLang leaves a loop that it unrolls while building. No other exception ends the range: the build is
        # given up, and another marker could only hide its error.
        range_end(token)
        raise
    range_end(token)


def record(name: str, payload: Any, lane: str) -> None:
    """See :meth:`tileops.trace.namespace.Trace.record`."""
    place = author()
    _text(place, "record", "name", name)
    _text(place, f"record {name!r}", "lane", lane)
    _emit(place, RECORD, name, lane, payload=payload)


def dag(src: str, dst: str, shift: int) -> None:
    """See :meth:`tileops.trace.namespace.Trace.dag`."""
    place = author()
    _text(place, "dag", "src", src)
    _text(place, "dag", "dst", dst)
    if isinstance(shift, bool) or not isinstance(shift, int):
        raise TraceError(f"{place}: dag({src!r}, {dst!r}): shift must be an int, got {shift!r}")
    _emit(place, DAG, src, dst, shift=shift)


def markers_in(stmt: Any) -> list[Marker]:
    """The markers in a statement."""
    found: list[Marker] = []

    def visit(node: Any) -> None:
        marker = Marker.of(node)
        if marker is not None:
            found.append(marker)

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return found


def author() -> Place:
    """Where the author's code called into this package: the innermost frame outside it and ``contextlib``."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_not_the_author):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)


def _emit(place: Place, kind: str, name: str, lane: str, *, identity: int | None = None, token: int = -1,
          payload: Any = None, shift: int = 0) -> Marker:  # fmt: skip
    what = f"{kind.split('_')[0]} {name!r}"
    _launched_threads(place, what)
    payload_kind, value = _payload(place, what, payload)
    identity = next(_identities) if identity is None else identity
    marker = Marker(kind, identity, _current_group(), name, lane, token, payload_kind, shift, *place)
    values = [] if value is None else [value]
    T.evaluate(T.call_extern("int32", SYMBOL, json.dumps(asdict(marker), sort_keys=True), *values))
    return marker


def _current_group() -> GroupMark:
    return _groups.stack[-1] if _groups.stack else GroupMark(DEFAULT_GROUP, 0)


def _payload(place: Place, what: str, payload: Any) -> tuple[str, Any]:
    """The payload's kind and its value as TIR."""
    if payload is None:
        return "", None
    if isinstance(payload, numbers.Integral):
        whole = int(payload)
        if not -(1 << 31) <= whole < 1 << 32:
            raise TraceError(f"{place}: {what}: payload {payload} does not fit into 32 bits")
        unsigned = whole >= 1 << 31
        return "u" if unsigned else "i", tirx.const(whole - (1 << 32 if unsigned else 0), "int32")
    if isinstance(payload, numbers.Real):
        real = float(payload)
        if math.isfinite(real) and abs(real) >= FLOAT32_LIMIT:
            raise TraceError(f"{place}: {what}: payload {payload} does not fit into a float32")
        # As its bits: TileLang prints a float's constant for C with seven digits.
        return "f", tirx.const(int(np.float32(real).view(np.int32)), "int32")
    value = payload
    if isinstance(value, tirx.Buffer) and value.scope() == "local.var":
        value = tirx.BufferLoad(value, [0])
    if hasattr(value, "asobject"):  # a comparison that is still to be made
        value = value.asobject()
    dtype = str(value.dtype) if isinstance(value, tirx.PrimExpr) else ""
    if dtype in ("int32", "float32"):
        return dtype[0], value
    if dtype in CAST_TO_INT32:
        return "u" if dtype == "uint32" else "i", T.cast(value, "int32")  # of uint32 it keeps the bits
    got = f'an expression of type {dtype}: convert it, e.g. T.cast(x, "int32")' if dtype else repr(payload)
    raise TraceError(
        f"{place}: {what}: a payload is a 32-bit integer or a float32, Python or a runtime expression; got {got}"
    )


def _text(place: Place, what: str, argument: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise TraceError(f"{place}: {what}: {argument} must be a text that is not empty, got {value!r}")


def _launched_threads(place: Place, what: str) -> int | None:
    """The block's number of threads, ``None`` where TileLang is left to choose it; raises outside a kernel."""
    frame = KernelLaunchFrame.Current()
    if frame is None:
        raise TraceError(f"{place}: {what}: a marker must stand inside `with T.Kernel(...)`")
    try:
        return int(frame.get_num_threads())
    except ValueError:
        return None
