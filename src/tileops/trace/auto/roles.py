"""Which groups of threads a kernel's code is written for, and what they are called."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from ..markers import DEFAULT_GROUP
from .operations import GEMM, LOAD, Interval, Node, Operation, all_operations

PRODUCER, CONSUMER = "producer", "consumer"
WARPGROUP = 128  # threads


@dataclass(frozen=True)
class Role:
    """Threads that run code of their own, and of which the first one records, or the first one of each warpgroup.

    Attributes:
        names: ``"producer"``, ``"consumer"`` (numbered where there are several), their warps, or ``"main"``; of
            consumers one for each warpgroup.
        threads: from the first to behind the last, along x.
    """

    names: tuple[str, ...]
    threads: Interval

    @property
    def lead(self) -> int:
        """The thread that records, in the first warpgroup."""
        return self.threads[0]


def roles(nodes: list[Node]) -> list[Role]:
    """The roles of a kernel, by their threads."""
    found: dict[Interval, list[Operation]] = {}
    for operation in all_operations(nodes):
        found.setdefault(operation.threads, []).append(operation)
    own = sorted(one for one in found if not any(_holds(one, other) for other in found if other != one))
    if len(own) < 2:
        return [Role((DEFAULT_GROUP,), own[0] if own else (0, 1))]
    bases = [_base(found[one], one) for one in own]
    counts = [_warpgroups(one) if base == CONSUMER else 1 for base, one in zip(bases, own)]
    totals = {base: sum(count for one, count in zip(bases, counts) if one == base) for base in bases}
    numbers = {base: itertools.count() for base in bases}
    return [
        Role(tuple(base if totals[base] == 1 else f"{base} {next(numbers[base])}" for _ in range(count)), threads)
        for base, count, threads in zip(bases, counts, own)
    ]


def role_of(operation: Operation, roles: list[Role]) -> int:
    """The position of the role that records an operation: of those that run it, a consumer, else the first."""
    running = [at for at, role in enumerate(roles) if _holds(operation.threads, role.threads)]
    return next((at for at in running if roles[at].names[0].startswith(CONSUMER)), running[0])


def _base(operations: Iterable[Operation], threads: Interval) -> str:
    # What is loaded is counted with the operation's own buffers, at level "roles" as well.
    kinds = {operation.kind for operation in operations}
    gemm = any(call.name.startswith(("wgmma_", "mma_", "tcgen05")) for operation in operations
               for statement in operation.statements for call in statement.calls)  # fmt: skip
    if GEMM in kinds or gemm:
        return CONSUMER
    if LOAD in kinds:
        return PRODUCER
    first, last = threads[0] // 32, (threads[1] - 1) // 32
    return f"warp {first}" if first == last else f"warps {first}-{last}"


def _warpgroups(threads: Interval) -> int:
    whole, rest = divmod(threads[1] - threads[0], WARPGROUP)
    return whole if rest == 0 and threads[0] % WARPGROUP == 0 else 1


def _holds(outer: Interval, inner: Interval) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
