"""Named barriers that two groups of threads wait at without meaning each other.

``bar.sync id, count`` lets go of whoever waits once ``count`` threads have come, whichever they are. TileLang 0.1.15
counts the numbers of such barriers for static and for dynamic shared memory apart. So where one group's threads share
the one and another's the other, both wait at barrier 3. Such a kernel ends as long as its groups keep out of each
other's way by chance: with recorder calls in it, the example ``deepseek_v32/sparse_mla_fwd_pipelined.py`` of TileLang
0.1.14 no longer ended on an H200.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from .operations import Interval, split
from .syntax import Call, Kernel, Statement

_SYNC = "__sync_thread_partial"  # of a barrier's number and how many threads it waits for
_OF_ALL = {"__syncthreads", "cluster_sync", "sync_grid"}
# A reduction across more threads than a warp has waits at two, by TileLang's reduce.h.
_REDUCTION = re.compile(r"AllReduce<[\w:]+,\s*(\d+),\s*(\d+),[^;]*?NamedBarrier<(\d+)>")
_OF_REDUCTIONS = ("1", "2")
_WARP = 32
# Conditions that differ between threads and name none of them.
_BY_WARP = re.compile(r"\bget_(warp|lane)\w*\(")


class _Use(NamedTuple):
    """Threads that wait at a barrier until ``awaited`` have come, in one of the parts that :func:`_uses` tells of."""

    part: int
    barrier: str
    awaited: int
    threads: Interval


def mistaken(kernel: Kernel) -> str:
    """Why a kernel's named barriers can let threads pass that they should hold; empty if that cannot be told."""
    if not kernel.threads:
        return ""
    uses = sorted({*_uses(kernel.statements, kernel.threads)})
    for one, other in itertools.combinations(uses, 2):
        if one[:2] != other[:2] or one.threads[1] > other.threads[0]:
            continue
        # Where a barrier waits for more threads than one group has, the two are meant to meet.
        if any(use.awaited <= use.threads[1] - use.threads[0] for use in (one, other)):
            groups = " and ".join(f"{use.threads[0]}-{use.threads[1] - 1}" for use in (one, other))
            return (
                f"its threads {groups} wait at the same named barrier, number {one.barrier}, and can let each other "
                "pass: whether it ends and what it computes depends on timing, which tracing changes"
            )
    return ""


def _uses(statements: tuple[Statement, ...], threads: int) -> Iterator[_Use]:
    """A kernel's uses of named barriers. A barrier of the whole block between two of its statements parts them."""
    part = 0
    for statement in _in_order(statements):
        if statement.kind == "expression" and any(_is_of_all(call, threads) for call in statement.calls):
            part += 1
        for barrier, awaited, group in _below(statement, (0, threads)):
            yield _Use(part, barrier, awaited, group)
        if statement.jumps:
            return  # who is left behind it cannot be told


def _in_order(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    for statement in statements:
        if statement.kind == "block":
            yield from _in_order(statement.body)
        else:
            yield statement


def _is_of_all(call: Call, threads: int) -> bool:
    return call.name in _OF_ALL or (call.name == _SYNC and call.arguments[1:] == (str(threads),))


def _below(statement: Statement, threads: Interval) -> Iterator[tuple[str, int, Interval]]:
    """The uses inside a statement, less those of which it cannot be told whose they are."""
    then, otherwise = (threads, threads)
    if statement.kind == "if":
        first, second = split(statement.condition, threads)
        if first is None or _BY_WARP.search(statement.condition):
            return
        then, otherwise = first, second or first
        if second is None:
            statement = replace(statement, otherwise=())
    if not statement.body and not statement.otherwise:
        for call in statement.calls:
            if call.name == _SYNC and _is_known(call):
                yield call.arguments[0], int(call.arguments[1]), threads
        for across, scale, awaited in _REDUCTION.findall(statement.text):
            if int(across) > max(_WARP, int(scale)):
                yield from ((barrier, int(awaited), threads) for barrier in _OF_REDUCTIONS)
    for inner in statement.body:
        yield from _below(inner, then)
    for inner in statement.otherwise:
        yield from _below(inner, otherwise)


def _is_known(call: Call) -> bool:
    return len(call.arguments) == 2 and all(text.isdecimal() for text in call.arguments)
