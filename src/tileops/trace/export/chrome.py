"""The timeline as Chrome's JSON trace events, for viewers that do not read Perfetto's protobuf.

The format has two levels, processes and threads: SMs are processes, the tracks of their CTAs threads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ..files import exported
from ..timeline import PAYLOAD_INT, PAYLOAD_NONE, Table, Timeline
from .facts import cta_facts, launch_facts
from .tracks import Block, blocks, check_axis, counters, whole_ns

SUFFIX = ".chrome.json"

# The process of what belongs to the whole GPU; SM n is process n + 2. Zero is the idle process to some viewers.
_GPU = 1


def export_chrome(
    timeline: Timeline, path: str | os.PathLike[str], *, progress: Callable[[float], None] | None = None
) -> Path:
    """Writes a Timeline as Chrome's JSON trace events.

    As :func:`~tileops.trace.export.perfetto.export_perfetto`, in what this format has: complete events (``X``) on a
    thread for each track, instants (``i``), counters (``C``), and a pair of ``s`` and ``f`` for an occurrence of a
    ``dag`` edge. Such a pair names the threads and times that it connects: the source's begin, and of the destination's
    begin and end the first that comes later. Times are microseconds with three decimals.

    Args:
        timeline: what to write.
        path: the file; its folders are made, and a file that is there is replaced, unless it is a recording.
        progress: called with how much is done, from 0 to 1.

    Returns:
        ``path``.

    Raises:
        TraceError: for a Timeline that has no nanoseconds.
        OSError: naming ``path``, if it cannot be written. The file appears whole or not at all.
    """
    check_axis(timeline)
    done = tracks = 0
    with exported(path) as file:
        facts = _sound(launch_facts(timeline))
        head = {"displayTimeUnit": "ns", "otherData": facts}
        file.write((_json(head)[:-1] + ',"traceEvents":[\n').encode())
        file.write(_lines(_of_gpu(timeline, facts), first=True))
        known: set[int] = set()
        for block in blocks(timeline):
            lines, threads, processes = _of_ctas(timeline, block, known, done + tracks)
            file.write(_lines(lines))
            file.write(_lines(_slices(timeline.slices, block, threads, processes)))
            file.write(_lines(_instants(timeline.instants, block, threads, processes)))
            file.write(_lines(_flows(block, threads, processes)))
            done, tracks = done + len(block.ctas), tracks + len(block.lanes)
            if progress is not None:
                progress(done / len(timeline.ctas))
        file.write(b"\n]}\n")
    if progress is not None:
        progress(1.0)
    return Path(path)


def _lines(events: Iterable[str], first: bool = False) -> bytes:
    text = ",\n".join(events)
    return (("" if first or not text else ",\n") + text).encode()


def _of_gpu(timeline: Timeline, facts: dict[str, Any]) -> list[str]:
    ends = timeline.ctas["end_ns"][timeline.ctas["finished"].astype(bool)]
    lines = [_named("process_name", _GPU, 0, facts["device"]), _named("thread_name", _GPU, 0, "launch")]
    lines.append(_span(_GPU, 0, facts["kernel"], 0, int(whole_ns(ends).max(initial=0)), facts))
    for counter in counters(timeline):
        head = f'{{"ph":"C","pid":{_GPU},"tid":0,"name":{_json(counter.name)},"ts":'
        lines += [
            f'{head}{time // 1000}.{time % 1000:03d},"args":{{"count":{value}}}}}'
            for time, value in zip(counter.time.tolist(), counter.value.tolist())
        ]
    return lines


def _of_ctas(
    timeline: Timeline, block: Block, known: set[int], thread: int
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The CTAs' events and the names of all threads; for each lane its thread and its process.

    ``known`` are the SMs that have names, ``thread`` is the last thread that has one.
    """
    lines: list[str] = []
    threads: list[int] = []
    processes: list[int] = []
    for cta, lanes in block.by_cta():
        process, title = cta.sm + 2, f"CTA {cta.number}"
        if cta.sm not in known:
            known.add(cta.sm)
            lines += [_named("process_name", process, 0, f"SM {cta.sm}"), _sorted("process", process, 0, process)]
        facts = _sound(cta_facts(timeline, cta.row))
        lines.append(_span(process, thread + 1, title, cta.begin, cta.end, facts))
        threads += range(thread + 2, thread + 2 + len(lanes))
        processes += [process] * len(lanes)
        for name in (title, *(f"{title}: {lane.title}" for lane in lanes)):
            thread += 1
            lines += [_named("thread_name", process, thread, name), _sorted("thread", process, thread, thread)]
    return lines, np.array(threads, dtype=np.int64), np.array(processes, dtype=np.int64)


def _slices(table: Table, block: Block, threads: np.ndarray, processes: np.ndarray) -> list[str]:
    names = [_json(name) for name in table.vocabulary("name")]
    track, took = block.track, block.end - block.start
    columns = (processes[track], threads[track], table.codes("name")[block.slices], block.start, took)
    return [
        f'{{"ph":"X","pid":{pid},"tid":{tid},"name":{names[name]},"ts":{start // 1000}.{start % 1000:03d},'
        f'"dur":{took // 1000}.{took % 1000:03d}{args}}}'
        for (pid, tid, name, start, took), args in zip(
            zip(*(column.tolist() for column in columns)), _arguments(table, block.slices, table["cut"][block.slices])
        )
    ]


def _instants(table: Table, block: Block, threads: np.ndarray, processes: np.ndarray) -> list[str]:
    names = [_json(name) for name in table.vocabulary("name")]
    track = block.instants_track
    columns = (processes[track], threads[track], table.codes("name")[block.instants], block.time)
    return [
        f'{{"ph":"i","s":"t","pid":{pid},"tid":{tid},"name":{names[name]},"ts":{time // 1000}.{time % 1000:03d}{args}}}'
        for (pid, tid, name, time), args in zip(
            zip(*(column.tolist() for column in columns)),
            _arguments(table, block.instants, np.zeros(len(block.instants), dtype=bool)),
        )
    ]


def _flows(block: Block, threads: np.ndarray, processes: np.ndarray) -> list[str]:
    left = block.start[block.src]
    arrived = np.where(block.at_begin, block.start[block.dst], block.end[block.dst])
    lines = []
    for kind, end, time in (('"ph":"s"', block.src, left), ('"ph":"f","bp":"e"', block.dst, arrived)):
        columns = (block.flows, processes[block.track[end]], threads[block.track[end]], time)
        lines += [
            f'{{{kind},"cat":"dag","name":"dag","id":{flow + 1},"pid":{pid},"tid":{tid},'
            f'"ts":{time // 1000}.{time % 1000:03d}}}'
            for flow, pid, tid, time in zip(*(column.tolist() for column in columns))
        ]
    return lines


def _arguments(table: Table, rows: np.ndarray, cut: np.ndarray) -> list[str]:
    """For each event its ``args``, with a comma before; empty where it has none."""
    kinds = table["payload_kind"][rows]
    if not cut.any() and not (kinds != PAYLOAD_NONE).any():
        return [""] * len(rows)
    found = []
    for kind, payload, is_cut in zip(kinds.tolist(), table["payload"][rows].tolist(), cut.tolist()):
        facts: dict[str, Any] = {}
        if kind != PAYLOAD_NONE:
            facts["payload"] = int(payload) if kind == PAYLOAD_INT else payload
        if is_cut:
            facts["cut"] = True
        found.append(f',"args":{_json(_sound(facts))}' if facts else "")
    return found


def _span(process: int, thread: int, name: str, start: int, end: int, facts: dict[str, Any]) -> str:
    took = end - start
    return (
        f'{{"ph":"X","pid":{process},"tid":{thread},"name":{_json(name)},"ts":{start // 1000}.{start % 1000:03d},'
        f'"dur":{took // 1000}.{took % 1000:03d},"args":{_json(facts)}}}'
    )


def _named(kind: str, process: int, thread: int, name: str) -> str:
    return f'{{"ph":"M","pid":{process},"tid":{thread},"name":"{kind}","args":{{"name":{_json(name)}}}}}'


def _sorted(what: str, process: int, thread: int, place: int) -> str:
    return f'{{"ph":"M","pid":{process},"tid":{thread},"name":"{what}_sort_index","args":{{"sort_index":{place}}}}}'


def _sound(facts: dict[str, Any]) -> dict[str, Any]:
    """The same in what JSON has, which are no infinities and no NaN: these become texts."""
    return {key: repr(value) if isinstance(value, float) and not np.isfinite(value) else value
            for key, value in facts.items()}  # fmt: skip


def _json(value: Any) -> str:
    """ASCII, so that no name can be bytes that are no UTF-8."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
