"""Records that are held back: whichever way a thread takes, each is stored once, in order, and none is left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.trace.auto import rewrite, syntax
from tileops.trace.auto.batching import BREAK, ENTER, LEAVE, Border, Flush, Mark, batched
from tileops.trace.batches import LARGEST
from tileops.trace.sites import BEGIN

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
    """A loop or a branch; where it begins and ends."""

    is_loop: bool
    body: list[Any]
    at: int = -1
    end: int = -1


def parts_of(program: list[Any]) -> list[Mark | Border]:
    """The calls of a program and the borders between them. Everything gets an offset of its own."""
    parts: list[Mark | Border] = []
    offsets = iter(range(10, 1 << 20))

    def add(nodes: list[Any]) -> None:
        for node in nodes:
            node.at = next(offsets)
            if isinstance(node, Piece):
                parts.append(Border(ENTER if node.is_loop else BREAK, node.at))
                add(node.body)
                node.end = next(offsets)
                parts.append(Border(LEAVE if node.is_loop else BREAK, node.end))
            else:
                node.shadow = next(offsets)
                condition = "more" if node.is_conditional else ""
                shadow = node.shadow if node.has_shadow else None
                parts.append(Mark(node.at, node.role, [(BEGIN, 0)], condition=condition, shadow=shadow))

    add(program)
    return parts


def way(program: list[Any], taken: Iterator[int]) -> Iterator[int]:
    """The offsets that a thread passes; ``taken`` says how often it goes through each loop, and whether each branch."""
    for node in program:
        yield node.at
        if isinstance(node, Piece):
            turns = next(taken)
            for _ in range(turns if node.is_loop else turns % 2):
                yield from way(node.body, taken)
            yield node.end
        else:
            yield node.shadow


def check(program: list[Any], taken: list[int]) -> None:
    """Runs a program's calls as the recorders of its roles would."""
    parts = parts_of(program)
    made = batched(parts)
    assert [call for call in made if isinstance(call, Mark)] == [part for part in parts if isinstance(part, Mark)]
    calls = defaultdict(list)
    for call in made:
        calls[call.at].append(call)
    held: dict[int, dict[int, int]] = defaultdict(dict)
    late: dict[int, set[int]] = defaultdict(set)
    stored: dict[int, list[int]] = defaultdict(list)
    passed: dict[int, list[int]] = defaultdict(list)

    def store(role: int, records: int) -> None:
        if records:
            assert [*held[role]] == [*range(records)]
            assert not late[role]
            stored[role] += held[role].values()
            held[role] = {}

    for number, at in enumerate(way(program, iter([*taken, *[1] * 10_000]))):
        for call in calls[at]:
            if isinstance(call, Flush):
                for place in call.late:
                    late[call.role].remove(place)
                store(call.role, call.records)
                continue
            passed[call.role].append(number)
            how, place = call.how.strip("_0123456789"), int(call.how[-1:] or 1)
            place -= how not in ("held", "late")
            assert place == len(held[call.role])  # next to those that wait, none of which is replaced
            held[call.role][place] = number
            if how == "late":
                late[call.role].add(place)
            if how in ("store", ""):
                store(call.role, place + 1)
            else:
                assert place < LARGEST - 1
    assert stored == passed  # so in order, each once
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
    """How each call records, and what only stores: ``flush3``, ahead of it ``settle0`` for each record in two parts."""
    found = []
    for call in batched(parts_of(program)):
        if isinstance(call, Mark):
            found.append(call.how.removeprefix("_") or "alone")
        else:
            found += [f"settle{place}" for place in call.late] + [f"flush{call.records}"] * bool(call.records)
    return found


def gemm(*behind: Any, ahead: int = 1, inner: int = 0) -> list[Any]:
    """A loop that waits, issues a GEMM, and ends with a call that has two sites."""
    body = [Call(0, has_shadow=True), *[Call(0) for _ in range(inner)], Call(0, is_conditional=True)]
    return [*[Call(0) for _ in range(ahead)], Piece(True, body), *behind]


LOOP_ENDS = {
    "what a loop leaves is stored with what follows": (
        gemm(Call(0), Call(0)),
        ["late0", "held1", "settle0", "flush2", "late0", "settle0", "held1", "store3"],
    ),
    "or by itself": (gemm(), ["late0", "held1", "settle0", "flush2", "late0", "settle0", "flush1"]),
    "and ahead of a border": (
        gemm(Piece(False, [Call(0)])),
        ["late0", "held1", "settle0", "flush2", "late0", "settle0", "flush1", "alone"],
    ),
    "two": (
        gemm(Call(0), ahead=2, inner=1),
        ["held0", "late1", "held2", "settle1", "flush3", "held0", "late1", "settle1", "store3"],
    ),
    "too many to be held until the GEMM runs": (
        gemm(ahead=4, inner=2), ["held0", "held1", "held2", "store4", "held0", "held1", "held2", "store4"],
    ),
    "too few ahead of the loop": (gemm(ahead=0), ["held0", "store2"]),
    "one loop behind the other": (
        gemm(*gemm()),
        ["late0", "held1", "settle0", "flush2", "late0", "settle0", "flush1",
         "late0", "held1", "settle0", "flush2", "late0", "settle0", "flush1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("program", "expected"), LOOP_ENDS.values(), ids=LOOP_ENDS)
def test_records_of_a_loop_s_end_wait_for_the_next_gemm(program: list[Any], expected: list[str]) -> None:
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

    def noted(parts: list[Mark | Border]) -> list[Mark | Flush]:
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
