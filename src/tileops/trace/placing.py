"""Recording calls around copies, moved in generated CUDA source to where TileLang put the copies.

``copies.py`` says why it has to be done here. A kernel's source carries its plan as a comment; TileLang's callback for
CUDA post-processing reads it, and no other source is touched. Lines are moved or taken out, never changed otherwise,
but for the loop's variable in a payload, which has another name on the producer's side. What the source doesn't allow
is left out of the timeline, and told with the marker's file and line.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from .auto.operations import author_s, split
from .auto.syntax import LOCAL, SHARED, Kernel, Statement, UnreadableError, identifiers, parse
from .errors import TraceWarning

CALLBACK = "tilelang_callback_cuda_postproc"
COMMENT = "// tileops.trace moves: "
KERNEL = 'extern "C" __global__'
MARK = "tileops_mark"
FIXED = 3  # arguments of a recording call ahead of its payload: group, site, events

_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")  # not a member's

_lock = threading.Lock()
_installed: Placed | None = None


@dataclass(frozen=True)
class Move:
    """A recording call that belongs to a copy.

    Attributes:
        site: its site, which no other call has.
        copy: the copy, by its number in the loop.
        behind: whether it belongs behind the copy, or ahead of it.
        token: tells its range's calls from those of others; -1 for an instant mark.
        what, file, line: the range or mark, and where the author wrote it.
    """

    site: int
    copy: int
    behind: bool
    token: int
    what: str
    file: str
    line: int


@dataclass(frozen=True)
class Plan:
    """What is to be moved.

    Attributes:
        buffers: the buffers that the loop's copies fill, in order.
        moves: the recording calls, in the order in which they run.
    """

    buffers: tuple[str, ...]
    moves: tuple[Move, ...]

    @property
    def comment(self) -> str:
        """The line that carries the plan in a kernel's source."""
        return f"{COMMENT}{json.dumps(asdict(self), separators=(',', ':'))}\n"

    def ranges(self) -> list[list[Move]]:
        """The calls of each range, in the order in which ranges begin; an instant mark is one on its own."""
        found: dict[Any, list[Move]] = defaultdict(list)
        for move in self.moves:
            found[move.token if move.token >= 0 else ("mark", move.site)].append(move)
        return [*found.values()]


def placed_in_what_is_generated() -> None:
    """Lets TileLang's CUDA post-processing callback move recording calls from now on, in sources that ask for it.

    It stays registered, since kernels are compiled when their author asks TileLang for it. A callback that is already
    there runs behind it.
    """
    global _installed
    import tvm_ffi

    with _lock:
        previous = tvm_ffi.get_global_func(CALLBACK, allow_missing=True)
        if came_in_place_of(previous) is not None:
            return

        def callback(source: Any, target: Any = None) -> str:
            made = place(str(source))
            return made if previous is None else str(previous(made, target))

        tvm_ffi.register_global_func(CALLBACK, f=callback, override=True)
        _installed = Placed(tvm_ffi.get_global_func(CALLBACK), previous)


class Placed(NamedTuple):
    """A registered callback of this module's, and the one that it came in place of, which it calls."""

    callback: Any
    previous: Any


def came_in_place_of(callback: Any) -> Placed | None:
    """What is known of a registered callback, if it is this module's last one."""
    return _installed if _installed is not None and callback == _installed.callback else None


@contextlib.contextmanager
def placed_behind() -> Iterator[None]:
    """Registers that callback again behind what restores the one before, if it was registered inside.

    Kernels that were lowered inside may be compiled later.
    """
    global _installed
    before = _installed
    try:
        yield
    finally:
        if _installed is not before:
            _installed = before  # one that is registered still is enough
            placed_in_what_is_generated()


def place(source: str) -> str:
    """Generated source with its recording calls where the copies are; warns of each range that has no such place."""
    at = source.find(COMMENT)
    if at < 0:
        return source
    line_end = source.index("\n", at)
    raw = json.loads(source[at + len(COMMENT) : line_end])
    plan = Plan(tuple(raw["buffers"]), tuple(Move(**move) for move in raw["moves"]))
    source = source[:at] + source[line_end + 1 :]
    start = source.rfind(KERNEL)  # behind the prototypes, and behind the recorder
    head, text = source[:start], source[start:]
    try:
        return head + _Placer(text, parse(text), plan).made()
    except UnreadableError as reason:
        for moves in plan.ranges():
            _warn(moves[0], f"is not in the timeline: {reason}")
        return source


def _warn(move: Move, text: str) -> None:
    warnings.warn_explicit(f"{move.what} {text}", TraceWarning, move.file, move.line)


# ---------------------------------------------------------------------------------------------------------------------


class _RefusedError(ValueError):
    """A range that can't be placed; its text is the reason."""


class _Call(NamedTuple):
    """A recording call as it stands in the source, and the loop around it."""

    statement: Statement
    loop: Statement | None


class _Line(NamedTuple):
    """A line to put in; at one place ends come first, and what is alike stays in the author's order."""

    at: int
    begins: bool
    number: int
    text: str


@dataclass
class _Fill:
    """A piece of the producer's code that fills a buffer.

    Attributes:
        buffer: the author's name of it.
        start, end: its span.
        block: the span of the ``if`` for one elected thread that it stands in, with others or alone.
        guards: the conditions around it inside the loop.
    """

    buffer: str
    start: int
    end: int
    block: tuple[int, int] | None
    guards: tuple[str, ...]


@dataclass
class _Producer:
    """The producer's side of a split kernel: its loop, what is declared or written on the other side, and its fills."""

    loop: Statement
    foreign: set[str]
    fills: list[_Fill]


class _Placer:
    def __init__(self, text: str, kernel: Kernel, plan: Plan):
        self._raw = text.encode()
        self._kernel = kernel
        self._plan = plan
        self._names = {*plan.buffers}

    def made(self) -> str:
        calls = self._calls()
        producer = self._producer({call.statement.start for found in calls.values() for call in found})
        if producer is None:
            for moves in self._plan.ranges():
                if moves[0].token >= 0:  # an instant mark holds nothing
                    _warn(
                        moves[0],
                        "may hold less than was written: TileLang has not specialized this kernel's warps, and moves "
                        "the copies of a T.Pipelined loop to another iteration",
                    )
            return self._raw.decode()
        cut: list[Statement] = []
        lines: list[_Line] = []
        for moves in self._plan.ranges():
            try:
                lines += self._placed(moves, calls, producer)
            except _RefusedError as reason:
                _warn(moves[0], f"is not in the timeline: {reason}")
            cut += [call.statement for move in moves for call in calls[move.site]]
        return self._written(cut, lines)

    # Reading ---------------------------------------------------------------------------------------------------------

    def _calls(self) -> dict[int, list[_Call]]:
        """The recording calls to move, by site."""
        found: dict[int, list[_Call]] = {move.site: [] for move in self._plan.moves}

        def visit(statements: tuple[Statement, ...], loop: Statement | None) -> None:
            for one in statements:
                if one.kind == "expression" and len(one.calls) == 1 and one.calls[0].name.startswith(MARK):
                    site = one.calls[0].arguments[1]
                    if site.isdigit() and int(site) in found:
                        found[int(site)].append(_Call(one, loop))
                visit(one.body, one if one.loop else loop)
                visit(one.otherwise, loop)

        visit(self._kernel.statements, None)
        return found

    def _producer(self, calls: set[int]) -> _Producer | None:
        """The side of a split by threads that holds none of the calls and has thread 0; ``None`` without a split."""
        for one in _all(self._kernel.statements):
            if one.kind != "if" or not one.otherwise or "threadIdx" not in one.condition:
                continue
            then, other = split(one.condition, (0, self._kernel.threads or 1 << 20))
            arms = [(one.body, one.otherwise, then), (one.otherwise, one.body, other)]
            for own, others, threads in arms:
                below = [*_all(others)]
                if threads is None or threads[0] != 0 or not calls & {part.start for part in below}:
                    continue
                loops = [part for part in _all(own) if part.loop and any(self._filled(inner) for inner in part.body)]
                if not loops:
                    return None
                foreign = {write.target.partition("[")[0] for part in below for write in part.writes}
                foreign |= {identifiers(part.text.partition("=")[0])[-1] for part in below
                            if part.kind == "declaration" and identifiers(part.text.partition("=")[0])}  # fmt: skip
                foreign |= {part.loop.variable for part in below if part.loop}
                return _Producer(loops[0], foreign, [*self._fills(loops[0].body, ())])
        return None

    def _filled(self, statement: Statement) -> list[str]:
        """The author's names of the plan's buffers that a statement fills."""
        names: list[str] = []
        for call in statement.calls:
            if call.name.startswith("tma_load"):
                names += [name for text in call.arguments for name in identifiers(text)]
            elif call.name.startswith("cp_async_gs"):
                names += identifiers(call.arguments[0])
        for write in statement.writes:
            names += identifiers(write.target)
        shared = (name if name in self._names else author_s(name)
                  for name in names if self._kernel.scopes.get(name) == SHARED)  # fmt: skip
        return [*dict.fromkeys(name for name in shared if name in self._names)]

    def _fills(self, statements: tuple[Statement, ...], guards: tuple[str, ...]) -> Iterator[_Fill]:
        """What fills buffers in a list of statements, in order."""
        for one in statements:
            names = self._filled(one)
            if not names:
                continue
            if one.kind == "if" and "elect" in one.condition:
                start = one.body[0].start if one.body else one.start
                for part in one.body:
                    for name in self._filled(part):
                        yield _Fill(name, start, part.end, (one.start, one.end), guards)
                        start = part.end
            elif one.kind == "block" or (one.kind == "if" and "threadIdx" not in one.condition and not one.otherwise):
                inner = guards if one.kind == "block" else (*guards, one.condition)
                yield from self._fills(one.body, inner)
            else:
                for name in names:
                    yield _Fill(name, one.start, one.end, None, guards)

    # Placing ---------------------------------------------------------------------------------------------------------

    def _placed(self, moves: list[Move], calls: dict[int, list[_Call]], producer: _Producer) -> list[_Line]:
        """The lines of a range's calls, and where they go.

        Raises:
            _RefusedError: if there is no such place.
        """
        fills = self._fills_of(moves, producer)
        first, last = fills[0], fills[-1]
        if first.guards != last.guards:
            raise _RefusedError("TileLang put its copies under different conditions")
        start, end = first.start, last.end
        # One elected thread runs a block. A range that is a part of it has to begin and end inside.
        if all(self._is_last_in_block(last, producer) if move.behind else self._is_first_in_block(first, producer)
               for move in moves):  # fmt: skip
            start, end = (first.block or (start, end))[0], (last.block or (start, end))[1]
        made = []
        for move in moves:
            if len(calls[move.site]) != 1:
                raise _RefusedError(f"its marker stands {len(calls[move.site])} times in what TileLang generated")
            line = self._line(calls[move.site][0], producer)
            made.append(_Line(end if move.behind else start, not move.behind, self._plan.moves.index(move), line))
        return made

    def _fills_of(self, moves: list[Move], producer: _Producer) -> list[_Fill]:
        """The producer's code of the copies between a range's begin and end, in order.

        Raises:
            _RefusedError: if it can't be told, or if there is other copies' code in between.
        """
        first, last = moves[0].copy, moves[-1].copy
        here, there = _runs(self._plan.buffers), _runs([fill.buffer for fill in producer.fills])
        own: list[int] = []
        for name, begin, end in here:
            if last < begin or end <= first:
                continue
            same = [run for run in there if run[0] == name]
            turns = [run for run in here if run[0] == name]
            if len(same) != len(turns):
                times = "not" if not same else f"{len(same)} times, not {len(turns)}"
                raise _RefusedError(f"on the producer's side TileLang fills {name!r} {times}")
            _, filled, done = same[turns.index((name, begin, end))]
            if first <= begin and end <= last + 1:
                own += range(filled, done)
            elif done - filled == end - begin:  # a piece of code for each copy
                own += range(filled + max(first - begin, 0), filled + min(last + 1, end) - begin)
            else:
                raise _RefusedError(
                    f"TileLang's code doesn't tell apart the copies into {name!r}, one behind the other"
                )
        own.sort()
        between = [producer.fills[at].buffer for at in range(own[0], own[-1]) if at not in own]
        if between:
            raise _RefusedError(f"TileLang moved the copy into {between[0]!r} in between")
        return [producer.fills[at] for at in own]

    def _is_first_in_block(self, fill: _Fill, producer: _Producer) -> bool:
        return all(one.start >= fill.start for one in producer.fills if one.block and one.block == fill.block)

    def _is_last_in_block(self, fill: _Fill, producer: _Producer) -> bool:
        return all(one.end <= fill.end for one in producer.fills if one.block and one.block == fill.block)

    def _line(self, call: _Call, producer: _Producer) -> str:
        """A call as it has to read on the producer's side."""
        text, one = call.statement.text, call.statement.calls[0]
        payload = ", ".join(one.arguments[FIXED:])
        if not payload:
            return text
        names = _counterparts(call.loop, producer.loop) if call.loop else {}
        moved = _renamed(payload, names)
        for name in _NAME.findall(payload):
            of_consumer = name in producer.foreign or self._kernel.scopes.get(name) in (LOCAL, SHARED)
            if name == "threadIdx" or (of_consumer and name not in names):
                raise _RefusedError(f"its payload {payload} is known to the consumer alone: use the loop's variable")
        return f"{one.name}({', '.join([*one.arguments[:FIXED], moved])});"

    def _written(self, cut: list[Statement], lines: list[_Line]) -> str:
        edits = [(one.start, one.end, "") for one in cut]
        edits += [(one.at, one.at, f"{self._indent(one.at)}{one.text}\n") for one in sorted(lines)]
        parts, done = [], 0
        for start, end, text in sorted(edits, key=lambda edit: edit[0]):  # stable: lines at one place stay in order
            parts += [self._raw[done:start], text.encode()]
            done = end
        return b"".join([*parts, self._raw[done:]]).decode()

    def _indent(self, at: int) -> str:
        """The indentation of the line at an offset; behind a block's last statement, of that."""
        text = self._raw[at : self._raw.index(b"\n", at)].decode()
        return text[: len(text) - len(text.lstrip())] + ("  " if text.lstrip().startswith("}") else "")


def _all(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    for one in statements:
        yield one
        yield from _all(one.body)
        yield from _all(one.otherwise)


def _runs(names: Sequence[str]) -> list[tuple[str, int, int]]:
    """Neighbours of one name as one: the name, the first one's position and that behind the last."""
    runs: list[tuple[str, int, int]] = []
    for at, name in enumerate(names):
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1], at + 1)
        else:
            runs.append((name, at, at + 1))
    return runs


def _counterparts(consumer: Statement, producer: Statement) -> dict[str, str]:
    """The consumer's names in its loop to the producer's of the same values: the loop's variable, and what follows."""
    here, there = consumer.loop, producer.loop
    assert here is not None
    assert there is not None
    names = {here.variable: there.variable}
    head = _renamed(f"{here.first};{here.condition};{here.step}", names)
    if head != f"{there.first};{there.condition};{there.step}":
        return {}
    known = {_value(one.text): name for one in producer.body if (name := _declared(one))}
    for one in consumer.body:
        name = _declared(one)
        same = known.get(_renamed(_value(one.text), names)) if name else None
        if same:
            names[name] = same
    return names


def _declared(statement: Statement) -> str:
    """The name that a declaration gives a value."""
    head, is_given, _ = statement.text.partition("=")
    return identifiers(head)[-1] if statement.kind == "declaration" and is_given and "[" not in head else ""


def _value(declaration: str) -> str:
    """A declaration's type and value, without its name."""
    head, _, value = declaration.partition("=")
    return f"{' '.join(head.split()[:-1])} = {value.strip()}"


def _renamed(text: str, names: dict[str, str]) -> str:
    return _NAME.sub(lambda found: names.get(found[0], found[0]), text)
