"""Which CTAs of a launch are recorded, and in which line of ``slots`` each of them writes.

A CTA that is not chosen costs its threads one predicate at the kernel's start, and no memory. The device computes its
line from its number (:meth:`Choice.place`, or :meth:`Choice.source` where it is generated code that is written to), the
host the numbers of all lines (:meth:`Choice.numbers`): here, side by side.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import TraceError

if TYPE_CHECKING:
    Ctas = None | str | slice | Iterable[int]

ONE_PER_SM, OUTER_WAVES = "one per SM", "first and last wave"
# A list becomes one comparison an entry, in every CTA.
LONGEST_LIST = 256
# Where an SM holds several CTAs, the first 132 of a launch went to 124 of an H200's 132 SMs. So more are recorded, and
# the host keeps the first of each SM.
CANDIDATES_AN_SM = 4


@dataclass(frozen=True)
class Choice:
    """The chosen CTAs.

    Attributes:
        kind: ``"all"``; ``"list"``; ``"stride"``: every n-th; ``"ends"``: the first and the last ones; ``"per SM"``:
            the first ones, of which only each SM's earliest is shown.
        numbers_of_kind: none; the CTAs, ascending; first, last + 1 (or -1 for no end) and step; how many of the first
            and how many of the last; how many.
    """

    kind: str = "all"
    numbers_of_kind: tuple[int, ...] = ()

    @classmethod
    def of(cls, ctas: Ctas, multiprocessors: Callable[[], int]) -> Choice:
        """Reads an author's choice.

        Args:
            ctas: see :meth:`tileops.trace.namespace.Trace.finalize`.
            multiprocessors: tells how many SMs the GPU has; called where the choice needs it.

        Raises:
            TraceError: if that is no choice.
        """
        if ctas is None:
            return cls()
        if isinstance(ctas, str):
            if ctas not in (ONE_PER_SM, OUTER_WAVES):
                raise TraceError(f"ctas: {ctas!r} is unknown; there are {ONE_PER_SM!r} and {OUTER_WAVES!r}")
            wave = multiprocessors()
            return cls("ends", (wave, wave)) if ctas == OUTER_WAVES else cls("per SM", (CANDIDATES_AN_SM * wave,))
        if isinstance(ctas, slice):
            return cls("stride", _bounds(ctas))
        try:
            numbers = sorted({*ctas}) if not isinstance(ctas, (bytes, dict)) else None
        except TypeError:
            numbers = None
        if numbers is None:
            raise TraceError(_kinds(ctas))
        if not numbers or not all(_is_number(number) for number in numbers):
            raise TraceError(f"ctas: CTAs are numbered 0, 1, ... and one at least must be chosen, got {ctas!r}")
        if len(numbers) > LONGEST_LIST:
            raise TraceError(f"ctas: a list may name {LONGEST_LIST} CTAs, this one names {len(numbers)}: use a slice")
        return cls("list", tuple(int(number) for number in numbers))

    def check(self) -> None:
        """Raises ValueError for what :meth:`of` does not make."""
        numbers = self.numbers_of_kind
        sizes = {"all": (0,), "list": range(1, LONGEST_LIST + 1), "stride": (3,), "ends": (2,), "per SM": (1,)}
        whole = all(isinstance(number, int) and -1 <= number < 1 << 62 for number in numbers)
        good = whole and len(numbers) in sizes.get(self.kind, ())
        if self.kind == "list":
            good = good and numbers[0] >= 0 and list(numbers) == sorted({*numbers})
        elif self.kind == "stride":
            good = good and numbers[0] >= 0 and numbers[2] > 0
        elif self.kind == "ends":
            good = good and numbers[0] > 0 and numbers[1] >= 0
        elif self.kind == "per SM":
            good = good and numbers[0] > 0
        if not good:
            raise ValueError(f"{self} is no choice of CTAs")

    def numbers(self, ctas: int, most: int | None = None) -> np.ndarray:
        """Of a launch of ``ctas`` CTAs, the numbers of those that have a line: (lines,) int64, ascending.

        Args:
            ctas: as many as the grid has.
            most: stops behind that many: what slots say of their grid may be damaged.
        """
        ctas, numbers = min(ctas, 1 << 62), self.numbers_of_kind
        if self.kind == "list":
            return np.array(numbers[: bisect_left(numbers, ctas)][:most], dtype=np.int64)
        if self.kind == "stride":
            start, stop, step = numbers
            parts = [range(start, ctas if stop < 0 else min(stop, ctas), step)]
        elif self.kind == "ends":
            first, last = (min(number, ctas) for number in numbers)
            parts = [range(first), range(max(first, ctas - last), ctas)]
        else:  # all, or the first ones
            parts = [range(min(ctas, *numbers, ctas))]
        parts = [part[:most] for part in parts]
        return np.concatenate([np.arange(part.start, part.stop, part.step, dtype=np.int64) for part in parts])[:most]

    def lines(self, ctas: Any) -> Any:
        """How many lines a launch of ``ctas`` CTAs needs at most, at least one; both may be TIR expressions."""
        import tilelang.language as T

        numbers = self.numbers_of_kind
        if self.kind == "list":
            return len(numbers)
        if self.kind == "stride":
            start, stop, step = numbers
            end = ctas if stop < 0 else T.min(ctas, stop)
            return T.max((end - start + step - 1) // step, 1)
        return ctas if self.kind == "all" else T.min(ctas, sum(numbers))

    def line_count(self, ctas: int) -> int:
        """What :meth:`lines` is in a launch of ``ctas`` CTAs."""
        return len(self.numbers_of_kind) if self.kind == "list" else max(len(self.numbers(ctas)), 1)

    def source(self, cta: str, ctas: str) -> tuple[str, str]:
        """:meth:`place` as C++ expressions of the names of two ``unsigned long long`` variables.

        The line of a CTA that is not recorded is any number.
        """
        numbers = self.numbers_of_kind
        if self.kind == "list":
            chosen = " || ".join(f"{cta} == {number}" for number in numbers)
            return chosen, "".join(f"{cta} == {number} ? {at} : " for at, number in enumerate(numbers)) + "0"
        if self.kind == "stride":
            start, stop, step = numbers
            behind = f"({cta} - {start})" if start else cta
            parts = [f"{cta} >= {start}"] if start else []
            parts += [f"{behind} % {step} == 0", *([] if stop < 0 else [f"{cta} < {stop}"])]
            return " && ".join(parts), f"{behind} / {step}"
        if self.kind == "per SM":
            return f"{cta} < {numbers[0]}", cta
        if self.kind == "ends":
            first, last = numbers
            skipped = f"({ctas} > {first + last} ? {ctas} - {first + last} : 0)"
            return f"{cta} < {first} || {cta} + {last} >= {ctas}", f"{cta} < {first} ? {cta} : {cta} - {skipped}"
        return "true", cta

    def place(self, cta: Any, ctas: Any) -> tuple[Any, Any]:
        """Whether CTA ``cta`` of ``ctas`` is recorded and, if so, its line: TIR expressions of TIR expressions."""
        import tilelang.language as T
        from tilelang import tvm

        tirx = tvm.tirx
        numbers = self.numbers_of_kind
        if self.kind == "list":
            recorded: Any = tirx.const(False, "bool")
            line: Any = tirx.const(0, "int64")
            for position, number in enumerate(numbers):
                recorded = tirx.Or(recorded, cta == number)
                line = tirx.Select(cta == number, tirx.const(position, "int64"), line)
            return recorded, line
        if self.kind == "stride":
            start, stop, step = numbers
            behind = cta - start
            recorded = tirx.And(cta >= start, T.floormod(behind, step) == 0)
            return (recorded if stop < 0 else tirx.And(recorded, cta < stop)), T.floordiv(T.max(behind, 0), step)
        if self.kind == "per SM":
            return cta < numbers[0], cta
        if self.kind == "ends":
            first, last = numbers
            skipped = T.max(ctas - (first + last), 0)
            return tirx.Or(cta < first, cta >= ctas - last), tirx.Select(cta < first, cta, T.max(cta - skipped, 0))
        return tirx.const(True, "bool"), cta


def check_keep(where: str, keep: Any) -> None:
    """Raises TraceError if ``keep`` does not say which events of a full row stay."""
    if keep not in ("first", "last"):
        raise TraceError(f'{where}: keep must be "first" or "last" (which events of a full row stay), got {keep!r}')


def checked_ctas(where: str, ctas: Ctas) -> Ctas:
    """A choice of CTAs that can be kept: what an iterator or a list of the caller's holds now.

    Raises:
        TraceError: if it is none.
    """
    kept = ctas if ctas is None or isinstance(ctas, (str, slice)) else _numbers(where, ctas)
    try:
        Choice.of(kept, lambda: 1)
    except TraceError as error:
        raise TraceError(f"{where}: {error}") from None
    return kept


def _numbers(where: str, ctas: Any) -> Any:
    try:
        if not isinstance(ctas, (bytes, dict)):
            return tuple(ctas)
    except TypeError:
        pass
    raise TraceError(f"{where}: {_kinds(ctas)}")


def _kinds(ctas: Any) -> str:
    return f"ctas must be a list of CTAs' numbers, a slice, {ONE_PER_SM!r} or {OUTER_WAVES!r}, got {ctas!r}"


def _bounds(ctas: slice) -> tuple[int, int, int]:
    start, stop, step = ctas.start, ctas.stop, ctas.step
    start, stop, step = 0 if start is None else start, -1 if stop is None else stop, 1 if step is None else step
    valid = _is_number(start) and _is_number(step) and step > 0 and (ctas.stop is None or _is_number(stop))
    if not valid or 0 <= stop <= start:
        raise TraceError(
            f"ctas: a slice goes upwards from a CTA, as slice(0, None, 8) does for every eighth one, got {ctas!r}"
        )
    return int(start), int(stop), int(step)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= int(value) < 1 << 62
