"""How fast a recording becomes other formats, and how large they are.

    python benchmarks/export.py [--recording FILE] [--rounds 5] [--times 1]

An event is a begin, an end, a mark, or an occurrence of a dag edge. Perfetto's file is also written the plain way, each
packet as an object of protobuf's classes and through the builder that the package perfetto has for that; the packets'
fields are there before the clock starts. --times repeats the launch so often along the nanosecond axis, with new CTAs.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from tileops.trace.export.arrow import export_parquet, to_pandas, to_polars
from tileops.trace.export.chrome import export_chrome
from tileops.trace.export.html import export_html
from tileops.trace.export.perfetto import export_perfetto
from tileops.trace.export.texts import export_csv, export_json
from tileops.trace.recording import Recording
from tileops.trace.timeline import Table, Timeline


def repeated(timeline: Timeline, times: int) -> Timeline:
    """The launch again and again, each time behind the one before."""
    if times == 1:
        return timeline
    span = float(timeline.ctas["end_ns"].max())

    def table(of: Table, ns: tuple[str, ...]) -> Table:
        columns = {}
        for name in of.column_names:
            column = np.tile(of.codes(name), times)
            again = np.repeat(np.arange(times), len(of))
            if name == "cta":
                column = (column + again * len(timeline.ctas)).astype(column.dtype)
            elif name in ("src_slice", "dst_slice"):
                column = column + again * len(timeline.slices)
            elif name in ns:
                column = column + again * span
            columns[name] = column
        texts = {name: of.vocabulary(name) for name in of.column_names if isinstance(of[name], np.ndarray)
                 and name in ("group", "lane", "name", "src", "dst", "src_group", "dst_group")}  # fmt: skip
        return Table(columns, texts)

    return replace(
        timeline,
        slices=table(timeline.slices, ("start_ns",)), instants=table(timeline.instants, ("time_ns",)),
        flows=table(timeline.flows, ("start_ns", "end_ns")), rows=table(timeline.rows, ()),
        ctas=table(timeline.ctas, ("begin_ns", "end_ns")), grid=(times * timeline.grid[0], *timeline.grid[1:]),
    )  # fmt: skip


def plain_packets(path: Path) -> list[tuple[Any, ...]]:
    """The fields of the events in a file: time, kind, track, name, flows, terminating flows, value of a counter."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    found = []
    for packet in Trace.FromString(path.read_bytes()).packet:
        if packet.HasField("track_event"):
            event = packet.track_event
            found.append((
                packet.timestamp, event.type, event.track_uuid, event.name_iid, list(event.flow_ids),
                list(event.terminating_flow_ids), event.counter_value if event.HasField("counter_value") else None,
            ))  # fmt: skip
    return found


def write_plainly(packets: list[tuple[Any, ...]], path: Path) -> None:
    """With the package's own builder."""
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

    with open(path, "wb") as file:
        builder = StreamingTraceProtoBuilder(file)
        for timestamp, kind, track, name, flows, terminating, value in packets:
            packet = builder.create_packet()
            packet.timestamp = timestamp
            packet.trusted_packet_sequence_id = 1
            packet.sequence_flags = 2
            event = packet.track_event
            event.type = kind
            event.track_uuid = track
            if name:
                event.name_iid = name
            if value is not None:
                event.counter_value = value
            event.flow_ids.extend(flows)
            event.terminating_flow_ids.extend(terminating)
            builder.write_packet(packet)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recording", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--times", type=int, default=1)
    arguments = parser.parse_args()
    shipped = resources.files("tileops") / "recordings" / "gemm_h200.tltrace"
    recording = Recording.load(arguments.recording or str(shipped))
    timeline = repeated(recording.decode(), arguments.times)
    events = 2 * len(timeline.slices) + len(timeline.instants) + len(timeline.flows)
    for table in (timeline.slices, timeline.instants, timeline.flows, timeline.ctas):
        for name in table.column_names:
            table.codes(name)  # columns that are made on demand
    size = os.path.getsize(arguments.recording or str(shipped))
    ratio = recording.lines.nbytes / size
    print(f"{events:,} events; the recording: {size:,} bytes, {ratio:.1f} times smaller than slots")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        tasks: dict[str, Callable[[], Any]] = {
            "perfetto": lambda: export_perfetto(timeline, path),
            "chrome": lambda: export_chrome(timeline, path),
            "parquet": lambda: export_parquet(timeline, path),
            "csv": lambda: export_csv(timeline, path),
            "json": lambda: export_json(timeline, path),
            "html": lambda: export_html(timeline, path),
            "pandas": lambda: to_pandas(timeline),
            "polars": lambda: to_polars(timeline),
        }
        for name, task in tasks.items():
            path.unlink(missing_ok=True)
            show(name, task, events, path, arguments.rounds)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(f"  most memory so far: {(after - before) / 1024:,.0f} MB more than with the Timeline alone")
        export_perfetto(timeline, path)
        packets = plain_packets(path)
        show("perfetto with protobuf's classes", lambda: write_plainly(packets, path), events, path, arguments.rounds)


def show(name: str, task: Callable[[], Any], events: int, path: Path, rounds: int) -> None:
    took, busy = [], []
    for _ in range(rounds):
        began, began_busy = time.perf_counter(), time.process_time()
        task()
        took.append(time.perf_counter() - began)
        busy.append(time.process_time() - began_busy)
    median = statistics.median(took)
    spread = f"{min(took):.2f} to {max(took):.2f}"
    size = f", {path.stat().st_size / events:.1f} bytes an event" if path.exists() else ""
    rate = f"{events / median / 1e6:.2f} million events a second"
    print(f"{name}: {median:.2f} s ({spread}), {rate}; {min(busy):.2f} s of a processor at least{size}", flush=True)


if __name__ == "__main__":
    main()
