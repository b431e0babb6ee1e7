"""Which groups of threads a kernel's code is written for, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..markers import DEFAULT_GROUP
from .operations import GEMM, LOAD, Interval, Node, Operation, all_operations

PRODUCER, CONSUMER = "producer", "consumer"


@dataclass(frozen=True)
class Role:
    """Threads that run code of their own, and of which the first one records.

    Attributes:
        name: ``"producer"``, ``"consumer"`` (numbered where there are several), their warps, or ``"main"``.
        threads: from the first to behind the last, along x.
    """

    name: str
    threads: Interval

    @property
    def lead(self) -> int:
        """The thread that records."""
        return self.threads[0]


def roles(nodes: list[Node]) -> list[Role]:
    """The roles of a kernel, by their threads."""
    found: dict[Interval, list[Operation]] = {}
    for operation in all_operations(nodes):
        found.setdefault(operation.threads, []).append(operation)
    own = sorted(one for one in found if not any(_holds(one, other) for other in found if other != one))
    if len(own) < 2:
        return [Role(DEFAULT_GROUP, own[0] if own else (0, 1))]
    bases = [_base(found[one], one) for one in own]
    return [Role(base if bases.count(base) == 1 else f"{base} {bases[:at].count(base)}", threads)
            for at, (base, threads) in enumerate(zip(bases, own))]  # fmt: skip


def role_of(operation: Operation, roles: list[Role]) -> int:
    """The position of the role that records an operation: of those that run it, a consumer, else the first."""
    running = [at for at, role in enumerate(roles) if _holds(operation.threads, role.threads)]
    return next((at for at in running if roles[at].name.startswith(CONSUMER)), running[0])


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


def _holds(outer: Interval, inner: Interval) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
