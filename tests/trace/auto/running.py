"""Runs instrumented source as one thread would, as far as its recorder calls need it.

It walks the parsed statements, follows branches and loops by their values, and collects what each call records: an
oracle for where calls stand, which knows nothing of how they got there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tileops.trace.auto.syntax import Statement, parse
from tileops.trace.sites import SiteTable
from tileops.trace.slots import layout

from ..model import Cta, Kernel, Launch, Program, Row, slots_of

UNKNOWN_TURNS = 3


OPENED = re.compile(r"^  tileops_open(_each)?\((.*)\);$", re.M)


def recorded(source: str, group: int, lead: int, block: int = 0) -> list[tuple[int, int]]:
    """What thread ``lead`` of CTA ``block`` records as a group of the table: (site, payload) in order."""
    recorders = []  # of each group: its recorder's number, and what that adds to sites
    for each, arguments in OPENED.findall(source):
        numbers = arguments.split(", ")
        leads, sites = (int(numbers[4]), int(numbers[6])) if each else (1, 0)
        recorders += [(int(numbers[0]), int(numbers[3 if each else 4]) + 128 * at, sites * at) for at in range(leads)]
    recorder, elected, first = recorders[group]
    assert lead == elected
    found: list[tuple[int, int]] = []
    values: dict[str, Any] = {"threadIdx_x": lead, "blockIdx_x": block}
    _run(parse(source).statements, values, recorder, found)
    return [(site + first, payload) for site, payload in found]


def slots(source: str, table: SiteTable, block: int = 0) -> np.ndarray:
    """The slots of a launch of one CTA in which every record comes ten cycles behind the one before."""
    import random

    rows = []
    for role, group in enumerate(table.groups):
        calls = recorded(source, role, group.lead, block)
        records = [(site, 1000 + 10 * at, payload & 0xFFFFFFFF) for at, (site, payload) in enumerate(calls)]
        end = 1010 + 10 * len(records)
        rows.append(Row("done", 1000, end, 1 << 40, (1 << 40) + end, records))
    assert [g.layout for g in table.groups] == layout(
        [g.layout.record_words == 2 for g in table.groups], table.max_events
    )
    launch = Launch(Kernel(table, [Program() for _ in table.groups]), (1, 1, 1), [Cta(0, rows)])
    return slots_of(launch, random.Random(1))


def _run(statements: Sequence[Statement], values: dict[str, Any], role: int, found: list[tuple[int, int]]) -> None:
    for statement in statements:
        if statement.kind == "block":
            _run(statement.body, values, role, found)
        elif statement.kind == "if":
            taken = _value(statement.condition, values)
            _run(statement.body if taken or taken is None else statement.otherwise, values, role, found)
        elif statement.kind == "for":
            loop = statement.loop
            assert loop is not None
            values[loop.variable] = _value(loop.first, values)
            turns = 0
            while True:
                goes_on = _value(loop.condition, values)
                if not (turns < UNKNOWN_TURNS if goes_on is None else goes_on):
                    break
                if "tileops_" not in statement.text:
                    break  # nothing is recorded in it
                _run(statement.body, values, role, found)
                values[loop.variable] += 1
                turns += 1
        elif statement.calls and statement.calls[0].name.startswith("tileops_mark"):
            arguments = statement.calls[0].arguments
            if int(arguments[0]) == role:
                payload = _value(arguments[3], values) if len(arguments) > 3 else 0
                found.append((_value(arguments[1], values), payload))


def _value(text: str, values: dict[str, Any]) -> Any:
    choice = re.fullmatch(r"\((.*) \? (\d+) : (\d+)\)", text)
    if choice:
        return int(choice[2] if _value(choice[1], values) else choice[3])
    text = re.sub(r"\b(threadIdx|blockIdx)\.([xyz])", r"\1_\2", re.sub(r"\(int\)", "", text))
    text = re.sub(r"tl::tl_shuffle_elect<\d+>\(\)", "1", text)
    text = text.replace("/", "//").replace("&&", " and ").replace("||", " or ")
    try:
        return eval(text, {}, dict(values))
    except (NameError, SyntaxError, TypeError):
        return None
