"""Which CTAs are recorded: what the device computes of a choice and what the host does are the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tilelang import tvm

from tileops.trace import TraceError
from tileops.trace.choice import CANDIDATES_AN_SM, LONGEST_LIST, ONE_PER_SM, OUTER_WAVES, Choice
from tileops.trace.sites import Group, Range, SiteTable
from tileops.trace.slots import layout

from . import model

SMS = 132
ANALYZER = tvm.arith.Analyzer()


def made(ctas: Any, multiprocessors: Callable[[], int] = lambda: SMS) -> Choice:
    choice = Choice.of(ctas, multiprocessors)
    choice.check()
    return choice


def no_gpu() -> int:
    raise AssertionError("asked for the number of SMs where no choice needs it")


@pytest.mark.parametrize(
    ("ctas", "kind", "numbers"),
    [
        (None, "all", ()),
        ([5, 0, 5], "list", (0, 5)),
        ((3,), "list", (3,)),
        (range(4, 0, -1), "list", (1, 2, 3, 4)),
        ({7}, "list", (7,)),
        (np.array([9, 2]), "list", (2, 9)),
        ((number for number in (1, 0)), "list", (0, 1)),
        ([*range(LONGEST_LIST)], "list", tuple(range(LONGEST_LIST))),
        (slice(None), "stride", (0, -1, 1)),
        (slice(0, None, 8), "stride", (0, -1, 8)),
        (slice(3, 10), "stride", (3, 10, 1)),
        (slice(2, 3, 100), "stride", (2, 3, 100)),
        (slice(np.int32(2), np.int64(9), np.uint8(3)), "stride", (2, 9, 3)),
    ],
)  # fmt: skip
def test_what_authors_may_give(ctas: Any, kind: str, numbers: tuple[int, ...]) -> None:
    choice = made(ctas, no_gpu)
    assert choice == Choice(kind, numbers)
    assert all(type(number) is int for number in choice.numbers_of_kind)  # JSON takes no other


def test_waves_are_as_wide_as_the_gpu() -> None:
    # Of several CTAs of an SM, the host keeps the first.
    candidates = CANDIDATES_AN_SM * SMS
    assert made(ONE_PER_SM) == Choice("per SM", (candidates,))
    assert made(OUTER_WAVES) == Choice("ends", (SMS, SMS))
    assert made(ONE_PER_SM).numbers(candidates + 100).tolist() == [*range(candidates)]
    assert made(OUTER_WAVES).numbers(500).tolist() == [*range(SMS), *range(500 - SMS, 500)]
    assert made(OUTER_WAVES).numbers(200).tolist() == [*range(200)]
    assert made(ONE_PER_SM).numbers(3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("ctas", "why"),
    [
        ("one per sm", "'one per sm' is unknown; there are 'one per SM' and 'first and last wave'"),
        ("", "'' is unknown"),
        (5, "must be a list of CTAs' numbers, a slice, 'one per SM' or 'first and last wave', got 5"),
        (0.5, "must be a list of CTAs' numbers"),
        ([[0]], "must be a list of CTAs' numbers"),
        ([0, "a"], "ctas"),
        ([], "one at least must be chosen"),
        ([-1], "numbered 0, 1, ..."),
        ([0.5], "numbered 0, 1, ..."),
        ([True], "numbered 0, 1, ..."),
        ([None], "ctas"),
        ([1 << 62], "numbered 0, 1, ..."),
        (np.zeros((2, 2), dtype=int), "must be a list of CTAs' numbers"),
        ([*range(LONGEST_LIST + 1)], f"may name {LONGEST_LIST} CTAs, this one names {LONGEST_LIST + 1}: use a slice"),
        (slice(None, None, -1), "a slice goes upwards"),
        (slice(None, None, 0), "a slice goes upwards"),
        (slice(-4, None), "a slice goes upwards"),
        (slice(None, -1), "a slice goes upwards"),
        (slice(4, 4), "a slice goes upwards"),
        (slice(0, 0), "a slice goes upwards"),
        (slice(5, 2), "a slice goes upwards"),
        (slice(0.0, None), "a slice goes upwards"),
        (slice(0, "x"), "a slice goes upwards"),
        (slice(True, None), "a slice goes upwards"),
        (slice(0, None, True), "a slice goes upwards"),
        (slice(0, None, 1 << 62), "a slice goes upwards"),
    ],
)
def test_what_is_no_choice_is_said(ctas: Any, why: str) -> None:
    with pytest.raises(TraceError, match=why):
        Choice.of(ctas, lambda: SMS)


SMALL = st.integers(0, 24)
CHOICES = st.one_of(
    st.just(Choice()),
    st.lists(SMALL, min_size=1, max_size=6).map(lambda numbers: made(numbers)),
    st.tuples(SMALL, st.none() | st.integers(1, 30), st.integers(1, 9)).map(
        lambda t: made(slice(t[0], None if t[1] is None else t[0] + t[1], t[2]))
    ),
    st.tuples(st.integers(1, 12), st.integers(0, 12)).map(lambda t: Choice("ends", t)),
    st.integers(1, 30).map(lambda number: Choice("per SM", (number,))),
)


def value(expression: Any, **variables: Any) -> int:
    """An expression of constants, or of the variables given, as the number that it is."""
    if not isinstance(expression, int):
        bound = {var: tvm.tirx.const(number, "int64") for var, number in variables.values()}
        simple = ANALYZER.simplify(tvm.tirx.stmt_functor.substitute(expression, bound) if bound else expression)
        assert isinstance(simple, tvm.tirx.IntImm), simple
        return int(simple)
    return expression


def int64(number: int) -> Any:
    return tvm.tirx.const(number, "int64")


@settings(max_examples=120, deadline=None)
@given(CHOICES, st.integers(1, 26), st.booleans())
def test_device_and_host_agree(choice: Choice, ctas: int, dynamic: bool) -> None:
    choice.check()
    numbers = choice.numbers(ctas)
    assert numbers.dtype == np.int64
    assert numbers.tolist() == [cta for cta in range(ctas) if model.is_chosen(choice, cta, ctas)]
    cta_var, ctas_var = tvm.tirx.Var("cta", "int64"), tvm.tirx.Var("ctas", "int64")
    # Built once with variables, as for a grid that is not known, or with constants each time.
    general = choice.place(cta_var, ctas_var)
    placed = []
    for cta in range(ctas):
        if dynamic:
            known = {"cta": (cta_var, cta), "ctas": (ctas_var, ctas)}
            recorded, line = value(general[0], **known), value(general[1], **known)
        else:
            recorded, line = (value(part) for part in choice.place(int64(cta), int64(ctas)))
        assert recorded == (cta in numbers.tolist())
        assert line >= 0  # it becomes an address also where nothing is recorded, in unsigned arithmetic
        if recorded:
            placed.append(line)
    assert placed == list(range(len(numbers)))
    lines = value(choice.lines(ctas_var), ctas=(ctas_var, ctas)) if dynamic else value(choice.lines(int64(ctas)))
    assert lines >= max(len(numbers), 1)
    # Not more than it must be, but for lists, whose CTAs may lie beyond a grid that is not known.
    assert choice.kind == "list" or lines == max(len(numbers), 1)


@pytest.mark.parametrize(
    "choice", [Choice("stride", (0, -1, 7)), Choice("stride", (5, 1 << 40, 1000)), Choice("ends", (132, 132))]
)
def test_large_grids(choice: Choice) -> None:
    """CTAs' numbers need more than 31 bits before their lines' words do."""
    ctas = 3 * 10**6
    numbers = choice.numbers(ctas)
    for line in (0, 1, len(numbers) // 2, len(numbers) - 1):
        recorded, at = choice.place(int64(int(numbers[line])), int64(ctas))
        assert (value(recorded), value(at)) == (1, line)
    assert value(choice.lines(int64(ctas))) == len(numbers)
    if choice.kind == "stride":
        start, _, step = choice.numbers_of_kind
        recorded, at = choice.place(int64(start + (1 << 33) * step), int64(1 << 60))
        assert value(at) == 1 << 33


def table_with(choice: Choice) -> SiteTable:
    groups = (Group("main", 0, layout([False], 4)[0]),)
    ranges = (Range("a", "main", 0, 0, "", False, "k.py", 1),)
    return SiteTable("main", "cuda", 4, groups, ranges, ((("begin", 0),), (("end", 0),)), (), choice=choice)


@settings(max_examples=40, deadline=None)
@given(CHOICES, st.booleans())
def test_it_goes_through_the_site_table(choice: Choice, keep_last: bool) -> None:
    table = replace(table_with(choice), keep_last=keep_last)
    again = SiteTable.from_json(table.to_json())
    assert again == table
    assert again.to_json() == table.to_json()
    again.check()


@pytest.mark.parametrize(
    "choice",
    [
        Choice("some"),
        Choice("all", (1,)),
        Choice("list"),
        Choice("list", (3, 1)),
        Choice("list", (1, 1)),
        Choice("list", (-1, 1)),
        Choice("list", tuple(range(LONGEST_LIST + 1))),
        Choice("list", (0, 1 << 62)),
        Choice("list", (0.5,)),  # type: ignore[arg-type]
        Choice("list", ("a",)),  # type: ignore[arg-type]
        Choice("stride", (0, 1)),
        Choice("stride", (-1, -1, 1)),
        Choice("stride", (0, -1, 0)),
        Choice("stride", (0, -1, -1)),
        Choice("stride", (0, -2, 1)),
        Choice("ends", (0, 1)),
        Choice("ends", (1, -1)),
        Choice("ends", (1,)),
        Choice("per SM"),
        Choice("per SM", (0,)),
        Choice("per SM", (1, 1)),
        Choice("ends", (None, 1)),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_no_lowering_makes_is_refused(choice: Choice) -> None:
    with pytest.raises(ValueError, match="is no choice of CTAs"):
        choice.check()
    with pytest.raises(ValueError, match="is no choice of CTAs"):
        table_with(choice).check()


@pytest.mark.parametrize("choice", [None, {}, {"kind": "all"}, {"kind": "list", "numbers_of_kind": 5}, []])
def test_json_without_a_choice_is_no_site_table(choice: Any) -> None:
    raw = {**json.loads(table_with(Choice()).to_json()), "choice": choice}
    with pytest.raises(TraceError, match="not a site table of tileops"):
        SiteTable.from_json(json.dumps(raw))
