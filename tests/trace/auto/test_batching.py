"""Records that are held back: whichever way a thread takes, each is stored once, in order, and none is left."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.trace.auto import rewrite, syntax
from tileops.trace.auto.batching import BREAK, ENTER, LEAVE, Border, First, Flush, Mark, batched
from tileops.trace.batches import LARGEST
from tileops.trace.sites import BEGIN, END

from . import corpus, kernels


@dataclass
class Call:
    """A marker: its role, whether a GEMM is issued behind it, whether it has two sites; where it and the GEMM stand."""

    role: int
    has_shadow: bool = False
    is_conditional: bool = False
    at: int = -1
    shadow: int = -1


@dataclass
class Piece:
    """A loop or a branch; where it begins and ends, and where a loop's first call would stand.

    A loop that ends with a call of two sites, behind a call of the same role, is a counted one: its first begin is
    recorded with both.
    """

    is_loop: bool
    body: list[Any]
    is_counted: bool = False
    at: int = -1
    top: int = -1
    end: int = -1


def parts_of(program: list[Any]) -> list[Mark | Border]:
    """The calls of a program and the borders between them. Everything gets an offset of its own."""
    parts: list[Mark | Border] = []
    offsets, numbers = iter(range(10, 1 << 20)), itertools.count()

    def counted(piece: Piece, ahead: Any) -> bool:
        last = piece.body[-1] if piece.is_loop and piece.body else None
        return isinstance(last, Call) and last.is_conditional and isinstance(ahead, Call) and ahead.role == last.role

    def add(nodes: list[Any]) -> None:
        for ahead, node in zip([None, *nodes], nodes):
            node.at = next(offsets)
            if isinstance(node, Piece):
                entered, begin = parts[-1] if parts else None, (BEGIN, next(numbers))
                node.is_counted = counted(node, ahead)
                parts.append(Border(ENTER if node.is_loop else BREAK, node.at))
                node.top = next(offsets)
                add(node.body)
                if node.is_counted:
                    carried = parts[-1]
                    assert isinstance(entered, Mark)
                    assert isinstance(carried, Mark)
                    entered.events.append(begin)
                    carried.condition, carried.more = "goes on", [begin]
                    both = [*carried.events, begin]
                    carried.again = Mark(node.top, carried.role, both, entered=entered)
                node.end = next(offsets)
                parts.append(Border(LEAVE if node.is_loop else BREAK, node.end))
            else:
                node.shadow = next(offsets)
                shadow = node.shadow if node.has_shadow else None
                parts.append(Mark(node.at, node.role, [(END, next(numbers))], shadow=shadow))

    add(program)
    return parts


def way(program: list[Any], taken: Iterator[int], goes_on: bool = False) -> Iterator[tuple[int, bool]]:
    """The offsets that a thread passes, and whether another iteration follows the one that it is in.

    ``taken`` says how often it goes through each loop, and whether each branch; through counted ones twice at least.
    """
    for node in program:
        yield node.at, goes_on
        if isinstance(node, Piece):
            turns = next(taken)
            turns = (max(turns, 2) if node.is_counted else turns) if node.is_loop else turns % 2
            for turn in range(turns):
                yield node.top, goes_on
                yield from way(node.body, taken, turn + 1 < turns)
            yield node.end, goes_on
        else:
            yield node.shadow, goes_on


Events = list[tuple[str, int]]


def check(program: list[Any], taken: list[int]) -> None:
    """Runs a program's calls as the recorders of its roles would."""
    parts = parts_of(program)
    calls: dict[int, list[Mark | Flush | First]] = defaultdict(list)
    expected: dict[int, Events] = defaultdict(list)
    wanted = [(part.at, part.role, [*part.events], [*part.more]) for part in parts if isinstance(part, Mark)]
    for call in batched(parts):
        calls[call.at].append(call)
    held: dict[int, dict[int, Events]] = defaultdict(dict)
    late: dict[int, set[int]] = defaultdict(set)
    told: dict[int, dict[int, Events]] = defaultdict(dict)
    stored: dict[int, Events] = defaultdict(list)
    counted: dict[int, int] = defaultdict(int)  # of each role: the events that its calls say are recorded

    def store(role: int, records: int) -> None:
        if records:
            assert [*held[role]] == [*range(records)]
            assert not late[role]
            stored[role] += [event for place in range(records) for event in held[role][place]]
            held[role] = {}

    for at, goes_on in way(program, iter([*taken, *[1] * 10_000])):
        for place, role, events, more in wanted:
            if place == at:
                expected[role] += [*events, *more * goes_on]
        for call in calls[at]:
            if isinstance(call, First):
                told[call.role][int(call.top.how[-1])] = call.events
                counted[call.role] += len(call.events) - len(call.top.events)
                continue
            if isinstance(call, Flush):
                if call.late is not None:
                    place = int(call.late.how[-1])
                    late[call.role].remove(place)
                    told[call.role][place] = call.late.events
                store(call.role, call.records)
                continue
            how, place = call.how.strip("_0123456789"), int(call.how[-1:] or 1)
            place -= how not in ("held", "late")
            assert place == len(held[call.role])  # next to those that wait, none of which is replaced
            assert (how == "late") == (call.entered is not None)
            events = told[call.role][place] if how == "late" else [*call.events, *call.more * goes_on]
            held[call.role][place] = events
            counted[call.role] += len(call.events if how == "late" else events)
            if how == "late":
                late[call.role].add(place)
            if how in ("store", ""):
                store(call.role, place + 1)
            else:
                assert place < LARGEST - 1
    assert stored == expected  # so in order, each once
    assert counted == {role: len(events) for role, events in expected.items()}
    assert not any(held.values())


calls = st.builds(Call, st.integers(0, 1), st.booleans(), st.booleans())
straight = st.integers(0, 1).flatmap(
    lambda role: st.lists(st.builds(Call, st.just(role), st.booleans(), st.booleans()), min_size=1, max_size=9)
)
pieces = st.recursive(
    calls | st.builds(Piece, st.just(True), straight),
    lambda inside: st.builds(Piece, st.booleans(), st.lists(inside, max_size=6)),
    max_leaves=24,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, max_size=12), st.lists(st.integers(0, 3), max_size=30))
def test_each_record_is_stored_once_and_in_order(program: list[Any], taken: list[int]) -> None:
    check(program, taken)


def ways(program: list[Any]) -> list[str]:
    """How each call records, and what only stores: ``flush3``, ahead of it ``settle0`` for a record in two parts."""
    found = []
    for call in batched(parts_of(program)):
        if isinstance(call, Mark):
            found.append(call.how.removeprefix("_") or "alone")
        elif isinstance(call, First):
            found.append(f"first{call.top.how[-1]}")
        else:
            found += [f"settle{call.late.how[-1]}"] if call.late else []
            found += [f"flush{call.records}"] * bool(call.records)
    return found


def gemm(*behind: Any, ahead: int = 1, inner: int = 0) -> list[Any]:
    """A loop that waits, issues a GEMM, and ends with a call that has two sites."""
    body = [Call(0, has_shadow=True), *[Call(0) for _ in range(inner)], Call(0, is_conditional=True)]
    return [*[Call(0) for _ in range(ahead)], Piece(True, body), *behind]


LOOP_ENDS = {
    "what a loop leaves is stored with what follows": (
        gemm(Call(0), Call(0)), ["first0", "late0", "held1", "settle0", "flush2", "held0", "held1", "store3"],
    ),
    "or by itself": (gemm(), ["first0", "late0", "held1", "settle0", "flush2", "alone"]),
    "and ahead of a border": (
        gemm(Piece(False, [Call(0)])), ["first0", "late0", "held1", "settle0", "flush2", "alone", "alone"],
    ),
    "one is held until the next GEMM runs": (
        gemm(Call(0), ahead=2, inner=1),
        ["held0", "first1", "late1", "held2", "settle1", "flush3", "held0", "held1", "store3"],
    ),
    "too many to be held until the GEMM runs": (
        gemm(ahead=4, inner=2), ["held0", "held1", "held2", "store4", "held0", "held1", "held2", "store4"],
    ),
    "too few ahead of the loop": (gemm(ahead=0), ["held0", "store2"]),
    "one loop behind the other": (
        gemm(*gemm()),
        ["first0", "late0", "held1", "settle0", "flush2", "alone",
         "first0", "late0", "held1", "settle0", "flush2", "alone"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("program", "expected"), LOOP_ENDS.values(), ids=LOOP_ENDS)
def test_records_of_a_loop_are_stored_while_its_gemm_runs(program: list[Any], expected: list[str]) -> None:
    assert ways(program) == expected
    for turns in range(4):
        check(program, [turns] * 3)


def test_of_two_gemms_in_a_loop_each_hides_a_store() -> None:
    body = [Call(0, has_shadow=True), Call(0), Call(0), Call(0, has_shadow=True), Call(0), Call(0)]
    assert ways([Call(0), Call(0), Piece(True, body)]) == [
        "held0", "held1", "held2", "flush3", "held0", "held1", "held2", "flush3", "held0", "held1", "flush2",
    ]  # fmt: skip


@pytest.mark.parametrize("count", range(1, 10))
def test_straight_code_stores_as_seldom_as_it_can(count: int) -> None:
    stores = [way for way in ways([Call(0) for _ in range(count)]) if not way.startswith("held")]
    assert len(stores) == -(-count // LARGEST)


@pytest.mark.parametrize("level", ["roles", "ops", "all"])
@pytest.mark.parametrize("name", [*corpus.names("sm_90a"), "through_shared"])
def test_a_gemm_runs_ahead_of_the_next_call(name: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a barrier stands ahead of the WGMMAs, and calls around it: its store may not come behind theirs."""
    installed = name == "through_shared"
    source = (
        corpus.generated(kernels.gemm_through_shared, "sm_90a") if installed else corpus.text(name, "sm_90a", "0.1.15")
    )
    shadows = []

    def noted(parts: list[Mark | Border]) -> list[Mark | Flush | First]:
        marks = [part for part in parts if isinstance(part, Mark)]
        for at, mark in enumerate(marks):
            if mark.shadow is not None:
                behind = [other.at for other in marks[at + 1 :] if other.role == mark.role]
                shadows.append(mark.at < mark.shadow <= min(behind))
        return batched(parts)

    monkeypatch.setattr(rewrite, "batched", noted)
    for function in syntax.functions(source):
        rewrite.instrument(source, "slots", level, kernel=function.name)
    assert all(shadows)
    assert shadows or name not in ("gemm", "through_shared")


def test_calls_in_another_order_than_they_run_are_refused() -> None:
    with pytest.raises(syntax.UnreadableError, match="in the order in which they were thought to run"):
        [*rewrite._in_order([Mark(10, 0, []), Flush(30, 0, 1), Mark(20, 0, [])])]
