"""Reads a cubin's machine code: instructions, the control flow between them, and analyses along it.

Slow paths of barrier waits lie out of line, behind the kernel's last EXIT, and loops are unrolled into copies: what
happens between two clock reads can only be told by following control flow, never by looking at addresses.

The graph's nodes are single instructions. The largest kernel here has 1,800 of them and is analysed in well under a
second, so basic blocks would only add code.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

State = TypeVar("State")
Item = TypeVar("Item", bound=Hashable)

_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+),")
_LABEL = re.compile(r"([.$\w]+):\s*$")
_CODE = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_TARGET = re.compile(r"`\(([.$\w]+)\)")
_REGISTER = re.compile(r"\b(UR|UP|R|P)(\d+)(\.64)?\b")

_PREDICATES_ONLY = ("PLOP3", "UPLOP3", "VOTE", "VOTEU")  # besides all that end in SETP
_NO_RESULT = ("BAR", "BRA", "BREAK", "CALL", "NANOSLEEP", "RET", "WARPSYNC")
_LEAVES_UNKNOWN = ("BRX", "BRXU", "JMP", "JMX", "JMXU", "RTT")


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        line: its position in the function's lines.
        guard: ``"P0"``, ``"!UP1"`` ..., or ``""``.
        opcode: with its modifiers, such as ``STG.E.64``.
        operands: as printed.
    """

    line: int
    guard: str
    opcode: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'@' + self.guard + ' ' if self.guard else ''}{self.opcode} {', '.join(self.operands)}".rstrip()

    @property
    def base(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.split(".")[0]

    @property
    def never(self) -> bool:
        """Whether it never executes: ptxas pads with such instructions."""
        return self.guard in ("!PT", "!UPT")

    @property
    def conditional(self) -> bool:
        """Whether it has a guard that may fail."""
        return self.guard not in ("", "PT", "UPT")

    @property
    def target(self) -> str | None:
        """The label that it names."""
        found = _TARGET.search(self.operands[-1]) if self.operands else None
        return found[1] if found else None

    @cached_property
    def written(self) -> tuple[str, ...]:
        """The general and uniform registers of its result, all of a wide one."""
        if self.base in _NO_RESULT or self.base in _PREDICATES_ONLY or self.base.endswith("SETP"):
            return ()
        for operand in self.operands:
            if re.fullmatch(r"U?P(\d+|T)", operand):
                continue
            found = re.fullmatch(r"(U?R)(\d+)", operand)
            return tuple(f"{found[1]}{int(found[2]) + n}" for n in range(self._width)) if found else ()
        return ()

    @cached_property
    def read(self) -> frozenset[str]:
        """The registers and predicates that it mentions otherwise; of a wide one the first, of an address both."""
        skip = self.operands.index(self.written[0]) if self.written else -1
        texts = [self.guard, *(operand for at, operand in enumerate(self.operands) if at != skip)]
        found: set[str] = set()
        for kind, number, wide in (match for text in texts for match in _REGISTER.findall(text)):
            found.update(f"{kind}{int(number) + n}" for n in range(2 if wide else 1))
        return frozenset(found)

    @property
    def _width(self) -> int:
        if self.base == "HGMMA":
            shape = re.search(r"x(\d+)x\d+\.(F\d+)", self.opcode)
            return 1 if shape is None else int(shape[1]) // (2 if shape[2] == "F32" else 4)
        if self.base == "CS2R":
            return 1 if ".32" in self.opcode else 2
        if self.base in ("LDSM", "HMMA", "IMMA"):
            return 4  # at most: a register too many only makes the checks stricter
        parts = self.opcode.split(".")
        return 4 if "128" in parts else 2 if {"64", "WIDE", "F64"} & set(parts) else 1


@dataclass(frozen=True)
class Function:
    """A kernel's machine code.

    Attributes:
        name: the kernel's.
        lines: labels and instructions as nvdisasm prints them.
    """

    name: str
    lines: tuple[str, ...]

    @cached_property
    def code(self) -> tuple[Instruction, ...]:
        """The instructions in order."""
        found = ((line, _CODE.match(text)) for line, text in enumerate(self.lines))
        return tuple(
            Instruction(line, match[1] or "", match[2], tuple(match[3].split(", ")) if match[3] else ())
            for line, match in found
            if match
        )

    @cached_property
    def labels(self) -> Mapping[str, int]:
        """Labels and the positions of the instructions behind them."""
        labels: dict[str, int] = {}
        position = 0
        for text in self.lines:
            label = _LABEL.match(text)
            if label:
                labels[label[1]] = position
            position += bool(_CODE.match(text))
        return labels

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """For each instruction, the positions of those that may execute next.

        A call is passed as if it were any other instruction, and its target is entered as well; a callee's RET leads
        nowhere. That is right as long as no callee holds what is looked for.

        Raises:
            ValueError: at control flow that this reader does not understand.
        """
        joins: dict[str, set[int]] = {}
        for instruction in self.code:
            if instruction.base == "BSSY":
                joins.setdefault(instruction.operands[0], set()).add(self._destination(instruction))
        return tuple(tuple(self._next(at, instruction, joins)) for at, instruction in enumerate(self.code))

    def _destination(self, instruction: Instruction) -> int:
        position = self.labels.get(instruction.target or "")
        if position is None:
            raise ValueError(f"{self.name}: no label for {instruction}")
        return position

    def _next(self, at: int, instruction: Instruction, joins: Mapping[str, set[int]]) -> Iterator[int]:
        base, falls_through = instruction.base, True
        if base in _LEAVES_UNKNOWN:
            raise ValueError(f"{self.name}: cannot follow {instruction}")
        if base == "BSYNC" and at + 1 not in joins.get(instruction.operands[-1], ()):
            raise ValueError(f"{self.name}: {instruction} does not stand where its BSSY joins")
        if base in ("BRA", "CALL", "WARPSYNC") and instruction.target and not instruction.never:
            yield self._destination(instruction)
        if base == "BRA":
            falls_through = instruction.conditional or len(instruction.operands) > 1
        elif base in ("EXIT", "RET"):
            falls_through = instruction.conditional
        if (falls_through or instruction.never) and at + 1 < len(self.code):  # behind the last are NOPs, for padding
            yield at + 1

    def find(self, *opcodes: str) -> list[int]:
        """Positions of the instructions that can execute and whose opcode is one of these or begins with it."""
        heads = tuple(f"{opcode}." for opcode in opcodes)
        return [
            at
            for at in sorted(self.reachable([0]))
            if f"{self.code[at].opcode}.".startswith(heads) and not self.code[at].never
        ]

    def reachable(self, starts: Iterable[int], stops: Iterable[int] = ()) -> set[int]:
        """The instructions that may execute from ``starts`` on, these included, on paths that end at ``stops``."""
        stops, todo, seen = set(stops), list(starts), set()
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo.extend(self.successors[at] if at not in stops else ())
        return seen

    def forward(
        self, entry: State, step: Callable[[int, State], State], join: Callable[[State, State], State]
    ) -> dict[int, State]:
        """The least solution of a forward analysis: for each instruction that can execute, the state before it."""
        states: dict[int, State] = {0: entry}
        todo = [0]
        while todo:
            at = todo.pop()
            after = step(at, states[at])
            for following in self.successors[at]:
                joined = join(states[following], after) if following in states else after
                if following not in states or joined != states[following]:
                    states[following] = joined
                    todo.append(following)
        return states

    def reaching(self, markers: Mapping[int, Item]) -> dict[int, frozenset[Item | None]]:
        """For each instruction, the markers that can be the last one passed before it; None stands for the entry.

        Args:
            markers: for each instruction that is a marker, which one.
        """

        def step(at: int, state: frozenset[Item | None]) -> frozenset[Item | None]:
            if at not in markers or self.code[at].never:
                return state
            passed: frozenset[Item | None] = frozenset([markers[at]])
            return state | passed if self.code[at].conditional else passed

        return self.forward(frozenset([None]), step, frozenset.union)

    def pending(self, sources: Mapping[int, Iterable[str]], uses: Callable[[Instruction], Iterable[str]]) -> dict[
        int, frozenset[int]
    ]:  # fmt: skip
        """For each instruction, the sources whose result nothing has used on some path to it.

        Args:
            sources: instructions and the registers or predicates of their results.
            uses: the registers and predicates that an instruction uses.
        """
        results = {at: frozenset(registers) for at, registers in sources.items()}

        def step(at: int, state: frozenset[int]) -> frozenset[int]:
            used = set(uses(self.code[at]))
            left = frozenset(source for source in state if not used & results[source])
            return left | {at} if at in results else left

        return self.forward(frozenset(), step, frozenset.union)

    def moved(self, at: int, to: int) -> Function:
        """The same code with the instruction at ``at`` moved to just before the one at ``to``."""
        lines = list(self.lines)
        line, place = self.code[at].line, self.code[to].line
        text = lines.pop(line)
        lines.insert(place - (line < place), text)
        return Function(self.name, tuple(lines))

    def without(self, at: int) -> Function:
        """The same code with one instruction less."""
        line = self.code[at].line
        return Function(self.name, self.lines[:line] + self.lines[line + 1 :])


def parse(text: str) -> dict[str, Function]:
    """The functions in the output of ``nvdisasm -c``, by name."""
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        section = _SECTION.match(line)
        if section:
            current = sections.setdefault(section[1], [])
        elif re.match(r"\s*(//-|\.section\b)", line):
            current = None
        elif current is not None and (_LABEL.match(line) or _CODE.match(line)):
            current.append(line)
    return {name: Function(name, tuple(lines)) for name, lines in sections.items()}


def compiled_kernels(cubin: Path) -> set[str]:
    """The names of the kernels whose machine code a cubin holds, from its sections' names."""
    return {name.decode() for name in re.findall(rb"\0\.text\.(\w+)", cubin.read_bytes())}


def find_nvdisasm() -> Path | None:
    """The disassembler of PyPI's nvidia-cuda-nvdisasm."""
    try:
        files = importlib.metadata.files("nvidia-cuda-nvdisasm") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(f.locate())) for f in files if f.name in ("nvdisasm", "nvdisasm.exe")), None)


def disassemble(cubin: Path, nvdisasm: Path) -> dict[str, Function]:
    """The functions of a cubin, by name."""
    done = subprocess.run([str(nvdisasm), "-c", str(cubin)], capture_output=True, text=True, check=True)
    return parse(done.stdout)
