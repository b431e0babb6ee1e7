"""Markers: what a kernel's author writes, left in TIR as opaque calls.

A marker emits one external call whose first argument is a JSON text that says all there is to know about it. Nothing
is kept outside the IR under construction but the stack of open groups, which ``with`` unwinds also when a build
raises; builds that fail, interleave or run in several threads leave nothing behind for the next one.

The call's symbol is what a user meets who compiles such a kernel without ``trace.finalize``; it says what to do.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import tilelang.language as T
from tilelang import tvm
from tilelang.language.kernel import KernelLaunchFrame

from .errors import TraceError

tirx = tvm.tirx

SYMBOL = "tileops_trace_marker_left_in_kernel__return_trace_finalize_of_the_prim_func"
DEFAULT_GROUP, DEFAULT_LANE = "main", "main"

RANGE_BEGIN, RANGE_END, RECORD, DAG = "range_begin", "range_end", "record", "dag"

_identities = itertools.count()


@dataclass(frozen=True)
class GroupMark:
    """An entered ``trace.group``: its name, its lead thread and where it was written."""

    name: str
    lead: int
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Marker:
    """One marker as it stands in the IR.

    Attributes:
        kind: one of this module's kinds.
        identity: tells apart two markers that are alike.
        group: the group around it.
        name, lane: as the author gave them; a ``dag`` has its source and destination there.
        token: the identity of the range's begin, for both of its ends.
        payload: ``""``, ``"i"`` or ``"f"``.
        shift: of a ``dag``.
        file, line: where the author wrote it.
    """

    kind: str
    identity: int
    group: GroupMark
    name: str
    lane: str = DEFAULT_LANE
    token: int = -1
    payload: str = ""
    shift: int = 0
    file: str = ""
    line: int = 0

    @property
    def where(self) -> str:
        """``file:line`` of the marker."""
        return f"{self.file}:{self.line}"

    @classmethod
    def of(cls, stmt: Any) -> Marker | None:
        """The marker that a TIR statement is, or ``None``."""
        if not isinstance(stmt, tirx.Evaluate) or not isinstance(stmt.value, tirx.Call):
            return None
        call = stmt.value
        if not isinstance(call.op, tvm.ir.Op) or call.op.name != "tirx.call_extern" or str(call.args[0].value) != SYMBOL:
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
    file, line = _author()
    _text("group", "name", name, file, line)
    if isinstance(lead, bool) or not isinstance(lead, int):
        raise TraceError(f"{file}:{line}: group {name!r}: lead must be an int, the recording thread, got {lead!r}")
    threads = _launched_threads(f"group {name!r}", file, line)
    if lead < 0 or (threads is not None and lead >= threads):
        block = f"the block has threads 0 to {threads - 1}" if threads is not None else "a thread is 0 or more"
        raise TraceError(f"{file}:{line}: group {name!r}: lead {lead} is outside the block; {block}")
    return _group(GroupMark(name, lead, file, line))


@contextmanager
def _group(mark: GroupMark) -> Iterator[None]:
    _groups.stack.append(mark)
    try:
        yield
    finally:
        _groups.stack.pop()


def range_start(name: str, lane: str, payload: Any) -> Token:
    """See :meth:`tileops.trace.namespace.Trace.range_start`."""
    file, line = _author()
    _text("range", "name", name, file, line)
    _text(f"range {name!r}", "lane", lane, file, line)
    identity = next(_identities)
    return Token(_emit(RANGE_BEGIN, identity, name, lane, file, line, token=identity, payload=payload))


def range_end(token: Token) -> None:
    """See :meth:`tileops.trace.namespace.Trace.range_end`."""
    file, line = _author()
    if not isinstance(token, Token):
        raise TraceError(f"{file}:{line}: range_end takes the token that range_start returned, got {token!r}")
    begin = token.marker
    now = _current_group()
    if now.name != begin.group.name:
        raise TraceError(
            f"{file}:{line}: range {begin.name!r} is ended in group {now.name!r} but was started in group "
            f"{begin.group.name!r} at {begin.where}: end it in the group that started it"
        )
    _emit(RANGE_END, next(_identities), begin.name, begin.lane, file, line, token=begin.identity)


@contextmanager
def range(name: str, lane: str, payload: Any) -> Iterator[None]:
    """See :meth:`tileops.trace.namespace.Trace.range`."""
    token = range_start(name, lane, payload)
    yield
    # Not in a `finally`: a build that raised inside the range is given up, and another marker would hide its error.
    range_end(token)


def record(name: str, payload: Any, lane: str) -> None:
    """See :meth:`tileops.trace.namespace.Trace.record`."""
    file, line = _author()
    _text("record", "name", name, file, line)
    _text(f"record {name!r}", "lane", lane, file, line)
    _emit(RECORD, next(_identities), name, lane, file, line, payload=payload)


def dag(src: str, dst: str, shift: int) -> None:
    """See :meth:`tileops.trace.namespace.Trace.dag`."""
    file, line = _author()
    _text("dag", "src", src, file, line)
    _text("dag", "dst", dst, file, line)
    if isinstance(shift, bool) or not isinstance(shift, int):
        raise TraceError(f"{file}:{line}: dag({src!r}, {dst!r}): shift must be an int, got {shift!r}")
    _emit(DAG, next(_identities), src, dst, file, line, shift=shift)


def _emit(kind: str, identity: int, name: str, lane: str, file: str, line: int, *, token: int = -1,
          payload: Any = None, shift: int = 0) -> Marker:  # fmt: skip
    what = f"{kind.split('_')[0]} {name!r}"
    _launched_threads(what, file, line)
    payload_kind, value = _payload(payload, what, file, line)
    marker = Marker(kind, identity, _current_group(), name, lane, token, payload_kind, shift, file, line)
    arguments = [json.dumps(asdict(marker), sort_keys=True)]
    T.evaluate(T.call_extern("int32", SYMBOL, *arguments, *([] if value is None else [value])))
    return marker


def _current_group() -> GroupMark:
    return _groups.stack[-1] if _groups.stack else GroupMark(DEFAULT_GROUP, 0)


def _payload(payload: Any, what: str, file: str, line: int) -> tuple[str, Any]:
    """The payload's kind and its value as TIR."""
    if payload is None:
        return "", None
    if isinstance(payload, bool):
        payload = int(payload)
    if isinstance(payload, int):
        if not -(1 << 31) <= payload < 1 << 32:
            raise TraceError(f"{file}:{line}: {what}: payload {payload} does not fit into 32 bits")
        return "i", tirx.const(payload - (1 << 32) if payload >= 1 << 31 else payload, "int32")
    if isinstance(payload, float):
        if math.isfinite(payload) and abs(payload) > 3.4028235677973366e38:
            raise TraceError(f"{file}:{line}: {what}: payload {payload} does not fit into a float32")
        return "f", tirx.const(payload, "float32")
    value = payload
    if isinstance(value, tirx.Buffer) and value.scope() == "local.var":
        value = tirx.BufferLoad(value, [0])
    if hasattr(value, "asobject"):
        value = value.asobject()
    dtype = str(value.dtype) if isinstance(value, tirx.PrimExpr) else ""
    if dtype == "float32":
        return "f", value
    if dtype in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"):
        return "i", value if dtype == "int32" else T.cast(value, "int32")
    got = f"an expression of type {dtype}" if dtype else repr(payload)
    raise TraceError(
        f"{file}:{line}: {what}: a payload is a 32-bit integer or a float32, Python or a runtime expression; got {got}"
        + (': convert it, e.g. T.cast(x, "int32")' if dtype else "")
    )


def _text(what: str, argument: str, value: Any, file: str, line: int) -> None:
    if not isinstance(value, str) or not value:
        raise TraceError(f"{file}:{line}: {what}: {argument} must be a text that is not empty, got {value!r}")


def _launched_threads(what: str, file: str, line: int) -> int | None:
    """The block's number of threads where it is known; raises outside a kernel."""
    frame = KernelLaunchFrame.Current()
    if frame is None:
        raise TraceError(f"{file}:{line}: {what}: a marker must stand inside `with T.Kernel(...)`")
    try:
        return int(frame.get_num_threads())
    except ValueError:  # TileLang knows the extents only where `threads=` was given.
        return None


def _author() -> tuple[str, int]:
    """File and line of the innermost frame outside this package and the standard library's contextlib."""
    package = __file__.rpartition("/")[0]
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if not file.startswith(package) and not file.endswith("contextlib.py"):
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
