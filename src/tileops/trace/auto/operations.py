"""What a kernel spends time on: its statements as named operations, each run by one role's threads.

Two passes of :mod:`syntax`'s statements: a statement's kind follows from the calls and assignments inside it, and a
list of statements becomes a list of operations, in which neighbours of one kind are one operation. What is between them
(declarations, counters) stays as steps, because :mod:`barriers` has to count with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .mixed import is_mark
from .syntax import DESCRIPTOR, GLOBAL, LOCAL, SHARED, Call, Kernel, Statement, identifiers

LEVELS = ("roles", "ops", "all")

# Kinds of operations. The order in which they win where a statement holds several is that of _MATTERS.
WAIT, ARRIVE, LOAD, STORE, GEMM, REDUCE = "wait", "arrive", "load", "store", "gemm", "reduce"
COPY_WAIT, GEMM_WAIT, STORE_WAIT, BARRIER, GRID, REGISTERS = (
    "copy wait", "gemm wait", "store wait", "barrier", "grid wait", "registers"
)  # fmt: skip
COPY, FILL, COMPUTE, SETUP, NOTHING = "copy", "fill", "compute", "setup", ""

_OF_CALL = {
    "arrive": ARRIVE, "arrive_and_expect_tx": ARRIVE, "mbarrier_arrive": ARRIVE, "mbarrier_arrive_expect_tx": ARRIVE,
    "mbarrier_cp_async_arrive": ARRIVE, "mbarrier_cp_async_arrive_noinc": ARRIVE, "tcgen05_mma_arrive": ARRIVE,
    "wait": WAIT, "mbarrier_wait": WAIT, "try_wait": WAIT,
    "cp_async_commit": LOAD, "cp_async_wait": COPY_WAIT,
    "warpgroup_wait": GEMM_WAIT, "wait_wgmma": GEMM_WAIT,
    "tma_store_arrive": STORE, "tma_store_wait": STORE_WAIT,
    "__syncthreads": BARRIER, "__sync_thread_partial": BARRIER, "syncthreads_partial": BARRIER,
    "cluster_sync": BARRIER, "cluster_wait": BARRIER, "cluster_arrive": BARRIER,
    "sync": BARRIER, "sync_grid": BARRIER, "__barrier_sync": BARRIER,
    "pdl_sync": GRID, "cudaGridDependencySynchronize": GRID,
    "warpgroup_reg_alloc": REGISTERS, "warpgroup_reg_dealloc": REGISTERS,
    "prefetch_tma_descriptor": SETUP, "init": SETUP, "fence_barrier_init": SETUP,
}  # fmt: skip
_OF_PREFIX = (
    ("tma_load", LOAD), ("cp_async_gs", LOAD), ("cp_async_bulk", LOAD),
    ("tma_store", STORE), ("tma_reduce", STORE), ("tma_add", STORE), ("Atomic", STORE), ("ptx_stmatrix", COPY),
    ("wgmma_", GEMM), ("mma_", GEMM), ("gemm_", GEMM), ("tcgen05mma", GEMM), ("tcgen05_mma", GEMM),
    ("AllReduce::", REDUCE), ("CumSum", REDUCE), ("warp_reduce", REDUCE),
)  # fmt: skip
_MATTERS = (
    WAIT, GRID, GEMM, LOAD, STORE, REDUCE, COPY, ARRIVE, COPY_WAIT, STORE_WAIT, GEMM_WAIT, BARRIER, REGISTERS, SETUP,
)  # fmt: skip
# A statement list that holds one of these is looked into.
_EVENTS = {WAIT, ARRIVE, COPY_WAIT, BARRIER, GRID, REGISTERS, STORE_WAIT}
_WAITS = {WAIT, COPY_WAIT, GEMM_WAIT, STORE_WAIT, BARRIER, GRID}
# At level "roles": what an operation counts as. A wait stays one of its own.
_COARSE = {
    GEMM: COMPUTE, REDUCE: COMPUTE, FILL: COMPUTE, COPY: COMPUTE, COMPUTE: COMPUTE, LOAD: LOAD, STORE: STORE,
    STORE_WAIT: STORE, GEMM_WAIT: COMPUTE,
}  # fmt: skip
_MERGES = {LOAD, STORE, COPY, FILL, COMPUTE, REDUCE, SETUP}
_WORDS = {LOAD: "load", STORE: "store", GEMM: "gemm", REDUCE: "reduce", COPY: "copy", FILL: "clear", COMPUTE: "compute"}
_MOST_NAMES = 3
_CONSTANT = re.compile(
    r"(make_\w+\()?\(*(broadcast_var\w*|-?0x[\dp.+\-a-f]+f?(/\*.*?\*/)?|-?[\d.]+f?|-?CUDART_INF_F|[\w:]+_t\(.*\))"
    r"(, broadcast_var\w*)*\)*",
    re.S,
)

Interval = tuple[int, int]  # threads, along x, from the first to behind the last


@dataclass(eq=False)
class Operation:
    """A piece of one statement list that is timed.

    Attributes:
        kind: one of this module's kinds.
        buffers: the buffers that it is named after.
        statements: what it consists of, in order.
        start, end: its span (offsets in bytes, whole lines).
        threads: the threads that run it.
        loop: an expression of the iteration of the loop around it, or nothing.
        waits: the mbarrier waits inside, as (barrier, parity) texts.
        arrivals: the mbarriers that it arrives at, or that count what it loads, each with the condition for it.
        inner: operations inside it that are timed as well.
        name: what it is called; waits get theirs once it is known who ends them.
    """

    kind: str
    buffers: list[str]
    statements: list[Statement]
    start: int
    end: int
    threads: Interval
    loop: str = ""
    waits: list[tuple[str, str]] = field(default_factory=list)
    arrivals: list[tuple[str, str]] = field(default_factory=list)
    inner: list[Operation] = field(default_factory=list)
    name: str = ""


@dataclass(eq=False)
class Repeat:
    """A loop that was looked into."""

    statement: Statement
    body: list[Node]


@dataclass(eq=False)
class Choice:
    """An ``if`` that was looked into."""

    statement: Statement
    then: list[Node]
    otherwise: list[Node]


@dataclass(eq=False)
class Step:
    """A statement that is not timed."""

    statement: Statement


Node = Operation | Repeat | Choice | Step


def operations(kernel: Kernel, level: str) -> list[Node]:
    """A kernel's statements as operations."""
    return _Finder(kernel, level).nodes(kernel.statements, (0, kernel.threads or 1 << 20), "")


def all_operations(nodes: list[Node]) -> Iterator[Operation]:
    """The operations of a tree in order, those inside others behind these."""
    for node in nodes:
        if isinstance(node, Operation):
            yield node
            yield from node.inner
        elif isinstance(node, Repeat):
            yield from all_operations(node.body)
        elif isinstance(node, Choice):
            yield from all_operations(node.then)
            yield from all_operations(node.otherwise)


def author_s(name: str) -> str:
    """A variable's name without the number that TileLang appends to a second one of that name."""
    return re.sub(r"_\d+$", "", name)


def kind_of(call: Call) -> str:
    """What a call does."""
    if call.name in ("sync", "wait", "arrive", "init", "try_wait") and not call.receiver:
        return NOTHING
    found = _OF_CALL.get(call.name)
    return found or next((kind for prefix, kind in _OF_PREFIX if call.name.startswith(prefix)), NOTHING)


class _Finder:
    def __init__(self, kernel: Kernel, level: str):
        self._scopes = kernel.scopes
        self._level = level

    def nodes(self, statements: tuple[Statement, ...], threads: Interval, loop: str) -> list[Node]:
        """A statement list as operations; those of neighbours that go together as one."""
        made: list[Node] = []
        for statement in statements:
            for node in self._node(statement, threads, loop):
                made.append(node)
                self._merge(made)
        return made

    def _merge(self, made: list[Node]) -> None:
        """Joins the last operation with the one ahead of it where they are one to a reader.

        What stands between two operations without being timed belongs to the second one, so that they share a record.
        """
        while self._merged(made):
            pass

    def _merged(self, made: list[Node]) -> bool:
        last = made[-1]
        if not isinstance(last, Operation):
            return False
        at = len(made) - 2
        while at >= 0 and isinstance(made[at], Step):
            at -= 1
        before = made[at] if at >= 0 else None
        if not isinstance(before, Operation) or before.threads != last.threads:
            return False
        steps = [part.statement for part in made[at + 1 : -1] if isinstance(part, Step)]
        if any(map(is_mark, steps)):  # where the author parts two operations, they are two
            return False
        last.start = before.end
        if not self._are_one(before, last, any(step.writes for step in steps)):
            return False
        before.kind = last.kind if last.kind != ARRIVE else before.kind
        before.statements += steps + last.statements
        before.buffers += [name for name in last.buffers if name not in before.buffers]
        before.end = last.end
        before.waits += last.waits
        before.arrivals += [barrier for barrier in last.arrivals if barrier not in before.arrivals]
        before.inner += last.inner
        del made[at + 1 :]
        return True

    def _are_one(self, before: Operation, last: Operation, counts: bool) -> bool:
        """Whether two neighbours are shown as one; ``counts`` says whether something is assigned between them."""
        if last.kind == ARRIVE:
            return before.kind not in _WAITS and self._level != "all" and not counts
        # An arrow leaves its range's end, so nothing may follow an arrival in it.
        if before.arrivals and before.arrivals != last.arrivals:
            return False
        if last.kind == before.kind:
            return last.kind in _MERGES
        # A thread's own part of a reduction, ahead of the part across threads, and what either starts from.
        starts = (before.kind, last.kind) in ((FILL, COMPUTE), (FILL, REDUCE), (COMPUTE, REDUCE))
        return starts and {*before.buffers} <= {*last.buffers}

    def _node(self, statement: Statement, threads: Interval, loop: str) -> list[Node]:
        kinds = self._kinds(statement)
        if statement.kind == "if":
            then, otherwise = split(statement.condition, threads)
            whole = then == threads and otherwise == threads
            if then is not None and (_is_role(then, threads) or (whole and kinds & _EVENTS)) and kinds:
                return [
                    Choice(
                        statement,
                        self.nodes(statement.body, then, loop),
                        self.nodes(statement.otherwise, otherwise or threads, loop),
                    )
                ]
            if then is not None and WAIT in kinds and kinds & {LOAD, GEMM, ARRIVE}:
                return [Choice(statement, self.nodes(statement.body, then, loop), [])]
        elif statement.kind in ("for", "while") and self._is_looked_into(statement, kinds):
            return [Repeat(statement, self.nodes(statement.body, threads, _iteration(statement, loop)))]
        elif statement.kind == "block" and kinds & _EVENTS and not (GEMM in kinds and not kinds & {WAIT, ARRIVE}):
            return self.nodes(statement.body, threads, loop)
        operation = self._operation(statement, kinds, threads, loop)
        return [Step(statement) if operation is None else operation]

    def _is_looked_into(self, statement: Statement, kinds: set[str]) -> bool:
        if statement.jumps and not kinds & _EVENTS:
            return False
        if kinds & {WAIT, ARRIVE, COPY_WAIT, GRID}:
            return True
        if statement.unrolled:
            return False
        return bool(kinds & _EVENTS) or (GEMM in kinds and bool(kinds & {LOAD, STORE, REDUCE}))

    def _kinds(self, statement: Statement) -> set[str]:
        return {kind for kind in map(kind_of, statement.calls) if kind}

    def _operation(self, statement: Statement, kinds: set[str], threads: Interval, loop: str) -> Operation | None:
        if statement.jumps or statement.kind in ("jump", "other"):
            return None
        kind = next((kind for kind in _MATTERS if kind in kinds), NOTHING)
        if kind == NOTHING or (kind == BARRIER and statement.writes):
            kind = self._moved(statement)
        if self._level == "roles":
            kind = _COARSE.get(kind, NOTHING if kind == REGISTERS else kind)
        if kind == NOTHING or (kind == SETUP and self._level != "all"):
            return None
        made = Operation(
            kind, self._buffers(statement, kind), [statement], statement.start, statement.end, threads, loop
        )
        for call in statement.calls:
            if kind_of(call) == WAIT:
                made.waits.append((call.receiver or call.arguments[0], call.arguments[-1] if call.arguments else ""))
        made.arrivals = [*dict.fromkeys(_arrivals(statement, ""))]
        if kind == GEMM and statement.kind == "block" and self._level != "roles":
            made.inner = [inner for part in statement.body for inner in self._inner(part, threads)]
        return made

    def _inner(self, statement: Statement, threads: Interval) -> Iterator[Operation]:
        kinds = self._kinds(statement)
        if statement.kind == "expression" and len(kinds) == 1 and kinds <= {GEMM_WAIT, BARRIER}:
            yield Operation(
                kinds.pop(), self._buffers(statement, BARRIER), [statement], statement.start, statement.end, threads
            )

    def _moved(self, statement: Statement) -> str:
        """What a statement without telling calls does, by the memory that it touches."""
        targets = [self._buffer(write.target) for write in statement.writes]
        scopes = {self._scopes[name] for name in targets if name}
        if not scopes:
            return NOTHING
        read = {self._scopes[name] for write in statement.writes for name in identifiers(write.value)
                if name in self._scopes}  # fmt: skip
        declared = [part for part in below(statement) if part.kind == "declaration"]
        read |= {self._scopes[name] for part in declared for name in identifiers(part.text.partition("=")[2])
                 if name in self._scopes}  # fmt: skip
        if GLOBAL in scopes:
            return STORE
        if GLOBAL in read:
            return LOAD
        if SHARED in scopes:
            return COPY
        if not read and all(_CONSTANT.fullmatch(write.value.strip()) for write in statement.writes):
            return FILL
        return COMPUTE

    def _buffer(self, text: str) -> str:
        return next((name for name in identifiers(text) if name in self._scopes), "")

    def _buffers(self, statement: Statement, kind: str) -> list[str]:
        """The buffers that an operation is named after."""
        found: list[str] = []
        for call in statement.calls:
            what = kind_of(call)
            arguments = [self._buffer(text) for text in call.arguments]
            if what == LOAD and call.name.startswith("tma_load"):
                found += [self._buffer(_loaded_by(call)[0])]
            elif what == STORE and call.name.startswith("tma_"):
                tensors = [name.removesuffix(DESCRIPTOR) for text in call.arguments for name in identifiers(text)]
                found += [name for name in tensors if self._scopes.get(name) == GLOBAL][:1]
            elif what in (LOAD, STORE, COPY):
                found += arguments[:1]
            elif what == GEMM:
                own = [name for name in arguments if self._scopes.get(name) == LOCAL]
                found += own[:1] if call.name.startswith("mma_") else own[-1:]
            elif kind == BARRIER and what == BARRIER and call.name == "__sync_thread_partial":
                found += call.arguments[:1]
        if kind not in (GEMM, BARRIER) and not any(found):
            scope = {LOAD: (SHARED, LOCAL), STORE: (GLOBAL,), COPY: (SHARED,)}.get(kind, (LOCAL, SHARED))
            written = [self._buffer(write.target) for write in statement.writes]
            kept = [name for name in written if self._scopes.get(name) in scope]
            if kind == REDUCE:  # it ends with an assignment to the author's buffer
                kept = kept[-1:]
            found += kept
        return [*dict.fromkeys(name for name in found if name)]


def _arrivals(statement: Statement, condition: str) -> Iterator[tuple[str, str]]:
    """The barriers that a statement arrives at, each with the conditions inside it for that."""
    if statement.body or statement.otherwise:
        inside = condition
        if statement.kind == "if":
            inside = f"{condition} && {statement.condition}" if condition else statement.condition
        for part in statement.body:
            yield from _arrivals(part, inside)
        for part in statement.otherwise:
            yield from _arrivals(part, "")
        return
    for call in statement.calls:
        if kind_of(call) == ARRIVE:
            yield call.receiver or call.arguments[0], condition
        elif call.name.startswith("tma_load") and len(call.arguments) > 2:
            yield _loaded_by(call)[1], condition


def _loaded_by(call: Call) -> tuple[str, str]:
    """Where a TMA load puts its data, and the barrier that counts it.

    It goes by a tensor map, as tma_load(map, barrier, to, ...), or by an address: tma_load(to, from, barrier, bytes).
    """
    by_map = call.arguments[0].endswith(DESCRIPTOR)
    to, barrier = (2, 1) if by_map else (0, 2)
    return (call.arguments[to], call.arguments[barrier]) if len(call.arguments) > 2 else ("", "")


def label(operation: Operation, level: str) -> str:
    """An operation's name, but for waits on an mbarrier."""
    kind = operation.kind
    if level == "roles" and kind in (COMPUTE, STORE):
        # Those that end with an arrival are told apart, because arrows are.
        return "epilogue" if kind == STORE else " ".join(["compute", *operation.buffers[: len(operation.arrivals)][:1]])
    if kind == STORE and all(call.name.startswith("Atomic") for call in _calls(operation) if kind_of(call) == STORE):
        atomic = any(kind_of(call) == STORE for call in _calls(operation))
        return f"{'atomic' if atomic else 'store'} {listed(operation.buffers)}"
    if kind in _WORDS:
        return f"{_WORDS[kind]} {listed(operation.buffers)}".strip()
    if kind == BARRIER:
        return f"barrier {listed(operation.buffers)}".strip()
    fixed = {
        COPY_WAIT: "wait cp.async", GEMM_WAIT: "wait wgmma", STORE_WAIT: "wait store", GRID: "wait grid",
        REGISTERS: "setmaxnreg", SETUP: "setup", ARRIVE: "arrive", WAIT: "wait",
    }  # fmt: skip
    return fixed[kind]


def _calls(operation: Operation) -> list[Call]:
    return [call for statement in operation.statements for call in statement.calls]


def listed(buffers: list[str]) -> str:
    """Some buffers' names, the first few of many."""
    names = [*dict.fromkeys(map(author_s, buffers))]
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")


def _iteration(statement: Statement, around: str) -> str:
    """The number of a loop's iteration; where the loop is one turn of a ring, the turns before count as well."""
    loop = statement.loop
    if loop is None:
        return around
    turn = re.fullmatch(rf"{loop.variable} < (\d+)", loop.condition)
    return f"({around}) * {turn[1]} + {loop.variable}" if around and statement.unrolled and turn else loop.variable


# ---------------------------------------------------------------------------------------------------------------------
# Threads


_THREAD = re.compile(r"\(?\(?\(int\)\s*threadIdx\.x\)?|threadIdx\.x")
_COMPARISON = re.compile(r"\(*T\)?(<=|>=|==|!=|<|>)\(?(\d+)\)*|\(*(\d+)\)?(<=|>=|==|!=|<|>)\(?T\)*")
_ELECT = re.compile(r"\btl_shuffle_elect<(\d+)>")
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def split(condition: str, threads: Interval) -> tuple[Interval | None, Interval | None]:
    """Of some threads, those that take an ``if`` and those that take its ``else``.

    Both are ``threads`` where the condition is the same for all of them, the first is ``None`` where it cannot be told,
    the second where they are none or no interval.
    """
    if "threadIdx" not in condition and "elect" not in condition:
        return threads, threads
    text = re.sub(r"\(int\)\s*threadIdx\.x|threadIdx\.x", "T", condition)
    text = re.sub(r"\s+", "", text).replace("(T)", "T")
    first, last = threads
    rest: Interval | None = None
    parts = text.strip("()").split("&&")
    for part in parts:
        elected, found = _ELECT.search(part), _COMPARISON.fullmatch(part)
        if elected:
            # One thread of every so many, counted from the block's first; of the whole block where that is 0.
            every = int(elected[1])
            first = -(-first // every) * every if every else first
            last = min(last, first + 1 if every or first == 0 else first)
            continue
        if "T" not in identifiers(part):
            if "threadIdx" in part or "elect" in part:
                return None, None
            continue
        if found is None:
            return None, None
        operator, number = (found[1], int(found[2])) if found[1] else (found[4], int(found[3]))
        if not found[1]:
            operator = _MIRRORED.get(operator, operator)
        if operator in ("<", "<="):
            bound = number + (operator == "<=")
            first, last, rest = first, min(last, bound), (max(first, bound), last)
        elif operator in (">", ">="):
            bound = number + (operator == ">")
            first, last, rest = max(first, bound), last, (first, min(last, bound))
        elif operator == "==":
            first, last, rest = max(first, number), min(last, number + 1), None
        else:
            return None, None
    if first >= last:
        return None, None
    if len(parts) > 1 or rest is None or rest[0] >= rest[1]:
        rest = None
    return (first, last), rest


def _is_role(then: Interval, threads: Interval) -> bool:
    """Whether a part of the threads is whole warps, so that its code is a role's."""
    return then != threads and then[0] % 32 == 0 and then[1] % 32 == 0


def below(statement: Statement) -> Iterator[Statement]:
    """A statement and all inside it."""
    yield statement
    for part in (*statement.body, *statement.otherwise):
        yield from below(part)
