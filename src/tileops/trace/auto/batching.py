"""Which of a kernel's calls hold their records back, and where these are stored.

A store makes the clock read behind it wait (see :mod:`tileops.trace.batches`), so of calls that always run one after
the other only every fourth stores. In a loop there is a better place than its end: while an asynchronous GEMM runs, its
warpgroup has nothing to do but to wait for it, whereas at the loop's end the tensor cores wait for the warpgroup. So
the records of such a loop are stored while its GEMMs run, those of an iteration's end in the next iteration.

Such a loop's first begin is recorded with the last end of the iteration before, at the loop's top. ptxas 13.0 moves
nothing ahead across a clock read: with one at the loop's end, the work of finding the next barrier came between two
GEMMs. Nor may the loop's body choose between sites, or nvcc 13.0 no longer unrolls that loop. So a record of its top
has its clock apart from its site, which is told ahead of the loop, and from then on where the record is put together.
Of a 4096³ GEMM with 128 threads on an H200, traced over untraced at level ``"roles"``: 1.095 with a choice at the
loop's end, 1.051 where such a loop was unrolled by force, 1.033 with the record at its top and unrolled by force. These
three were built by hand, once; ``benchmarks/auto.py`` prints 1.021 for what is made now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..batches import LARGEST

BREAK, ENTER, LEAVE = "break", "enter", "leave"
_HELD = LARGEST - 1  # records that a recorder can hold back


@dataclass(eq=False)
class Mark:
    """A call that records.

    Attributes:
        at: the offset of the line that it is put ahead of.
        role: the role that records.
        events: what it says happened, as (kind, number of the range).
        payload: a C++ expression, or nothing.
        condition: where it holds, ``more`` has happened as well.
        again: of a call with a condition, which ends a loop's body: what stands at the body's top in its place where
            the loop's records are stored in a GEMM's shadow.
        entered: of such a one: the call ahead of the loop. In the first iteration it stands for that.
        shadow: the offset of a line ahead of the role's next call at which an asynchronous GEMM has begun to run, where
            there is one.
        how: ``""``, ``"_held0"`` and so on, ``"_late0"`` and so on, or ``"_store2"`` and so on.
    """

    at: int
    role: int
    events: list[tuple[str, int]]
    payload: str = ""
    condition: str = ""
    more: list[tuple[str, int]] = field(default_factory=list)
    again: Mark | None = None
    entered: Mark | None = None
    shadow: int | None = None
    how: str = ""


@dataclass(eq=False)
class Border:
    """Where calls behind do not simply follow those ahead.

    Attributes:
        kind: ``BREAK``, or ``ENTER`` and ``LEAVE`` around a loop's body.
        at: the offset of the line that it is ahead of.
    """

    kind: str
    at: int


@dataclass(eq=False)
class Flush:
    """Stores what a role has held back.

    Attributes:
        at: the offset of the line that it is put ahead of.
        role: whose records.
        records: how many; 0 if they stay where they are.
        late: the call whose record's clock was kept apart from its site. They are put together first.
    """

    at: int
    role: int
    records: int = 0
    late: Mark | None = None


@dataclass(eq=False)
class First:
    """Says ahead of a loop what the first of the records of its top is.

    Attributes:
        at: the offset of the line that it is put ahead of.
        role: whose records.
        top: the call at the loop's top.
        events: what the first of its records says happened.
    """

    at: int
    role: int
    top: Mark
    events: list[tuple[str, int]]


def batched(parts: Sequence[Mark | Border]) -> list[Mark | Flush | First]:
    """Decides for each call how it records.

    Args:
        parts: a kernel's calls in the order of its source, with the borders between them.

    Returns:
        The calls with their ``how``, in the same order, and the ones that record nothing themselves.
    """
    return _Batcher(parts).made


class _Batcher:
    def __init__(self, parts: Sequence[Mark | Border]):
        self.made: list[Mark | Flush | First] = []
        self._runs: dict[int, list[Mark]] = {}  # of each role: its calls since the last border
        self._carried: dict[int, Flush] = {}  # of each role: what it holds since it left a loop
        at = 0
        while at < len(parts):
            part = parts[at]
            if isinstance(part, Mark):
                self.made.append(part)
                self._runs.setdefault(part.role, []).append(part)
            else:
                body = _straight(parts, at) if part.kind == ENTER else []
                if body and self._loop(body, parts[at + 1 + len(body) : at + 3 + len(body)]):
                    at += 1 + len(body)
                else:
                    self._close_all()
            at += 1
        self._close_all()
        self.made = [one for one in self.made if not isinstance(one, Flush) or one.records or one.late]

    def _loop(self, body: list[Mark], behind: Sequence[Mark | Border]) -> bool:
        """Takes a loop whose records are stored in a GEMM's shadow, if it is such a loop.

        Args:
            body: its calls.
            behind: its end, and what follows that.
        """
        role, last, leave = body[0].role, body[-1], behind[0]
        ahead = self._runs.get(role, [])
        top = last.again
        if top is not None:
            if not ahead or ahead[-1] is not top.entered:
                return False
            body, ahead = [top, *body[:-1]], ahead[:-1]
        ends = _ends(body)
        held = len(body) - 1 - ends[-1] if ends else 0
        if not ends or len(ahead) < held:
            return False
        if top is not None:
            assert top.entered is not None
            self.made[self.made.index(top.entered)] = First(top.entered.at, role, top, top.entered.events)
        self._runs[role] = ahead[: len(ahead) - held]
        self._close_all()
        _hold(ahead[len(ahead) - held :], 0)
        first = 0
        for end in ends:
            self._batch(body[first : end + 1], *((held, top) if first == 0 else (0, None)))
            first = end + 1
        rest = body[first:]
        _hold(rest, 0)
        left = Flush(leave.at, role, held)
        self.made += [*rest, left]
        self._carried[role] = left
        if top is not None:
            follows = behind[1] if len(behind) > 1 else None
            if isinstance(follows, Mark) and (follows.at, follows.role) == (leave.at, role):
                follows.events = [*last.events, *follows.events]
            else:
                ended = Mark(leave.at, role, last.events)
                self.made.append(ended)
                self._runs[role] = [ended]
        return True

    def _batch(self, batch: list[Mark], held: int, late: Mark | None) -> None:
        """Has some calls' records and the ``held`` ones ahead of them stored together."""
        last, records = batch[-1], held + len(batch)
        if last.shadow is None:
            _store(batch, held)
            self.made += [*batch[:-1], Flush(last.at, last.role, late=late), last]
        else:
            _hold(batch, held)
            self.made += [*batch, Flush(last.shadow, last.role, records, late)]

    def _close_all(self) -> None:
        for role, run in self._runs.items():
            self._close(role, run)
        self._runs = {}
        self._carried = {}

    def _close(self, role: int, run: list[Mark]) -> None:
        carried = self._carried.get(role)
        held = 0
        if carried is not None and run:
            held, carried.records = carried.records, 0
        while run:
            total = held + len(run)
            # Evenly, so that none is left alone.
            size = max(total // -(-total // LARGEST), held + 1)
            batch, run = run[: size - held], run[size - held :]
            _store(batch, held)
            held = 0


def _hold(marks: list[Mark], held: int) -> None:
    for place, mark in enumerate(marks, held):
        mark.how = f"_{'late' if mark.entered else 'held'}{place}"


def _store(marks: list[Mark], held: int) -> None:
    """Has the last of some calls store their records and the ``held`` ones ahead of them."""
    _hold(marks[:-1], held)
    records = held + len(marks)
    if records > 1:
        marks[-1].how = f"_store{records}"


def _straight(parts: Sequence[Mark | Border], enter: int) -> list[Mark]:
    """The calls of a loop's body; none if they do not all follow one another or are of several roles."""
    body: list[Mark] = []
    for part in parts[enter + 1 :]:
        if isinstance(part, Border):
            return body if part.kind == LEAVE else []
        if body and part.role != body[0].role:
            return []
        body.append(part)
    return []


def _ends(body: list[Mark]) -> list[int]:
    """The calls of a loop's body that a batch ends with; none where holding back across iterations gains nothing.

    Of all ways to make batches, with what is left at the body's end ahead of its first one, that with the fewest
    batches outside of a GEMM's shadow, and of these one with the fewest batches.
    """
    if not any(mark.shadow is not None for mark in body):
        return []
    best: tuple[tuple[int, int], list[int]] | None = None
    for held in range(min(_HELD, len(body) - 1) + 1):
        # (cost, ends) of the best batches up to each call
        found: list[tuple[tuple[int, int], list[int]] | None] = []
        for at, mark in enumerate(body[: len(body) - held]):
            most = LARGEST if mark.shadow is None else _HELD
            ways: list[tuple[tuple[int, int], list[int]]] = [((0, 0), [])] if at + 1 + held <= most else []
            ways += [one for one in found[max(at - most, 0) : at] if one is not None]
            if not ways or mark.entered:  # its site is not known yet where it stands
                found.append(None)
                continue
            (outside, count), ends = min(ways, key=lambda way: way[0])
            found.append(((outside + (mark.shadow is None), count + 1), [*ends, at]))
        whole = found[-1]
        if whole is not None and (best is None or whole[0] < best[0]):
            best = whole
    assert best is not None  # the last call can always end a batch
    return [] if best[1][-1] == len(body) - 1 and body[-1].shadow is None else best[1]
