"""Who ends whose wait on an mbarrier, found by counting.

Each role's code is run with nothing but its loops, its counters and its barriers, and every wait and arrival is noted
with the barrier it names at that moment. A wait for parity p ends with a phase of that parity, and the n-th arrival at
a barrier ends its n-th phase, so that each arrival finds the wait that it releases. Where the two are the same number
of occurrences apart every time, that number is the shift of an arrow between them; where they are not, or an index
cannot be told from the source, there is no arrow.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any

from .operations import Choice, Node, Operation, Repeat, Step
from .syntax import Statement, identifiers

# What one role's run may take: waits and arrivals, and turns of a loop whose length is not in the source.
MOST_EVENTS = 20_000
UNKNOWN_TURNS = 24

_CAST = re.compile(r"\((?:unsigned )?(?:int|bool|long long|char|short|u?int\d+_t|uint|unsigned)\)")
_MEMBER = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\.([xyz])\b")
_NODES = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Constant, ast.Name, ast.Load, ast.Subscript,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


@dataclass(frozen=True)
class Event:
    """A run of an operation, or a wait or arrival in it.

    Attributes:
        operation: the operation.
        occurrence: which of its runs.
        barrier: what it waits for or arrives at; ``None`` for the run itself.
        parity: of the phase that it waits for; ``None`` for an arrival.
    """

    operation: Operation
    occurrence: int
    barrier: tuple[str, int] | None = None
    parity: int | None = None


@dataclass
class _Run:
    """One role's run."""

    variables: dict[str, Any]
    recorded: set[Operation]
    events: list[Event] = field(default_factory=list)
    runs: Counter[int] = field(default_factory=Counter)


def events(nodes: list[Node], lead: int, recorded: set[Operation]) -> list[Event]:
    """The operations that thread ``lead`` comes by and records, in order, and their waits and arrivals."""
    start = {f"{name}_{axis}": 0 for name in ("threadIdx", "blockIdx") for axis in "xyz"}
    run = _Run({**start, "threadIdx_x": lead}, recorded)
    _follow(nodes, run)
    return run.events


def released(events: list[Event]) -> Iterator[tuple[Event, int]]:
    """The waits of a role's events, each with the phase that ends it; -1 for none, as at a ring's start."""
    last: dict[tuple[str, int], int] = {}
    for event in events:
        if event.parity is None or event.barrier is None:
            continue
        before = last.get(event.barrier, -1 if event.parity else -2)
        phase = before if before >= -1 and before % 2 == event.parity else before + 1
        if before == -2:
            phase = 0
        last[event.barrier] = phase
        yield event, phase


def sources(roles: list[list[Event]]) -> dict[Operation, set[Operation]]:
    """For each waiting operation, those that end its waits."""
    arrivals: dict[tuple[str, int], set[Operation]] = defaultdict(set)
    for role in roles:
        for event in role:
            if event.parity is None and event.barrier is not None:
                arrivals[event.barrier].add(event.operation)
    found: dict[Operation, set[Operation]] = defaultdict(set)
    for role in roles:
        for event in role:
            if event.parity is not None and event.barrier is not None:
                found[event.operation] |= arrivals[event.barrier]
    return found


def shifts(roles: list[list[Event]], name: Callable[[Operation], str]) -> dict[tuple[str, str], int]:
    """Arrows between names: (from, to) to how many occurrences the second is ahead.

    Args:
        roles: each role's events.
        name: an operation's name; operations of one name in one role are counted together.
    """
    arrived: dict[tuple[tuple[str, int], int], list[tuple[str, int]]] = defaultdict(list)
    for role in roles:
        phases: Counter[tuple[str, tuple[str, int]]] = Counter()
        for number, event in _numbered(role, name):
            if event.parity is None and event.barrier is not None:
                key = name(event.operation), event.barrier
                arrived[event.barrier, phases[key]].append((key[0], number))
                phases[key] += 1
    apart: dict[tuple[str, str], set[int]] = defaultdict(set)
    for role in roles:
        numbers = {id(event): number for number, event in _numbered(role, name)}
        for event, phase in released(role):
            assert event.barrier is not None
            for source, number in arrived.get((event.barrier, phase), ()):
                apart[source, name(event.operation)].add(numbers[id(event)] - number)
    return {pair: found.pop() for pair, found in apart.items() if len(found) == 1 and pair[0] != pair[1]}


def _numbered(role: list[Event], name: Callable[[Operation], str]) -> Iterator[tuple[int, Event]]:
    """A role's events with the number of their operation's run among those of its name."""
    seen: dict[tuple[Operation, int], int] = {}
    counts: Counter[str] = Counter()
    for event in role:
        key = event.operation, event.occurrence
        if key not in seen:
            seen[key] = counts[name(event.operation)]
            counts[name(event.operation)] += 1
        yield seen[key], event


# ---------------------------------------------------------------------------------------------------------------------
# Running


def _follow(nodes: list[Node], run: _Run) -> None:
    for node in nodes:
        if len(run.events) > MOST_EVENTS:
            return
        if isinstance(node, Operation):
            _operate(node, run)
        elif isinstance(node, Step):
            _assign(node.statement, run.variables)
        elif isinstance(node, Choice):
            taken = _value(node.statement.condition, run.variables)
            _follow(node.then if taken is None or taken else node.otherwise, run)
        else:
            for _ in _turns(node, run):
                _follow(node.body, run)


def _turns(node: Repeat, run: _Run) -> Iterator[None]:
    loop = node.statement.loop
    if loop is None:
        yield from [None] * UNKNOWN_TURNS
        return
    run.variables[loop.variable] = _value(loop.first, run.variables) or 0
    turns = 0
    while len(run.events) <= MOST_EVENTS and turns <= MOST_EVENTS:
        goes_on = _value(loop.condition, run.variables)
        if goes_on is None:
            goes_on = turns < UNKNOWN_TURNS
        if not goes_on:
            return
        yield
        turns += 1
        step = re.fullmatch(r"\w+\s*\+=\s*(\d+)|\w+\s*=\s*\(?\w+\s*\+\s*(\d+)\)?", loop.step)
        run.variables[loop.variable] += int(step[1] or step[2]) if step else 1


def _operate(operation: Operation, run: _Run) -> None:
    number = run.runs[id(operation)]
    run.runs[id(operation)] += 1
    recorded = operation in run.recorded
    if recorded:
        run.events.append(Event(operation, number))
    for barrier, parity in operation.waits if recorded else ():
        place, value = _place(barrier, run.variables), _value(parity, run.variables)
        if place is not None and value is not None:
            run.events.append(Event(operation, number, place, int(value) & 1))
    for barrier, condition in operation.arrivals if recorded else ():
        place = _place(barrier, run.variables)
        arrives = _value(condition, run.variables) if condition else True
        if place is not None and (arrives or arrives is None):
            run.events.append(Event(operation, number, place, None))
    for statement in operation.statements:
        _assign(statement, run.variables)


def _assign(statement: Statement, variables: dict[str, Any]) -> None:
    """Runs the assignment to a counter that a statement is."""
    if statement.kind == "expression" and len(statement.writes) == 1 and not statement.calls:
        write = statement.writes[0]
        name, _, index = write.target.partition("[")
        if identifiers(write.target)[:1] != [name.strip()]:
            return
        value = _value(write.value if write.operator == "=" else f"{write.target} {write.operator[0]} ({write.value})",
                       variables)  # fmt: skip
        if not index:
            variables[name] = value
        else:
            place = _value(index.rpartition("]")[0], variables)
            if place is not None:
                variables.setdefault(name, {})[place] = value
    elif statement.kind == "declaration" and "=" in statement.text and not statement.calls:
        head, _, value = statement.text.rstrip("; \n").partition("=")
        if re.fullmatch(r"(const )?(int|bool|uint|int64_t|uint32_t|int32_t) \w+ ", head):
            variables[identifiers(head)[-1]] = _value(value, variables)


def _place(barrier: str, variables: dict[str, Any]) -> tuple[str, int] | None:
    """The barrier that a text such as ``mbarrier[(ko % 3)]`` names."""
    name, bracket, index = barrier.strip().lstrip("(&*").partition("[")
    if not bracket:
        return (name, 0) if name.isidentifier() else None
    value = _value(index.rpartition("]")[0], variables)
    return None if value is None else (name, int(value))


def _value(text: str, variables: dict[str, Any]) -> Any:
    """An integer expression's value; ``None`` where it depends on what is not known."""
    code = _compiled(text)
    if code is None:
        return None
    try:
        return eval(code, {"__builtins__": {}}, variables)  # of nothing but numbers, names and operators
    except (TypeError, NameError, KeyError, ZeroDivisionError, ValueError, OverflowError, IndexError):
        return None


@lru_cache(maxsize=4096)
def _compiled(text: str) -> CodeType | None:
    """C to Python. The operators agree where nothing is negative, which barriers' indices and parities never are."""
    text = _MEMBER.sub(r"\1_\2", _CAST.sub("", text)).strip()
    text = re.sub(r"\b(\d+)(?:u|U|ll|LL|l|L)+\b", r"\1", text)
    text = text.replace("&&", " and ").replace("||", " or ").replace("/", "//")
    text = re.sub(r"!(?!=)", " not ", text)
    text = re.sub(r"(?:\w+::)*tl_shuffle_elect<\d+>\(\)", "1", text)
    text = re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", text))
    try:
        tree = ast.parse(text, mode="eval")
        if not all(isinstance(node, _NODES) for node in ast.walk(tree)):
            return None
        return compile(tree, "<kernel>", "eval")
    except (SyntaxError, ValueError):
        return None
