"""Clock reads in machine code, traced to the markers that they belong to.

Neither nvcc nor ptxas promises to keep a clock read on its side of anything. So kernels are compiled, every clock read
in them is traced to the record that it ends up in, and the record's number to its markers; then a data-flow analysis
says which markers can be the last ones passed before each instruction.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from .sass import Function, Instruction, disassemble, find_nvdisasm

tilelang = pytest.importorskip("tilelang")

from tileops.kernels.gemm.dense import PASS_CONFIGS  # noqa: E402
from tileops.trace.sites import ATTRIBUTE, BEGIN, END, SiteTable  # noqa: E402
from tileops.trace.slots import SITE_SHIFT  # noqa: E402

# What a register can hold, as far as it matters here: ("low" or "high", position of the clock read, what was added),
# ("timer",), ("constant", value), or None for anything else.
Value = tuple[Any, ...] | None

UNKNOWN: frozenset[Value] = frozenset([None])

Registers = dict[str, frozenset[Value]]


class ClockReads:
    """The clock reads of a kernel and where each of them is stored.

    Attributes:
        sites: for each clock read that ends up in a record, the site in it; several where it is chosen at run time.
        headers: the clock reads that end up in a row's header, beside the global timer.
        stores: the stores of both.
    """

    def __init__(self, function: Function):
        self.function = function
        self.sites: dict[int, frozenset[int]] = {}
        self.headers: set[int] = set()
        self.stores: set[int] = set()
        self._stored: dict[int, set[int]] = {at: set() for at in function.find("CS2R") if _reads(function, at, "CLOCK")}
        nothing: Registers = {}
        states = function.forward(nothing, self._step, _joined)
        for at in function.find("STG", "ST"):
            self._read_store(at, states[at])
        for clock, stores in self._stored.items():
            self._check_stored(clock, stores)

    def _step(self, at: int, state: Registers) -> Registers:
        instruction = self.function.code[at]
        written = instruction.written
        if not written or instruction.never:
            return state
        values: list[frozenset[Value]]
        if at in self._stored:
            values = [frozenset([(half, at, 0)]) for half in ("low", "high")]
        elif instruction.base == "CS2R" and _reads(self.function, at, "TIMER"):
            values = [frozenset([("timer",)])] * len(written)
        else:
            values = [_computed(instruction, state)] * len(written)
        if instruction.conditional and instruction.base != "CS2R":
            # A choice between two sites. Anything else that is written under a guard is used under the same one.
            values = [
                held | state[name] if name in state and _kinds(held) == _kinds(state[name]) else held
                for name, held in zip(written, values)
            ]
        after = {name: held for name, held in state.items() if name not in written}
        after.update((name, held) for name, held in zip(written, values) if held != UNKNOWN)
        return after

    def _read_store(self, at: int, state: Registers) -> None:
        instruction = self.function.code[at]
        first = re.fullmatch(r"R(\d+)(\.reuse)?", instruction.operands[1])
        if not first:
            return
        low, high, third = (state.get(f"R{int(first[1]) + n}", UNKNOWN) for n in range(3))
        clocks = {value[1] for value in low if value and value[0] == "low"}
        if not clocks:
            return
        assert len(clocks) == len(low), f"{instruction}: may store something else than a clock"
        assert {value[:2] if value else None for value in high} == {("high", clock) for clock in clocks}, (
            f"{instruction}: the halves of what it stores come from different clock reads"
        )
        self.stores.add(at)
        for clock in clocks:
            self._stored[clock].add(at)
            if third == frozenset([("timer",)]):
                self.headers.add(clock)
            else:
                added = {value[2] for value in high if value and value[1] == clock}
                self.sites[clock] = self.sites.get(clock, frozenset()) | {n >> (SITE_SHIFT - 32) for n in added}

    def _check_stored(self, clock: int, stores: set[int]) -> None:
        """Each clock read is stored once on every path from it."""
        code, successors = self.function.code, self.function.successors
        behind = self.function.reachable(successors[clock], stops=stores)
        lost = [at for at in behind if at == clock or code[at].base == "EXIT"]
        assert not lost, f"the clock read at {clock} is not stored on a path to {code[lost[0]]}"
        for store in stores:
            again = self.function.reachable(successors[store], stops=[clock]) & stores
            assert not again, f"the clock read at {clock} is stored by {code[store]} and again"


def _reads(function: Function, at: int, register: str) -> bool:
    return register in function.code[at].operands[-1]


def _kinds(values: frozenset[Value]) -> set[Any]:
    return {value and value[0] for value in values}


def _joined(one: Registers, other: Registers) -> Registers:
    return {name: one.get(name, UNKNOWN) | other.get(name, UNKNOWN) for name in one.keys() | other.keys()}


def _computed(instruction: Instruction, state: Registers) -> frozenset[Value]:
    """What the result of a move or an addition can be."""
    operands = [operand.removesuffix(".reuse") for operand in instruction.operands[1:]]
    if instruction.opcode in ("MOV", "UMOV"):
        terms = operands[:1]
    elif instruction.opcode in ("IMAD.MOV", "IMAD.MOV.U32", "IMAD.U32") and operands[:2] == ["RZ", "RZ"]:
        terms = operands[2:3]
    elif instruction.opcode in ("SEL", "USEL"):
        return _held(operands[0], state) | _held(operands[1], state)
    elif instruction.opcode == "VIADD":
        terms = operands[:2]
    elif instruction.opcode == "IADD3":
        terms = operands[:3]
    elif instruction.opcode == "IMAD.IADD" and operands[1] == "0x1":
        terms = [operands[0], operands[2]]
    else:
        return UNKNOWN
    return frozenset(_sum(choice) for choice in itertools.product(*(_held(term, state) for term in terms)))


def _held(term: str, state: Registers) -> frozenset[Value]:
    if term in ("RZ", "URZ"):
        return frozenset([("constant", 0)])
    if re.fullmatch(r"0x[0-9a-f]+", term):
        return frozenset([("constant", int(term, 16))])
    return state.get(term, UNKNOWN)


def _sum(values: tuple[Value, ...]) -> Value:
    constants = sum(value[1] for value in values if value and value[0] == "constant")
    others = [value for value in values if not value or value[0] != "constant"]
    if not others:
        # Only what is moved: a sum of constants could be a loop's counter, and grow for ever.
        return ("constant", constants) if len(values) == 1 else None
    if len(others) > 1 or others[0] is None:
        return None
    if constants == 0:
        return others[0]
    return ("high", others[0][1], constants) if others[0][0] == "high" and others[0][2] == 0 else None


Marker = frozenset[int]  # the sites of a clock read


class Traced:
    """A kernel's machine code with the markers found in it.

    Attributes:
        last: for each instruction, the markers that can be the last one before it; None stands for the entry.
    """

    def __init__(self, function: Function, table: SiteTable):
        self.function = function
        self.code = function.code
        self.table = table
        self.clocks = ClockReads(function)
        self.last = function.reaching(self.clocks.sites)

    def find(self, *opcodes: str) -> list[int]:
        """Positions of instructions that are not the recorder's stores; no kernel here stores 128 bits of its own."""
        found = self.function.find(*opcodes)
        return [at for at in found if at not in self.clocks.stores and self.code[at].opcode != "STG.E.128"]

    def inside(self, *names: str, group: str | None = None) -> set[int | None]:
        """The sites behind which one is inside one of these ranges; of all groups unless one is given."""
        found: set[int | None] = set()
        for site, events in enumerate(self.table.sites):
            opened = {index for kind, index in events if kind == BEGIN} - {i for kind, i in events if kind == END}
            for one in (self.table.ranges[index] for index in opened):
                if one.name in names and group in (None, self.table.groups[one.group].name):
                    found.add(site)
        assert found, f"no range {names} in {self.table.kernel}"
        return found

    def strays(self, positions: Iterable[int], sites: set[int | None]) -> list[str]:
        """The instructions before which the last marker can be another than one of these sites.

        A marker that chooses its site at run time, by whether a loop goes on, counts as any of them.
        """
        return [
            f"{self.code[at]} behind {self.label(marker)}"
            for at in positions
            for marker in sorted(self.last[at], key=str)
            if not (marker or {None}) & sites
        ]

    def label(self, marker: Marker | None) -> str:
        """A marker's events, such as ``-wait +mma``; ``>`` is the kernel's entry."""
        return " or ".join(" ".join(self.events(site)) for site in sorted(marker)) if marker else ">"

    def events(self, site: int | None) -> list[str]:
        """A site's events, such as ``["-wait", "+mma"]``; ``[">"]`` of the kernel's entry."""
        if site is None:
            return [">"]
        signs = {BEGIN: "+", END: "-"}
        return [signs.get(kind, "=") + self.table.ranges[index].name for kind, index in self.table.sites[site]]

    def check_flow(self, group: str, expected: set[tuple[str, str]]) -> None:
        """Checks which event of a group follows which, from ``>``, the entry, to ``<``, an exit.

        Neither more nor less than the steps in ``expected``: no marker is dropped, read twice or out of turn.
        """
        own = {at: marker for at, marker in self.clocks.sites.items() if self._group(marker) == group}
        last = self.function.reaching(own)
        taken: set[tuple[str, str]] = set()
        for at in [*own, *self.function.find("EXIT")]:
            sites = own.get(at, frozenset())
            taken.update(step for site in sites for step in itertools.pairwise(self.events(site)))
            firsts = {self.events(site)[0] for site in sites} or {"<"}
            for marker in last[at]:
                # One of the sites that a marker can choose from explains how the kernel goes on.
                possible = set(itertools.product((self.events(site)[-1] for site in marker or [None]), firsts))
                taken.update(possible & expected or possible)
        assert taken == expected

    def _group(self, marker: Marker) -> str:
        (group,) = {self.table.ranges[index].group for site in marker for _, index in self.table.sites[site]}
        return self.table.groups[group].name

    def consumers(
        self, sources: Mapping[int, Iterable[str]], uses: Callable[[Instruction], Iterable[str]]
    ) -> dict[int, list[int]]:
        """For each source, the instructions that use its result first; checks that no clock read comes before one."""
        pending = self.function.pending(sources, uses)
        for at in self.clocks.sites:
            late = [str(self.code[source]) for source in pending[at]]
            assert not late, f"{self.label(self.clocks.sites[at])} is read before anything used the result of {late}"
        return {
            source: [at for at in pending if source in pending[at] and set(uses(self.code[at])) & set(results)]
            for source, results in sources.items()
        }

    def check(self) -> None:
        """What holds for every kernel, whatever its ranges enclose."""
        assert {site for marker in self.clocks.sites.values() for site in marker} == set(range(len(self.table.sites)))
        # A row is opened before its first record and closed behind its last.
        headers = self.clocks.headers
        begins = {at for at in headers if self.last[at] == {None}}
        ends = {at for at in headers if not self.function.reachable([at]) & self.clocks.sites.keys()}
        assert begins | ends == headers
        assert len(begins) == len(self.table.groups) <= len(ends)
        # No wait's end is read before a branch has looked at the wait's result, and the branches stand inside as well.
        waits = self.find("SYNCS.PHASECHK")
        branches = self.consumers({at: [self.code[at].operands[0]] for at in waits}, _branch_condition)
        for wait, found in branches.items():
            assert found
            assert all(self.last[at] <= self.last[wait] for at in found)


def _branch_condition(instruction: Instruction) -> list[str]:
    return [instruction.guard.lstrip("!")] if instruction.base in ("BRA", "EXIT") else []


def paths(*texts: str) -> set[tuple[str, str]]:
    """The steps of paths such as ``> +a -a <``."""
    return {step for text in texts for step in itertools.pairwise(text.split())}


def machine_code(
    funcs: Iterable[Any], target: Any, compile_cubin: Callable[..., Path]
) -> list[tuple[Function, SiteTable]]:
    """Compiles lowered PrimFuncs together; skips the test where their machine code cannot be read."""
    nvdisasm = find_nvdisasm()
    if nvdisasm is None:
        pytest.skip("needs nvdisasm")
    funcs, sources = list(funcs), []
    for number, func in enumerate(funcs):
        with target, tilelang.transform.PassContext(config=PASS_CONFIGS):
            source = str(tilelang.lower(func, target=target).kernel_source)
        sources.append(source.replace("tileops_trace", f"tileops_trace{number}"))  # each brings its own recorder
    functions = disassemble(compile_cubin("\n".join(sources)), nvdisasm)
    assert len(functions) == len(funcs)
    return [
        (functions[f"{func.attrs['global_symbol']}_kernel"], SiteTable.from_json(str(func.attrs[ATTRIBUTE])))
        for func in funcs
    ]
