"""Runs instrumented source as one thread would, as far as its recorder calls need it.

It walks the parsed statements, follows branches and loops by their values, and collects what each call records: an
oracle for where calls stand, which knows nothing of how they got there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tileops.trace.auto.syntax import Kernel as Parsed
from tileops.trace.auto.syntax import Statement, parse
from tileops.trace.sites import SiteTable

from ..model import Cta, Kernel, Launch, Program, Row, slots_of

UNKNOWN_TURNS = 3


RECORDING = re.compile("tileops_(first|mark|settle|flush)")
OPENED = re.compile(r"^  tileops_open(_each)?\((.*)\);$", re.M)


def recorded(source: str, group: int, lead: int, block: int = 0) -> list[tuple[int, int]]:
    """What a group of the table records in CTA ``block``, by its thread ``lead``: (site, payload) in order."""
    kernel = parse(source)
    recorder, elected, first = recorders(source, kernel)[group]
    assert elected - lead in (0, 128)  # TileLang may launch producers below the threads that an author counts
    stored = _ran(kernel, elected, block).stored[recorder]
    return [(site + first, payload) for site, payload in stored]


def events(source: str, lead: int, recorder: int) -> int:
    """How many events a recorder's calls say that its thread recorded."""
    return _ran(parse(source), lead, 0).events[recorder]


def recorders(source: str, kernel: Parsed) -> list[tuple[int, int, int]]:
    """Of each group: its recorder's number, the thread that records, and what that adds to sites."""
    made = []
    for each, arguments in OPENED.findall(source):
        numbers = arguments.split(", ")
        leads, sites = (int(numbers[5]), int(numbers[7])) if each else (1, 0)
        below = kernel.threads - int(numbers[5]) if not each and numbers[5] != "0" else 0
        made += [(int(numbers[0]), int(numbers[4]) + below + 128 * at, sites * at) for at in range(leads)]
    return sorted(made)


def sequence(source: str, thread: int) -> list[tuple[int, int]]:
    """What a thread comes by: (recorder, site) in order."""
    return _ran(parse(source), thread, 0).passed


def slots(source: str, table: SiteTable, block: int = 0) -> np.ndarray:
    """The slots of a launch of one CTA in which every record comes ten cycles behind the one before."""
    import random

    rows = []
    for role, group in enumerate(table.groups):
        calls = recorded(source, role, group.lead, block)
        records = [(site, 1000 + 10 * at, payload & 0xFFFFFFFF) for at, (site, payload) in enumerate(calls)]
        end = 1010 + 10 * len(records)
        rows.append(Row("done", 1000, end, 1 << 40, (1 << 40) + end, records))
    table.check()  # rows lie one behind the other
    launch = Launch(Kernel(table, [Program() for _ in table.groups]), (1, 1, 1), [Cta(0, rows)])
    return slots_of(launch, random.Random(1))


def _ran(kernel: Parsed, thread: int, block: int) -> _Thread:
    ran = _Thread({"threadIdx_x": thread, "blockIdx_x": block})
    ran.run(kernel.statements)
    assert not any(ran.held.values())  # nothing is lost at the end
    return ran


class _Thread:
    """What a thread does with its recorders, as if it were the one that each of them elects.

    Attributes:
        passed: the recorders and sites of the marks that it comes by.
        stored: each recorder's records.
        held: what each holds back, by its place in the batch.
        late: the places of those whose sites are kept apart.
        told: the site of the next such record of each place.
        events: how many events each counts.
    """

    def __init__(self, values: dict[str, Any]):
        self.passed: list[tuple[int, int]] = []
        self.stored: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.held: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
        self.late: dict[int, set[int]] = defaultdict(set)
        self.told: dict[int, dict[int, int]] = defaultdict(dict)
        self.events: dict[int, int] = defaultdict(int)
        self._values = values

    def run(self, statements: Sequence[Statement]) -> None:
        values = self._values
        for statement in statements:
            if statement.kind == "block":
                self.run(statement.body)
            elif statement.kind == "if":
                taken = _value(statement.condition, values)
                self.run(statement.body if taken or taken is None else statement.otherwise)
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
                    self.run(statement.body)
                    values[loop.variable] += 1
                    turns += 1
            elif statement.calls and RECORDING.match(statement.calls[0].name):
                self._call(statement.calls[0].name, statement.calls[0].arguments)

    def _call(self, name: str, arguments: Sequence[str]) -> None:
        recorder = int(arguments[0])
        how = re.fullmatch(r"tileops_(?:first|mark|flush|settle)_?(held|late|store)?(\d?)(_i32)?", name)
        assert how is not None
        number = int(how[2] or 1)
        if "flush" in name:
            self._store(recorder, number)
            return
        if "first" in name or "settle" in name:
            if "settle" in name:
                self.late[recorder].remove(int(how[2]))
            else:
                self.events[recorder] += int(arguments[2])
            self.told[recorder][int(how[2])] = int(arguments[1])
            return
        is_held = how[1] in ("held", "late")
        place = int(how[2]) if is_held else number - 1
        if how[1] == "late":
            arguments = [arguments[0], str(self.told[recorder][place]), *arguments[1:]]
        record = (_value(arguments[1], self._values), _value(arguments[3], self._values) if how[3] else 0)
        self.events[recorder] += _value(arguments[2], self._values)
        assert place not in self.held[recorder]  # one that waits to be stored is never replaced
        self.passed.append((recorder, record[0]))
        self.held[recorder][place] = record
        if how[1] == "late":
            self.late[recorder].add(place)
        if not is_held:
            self._store(recorder, number)

    def _store(self, recorder: int, records: int) -> None:
        """Stores the records that are held; these are all."""
        assert [*self.held[recorder]] == [*range(records)]
        assert not self.late[recorder]
        self.stored[recorder] += self.held[recorder].values()
        self.held[recorder] = {}


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
