"""Random kernels: their text, and a model that says which events each CTA must record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

GRID = (2, 3)
GROUPS, LANES = ("main", "one", "two"), ("main", "left", "right")


@dataclass
class Event:
    """What the model says a marker records: ``range`` is the number of the begin, for both ends."""

    kind: str
    name: str
    lane: str
    payload: int | float | None
    range: int = -1


@dataclass
class Run:
    """One CTA's run through the model."""

    values: dict[str, int]
    out: np.float32
    events: dict[str, list[Event]] = field(default_factory=dict)
    ranges: int = 0

    def work(self, factor: float, term: float) -> None:
        self.out = self.out * np.float32(factor) + np.float32(term)

    def add(self, group: str, event: Event) -> None:
        self.events.setdefault(group, []).append(event)


class Break(Exception):
    pass


class Continue(Exception):
    pass


Step = Callable[[Run], None]


@dataclass
class Program:
    """Lines of a kernel's body, and what they do."""

    lines: list[str]
    step: Step


class _Writer:
    """Draws a program. Names are unique, so that a failure names its line."""

    def __init__(self, draw: Any):
        self.draw = draw
        self.count = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def block(self, depth: int, group: str, variables: tuple[str, ...], loop: str = "") -> Program:
        size = self.draw(st.integers(1, 4 if depth else 6))
        return _in_a_row([self.statement(depth, group, variables, loop) for _ in range(size)])

    def statement(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        leaves = ["record", "record", "work", "empty", "overlap"]
        inner = ["range", "range", "split", "serial", "serial", "unroll", "python", "if", "if else", "group", "while"]
        choices = leaves + (inner if depth < 4 else []) + (["leave"] if loop else [])
        kind = self.draw(st.sampled_from(choices)).replace(" ", "_")
        return getattr(self, f"_{kind}")(depth, group, variables, loop)

    # Leaves

    def _work(self, *_: Any) -> Program:
        # The product is exact, so that it does not matter whether the compiler fuses it with the sum.
        return Program(["out[bx, by] = out[bx, by] * 0.5 + 1.0"], lambda run: run.work(0.5, 1.0))

    def _record(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        name, lane = self.name("r"), self.draw(st.sampled_from(LANES))
        text, value = self.payload(variables)
        line = f"trace.record({name!r}, payload={text}, lane={lane!r})"
        return Program([line], lambda run: run.add(group, Event("record", name, lane, value(run))))

    def _empty(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        name, lane = self.name("e"), self.draw(st.sampled_from(LANES))
        text, value = self.payload(variables)
        return _ranged(
            [f"with trace.range({name!r}, {lane!r}, {text}):", "    pass"], group, name, lane, value, lambda run: None
        )

    def _overlap(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        first, second = self.name("a"), self.name("b")
        lines = [
            f"{first} = trace.range_start({first!r}, 'left')",
            "out[bx, by] = out[bx, by] + 2.0",
            f"{second} = trace.range_start({second!r}, 'right')",
            f"trace.range_end({first})",
            "out[bx, by] = out[bx, by] + 3.0",
            f"trace.range_end({second})",
        ]

        def step(run: Run) -> None:
            a, b = run.ranges, run.ranges + 1
            run.ranges += 2
            run.add(group, Event("begin", first, "left", None, a))
            run.work(1.0, 2.0)
            run.add(group, Event("begin", second, "right", None, b))
            run.add(group, Event("end", first, "left", None, a))
            run.work(1.0, 3.0)
            run.add(group, Event("end", second, "right", None, b))

        return Program(lines, step)

    def _leave(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        word = self.draw(st.sampled_from(["break", "continue"]))
        error = Break if word == "break" else Continue
        text, value = self.condition(variables, compile_time=loop == "python")

        def step(run: Run) -> None:
            if value(run):
                raise error

        return Program([f"if {text}:", f"    {word}"], step)

    # Around others

    def _range(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        name, lane = self.name("x"), self.draw(st.sampled_from(LANES))
        text, value = self.payload(variables)
        # A device loop must not be left with a range open; one that Python unrolls may be left by `break`.
        inside = self.block(depth + 1, group, variables, loop if loop == "python" else "")
        lines = [f"with trace.range({name!r}, lane={lane!r}, payload={text}):", *_indented(inside.lines)]
        return _ranged(lines, group, name, lane, value, inside.step)

    def _split(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        name, lane = self.name("s"), self.draw(st.sampled_from(LANES))
        text, value = self.payload(variables)
        condition, holds = self.condition(variables)
        then, other = (self.block(depth + 1, group, variables) for _ in range(2))
        lines = [
            f"{name} = trace.range_start({name!r}, lane={lane!r}, payload={text})",
            f"if {condition}:", *_indented([*then.lines, f"trace.range_end({name})"]),
            "else:", *_indented([f"trace.range_end({name})", *other.lines]),
        ]  # fmt: skip

        def step(run: Run) -> None:
            number = run.ranges
            run.ranges += 1
            run.add(group, Event("begin", name, lane, value(run), number))
            if holds(run):
                then.step(run)
            run.add(group, Event("end", name, lane, None, number))
            if not holds(run):
                other.step(run)

        return Program(lines, step)

    def _loop(self, header: str, turns: Callable[[Run], Iterator[int]], variable: str, inside: Program) -> Program:
        def step(run: Run) -> None:
            for turn in turns(run):
                run.values[variable] = turn
                try:
                    inside.step(run)
                except Break:
                    break
                except Continue:
                    continue

        return Program([header, *_indented(inside.lines)], step)

    def _serial(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        variable = self.name("i")
        start, size, stride = self.draw(st.integers(-2, 2)), self.draw(st.integers(0, 4)), self.draw(st.integers(1, 2))
        # TileLang 0.1.15 inlines a loop of one turn, and what leaves that leaves the loop around it.
        turns = len(range(start, start + size, stride))
        inside = self.block(depth + 1, group, (*variables, variable), "serial" if turns > 1 else "")
        header = f"for {variable} in T.serial({start}, {start + size}, {stride}):"
        return self._loop(header, lambda run: iter(range(start, start + size, stride)), variable, inside)

    def _unroll(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        variable, size = self.name("u"), self.draw(st.integers(1, 3))
        inside = self.block(depth + 1, group, (*variables, variable))
        return self._loop(f"for {variable} in T.unroll({size}):", lambda run: iter(range(size)), variable, inside)

    def _python(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        variable, size = self.name("p"), self.draw(st.integers(1, 3))
        inside = self.block(depth + 1, group, (*variables, variable), "python")
        return self._loop(f"for {variable} in {[*range(size)]}:", lambda run: iter(range(size)), variable, inside)

    def _while(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        variable, size = self.name("w"), self.draw(st.integers(0, 3))
        inside = self.block(depth + 1, group, variables)
        lines = [
            f"{variable} = T.alloc_var('int32')", f"{variable} = 0", f"while {variable} < {size}:",
            *_indented([*inside.lines, f"{variable} += 1"]),
        ]  # fmt: skip

        def step(run: Run) -> None:
            for _ in range(size):
                inside.step(run)

        return Program(lines, step)

    def _if(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        text, value = self.condition(variables)
        inside = self.block(depth + 1, group, variables, loop if loop == "serial" else "")

        def step(run: Run) -> None:
            if value(run):
                inside.step(run)

        return Program([f"if {text}:", *_indented(inside.lines)], step)

    def _if_else(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        text, value = self.condition(variables)
        then, other = (self.block(depth + 1, group, variables) for _ in range(2))
        lines = [f"if {text}:", *_indented(then.lines), "else:", *_indented(other.lines)]
        return Program(lines, lambda run: (then if value(run) else other).step(run))

    def _group(self, depth: int, group: str, variables: tuple[str, ...], loop: str) -> Program:
        name = self.draw(st.sampled_from(GROUPS))
        inside = self.block(depth + 1, name, variables, loop)
        return Program([f"with trace.group({name!r}, lead=0):", *_indented(inside.lines)], inside.step)

    # Expressions

    def payload(self, variables: tuple[str, ...]) -> tuple[str, Callable[[Run], int | float | None]]:
        number = self.draw(st.integers(-3, 3))
        of = self.draw(st.sampled_from(["bx", "by", *variables]))
        kind = self.draw(st.sampled_from(["none", "none", "int", "float", "unsigned", "index", "expression", "real"]))
        if kind == "none":
            return "None", lambda run: None
        if kind in ("int", "float", "unsigned"):
            value = {"int": number, "float": number * 0.25, "unsigned": (1 << 32) - 4 + abs(number)}[kind]
            return repr(value), lambda run: value
        if kind == "index":
            return of, lambda run: run.values[of]
        if kind == "expression":
            return f"{of} * {number} - 5", lambda run: run.values[of] * number - 5
        return f"T.cast({of}, 'float32') * 0.5", lambda run: run.values[of] * 0.5

    def condition(self, variables: tuple[str, ...], compile_time: bool = False) -> tuple[str, Callable[[Run], bool]]:
        of = variables[-1] if compile_time else self.draw(st.sampled_from(["bx", "by", *variables]))
        number = self.draw(st.integers(-1, 2))
        return f"{of} > {number}", lambda run: run.values[of] > number


def _in_a_row(parts: list[Program]) -> Program:
    def step(run: Run) -> None:
        for part in parts:
            part.step(run)

    return Program([line for part in parts for line in part.lines], step)


def _ranged(
    lines: list[str], group: str, name: str, lane: str, value: Callable[[Run], int | float | None], inside: Step
) -> Program:
    def step(run: Run) -> None:
        number = run.ranges
        run.ranges += 1
        run.add(group, Event("begin", name, lane, value(run), number))
        try:
            inside(run)
        finally:
            run.add(group, Event("end", name, lane, None, number))

    return Program(lines, step)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def programs(draw: Any) -> Program:
    return _Writer(draw).block(0, "main", ())


def text_of(program: Program) -> str:
    """A module that holds ``make(trace)`` for the program's kernel."""
    return "\n".join([
        "import tilelang.language as T",
        "",
        "def make(trace):",
        "    @T.prim_func",
        f"    def main(a: T.Tensor({GRID}, 'float32'), b: T.Tensor({GRID}, 'float32')):",
        f"        with T.Kernel({GRID[0]}, {GRID[1]}, threads=1) as (bx, by):",
        "            out = b",
        "            out[bx, by] = a[bx, by]",
        *(f"            {line}" for line in program.lines),
        "    return main",
        "",
    ])  # fmt: skip


def expected(program: Program, inputs: np.ndarray) -> list[Run]:
    """Each CTA's run, x fastest, from (grid x, grid y) float32 inputs."""
    runs = [Run({"bx": x, "by": y}, inputs[x, y]) for y in range(GRID[1]) for x in range(GRID[0])]
    for run in runs:
        program.step(run)
    return runs
