"""Perfetto and Chrome files, read back in the formats' own terms and compared with the Timeline, event by event."""

from __future__ import annotations

import collections
import itertools
import json
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import perfetto.protos.perfetto.trace.perfetto_trace_pb2 as schema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileops
from tileops.trace import Timeline, TraceError
from tileops.trace.decode import decode_lines
from tileops.trace.export import tracks, wire
from tileops.trace.export.chrome import export_chrome
from tileops.trace.export.perfetto import export_perfetto
from tileops.trace.recording import Recording

from . import model, synthetic

EXPORTERS = {"perfetto": export_perfetto, "chrome": export_chrome}
SEEDS = st.integers(0, 2**32 - 1)


def ns(time: float) -> int:
    return int(np.rint(time))


@dataclass(eq=False)
class Slice:
    """A slice as a viewer knows it: where, when, and what else is said of it."""

    track: Any
    name: str
    start: int
    facts: dict[str, Any]
    around: Slice | None = None
    end: int | None = None

    @property
    def depth(self) -> int:
        return 0 if self.around is None else 1 + self.around.depth


@dataclass
class Read:
    """What a viewer made of a file."""

    slices: list[Slice] = field(default_factory=list)
    instants: list[tuple[Any, str, int, dict[str, Any]]] = field(default_factory=list)
    flows: dict[int, list[Slice]] = field(default_factory=lambda: collections.defaultdict(list))
    late: set[int] = field(default_factory=set)  # flows whose destination was not where it must be
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: collections.defaultdict(list))
    path: dict[Any, tuple[str, ...]] = field(default_factory=dict)  # of each track


def read_perfetto(content: bytes) -> Read:
    """By the schema: packets by time, those of one time by place; an end closes its track's newest open slice."""
    trace = schema.Trace.FromString(content)
    assert trace.SerializeToString() == content
    read, names, notes = Read(), {}, {}
    descriptors: dict[int, Any] = {}
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        names |= {one.iid: one.name for one in packet.interned_data.event_names}
        notes |= {one.iid: one.name for one in packet.interned_data.debug_annotation_names}
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in descriptors
            assert not track.HasField("parent_uuid") or track.parent_uuid in descriptors
            assert track.sibling_merge_behavior == schema.TrackDescriptor.SIBLING_MERGE_BEHAVIOR_NONE
            descriptors[track.uuid] = track
            read.path[track.uuid] = (*read.path.get(track.parent_uuid, ()), track.name)
    ranks = collections.Counter((track.parent_uuid, track.sibling_order_rank) for track in descriptors.values()
                                if not track.name.startswith("CTA") and not track.HasField("counter"))  # fmt: skip
    assert set(ranks.values()) == {1}

    open_slices: dict[int, list[Slice]] = collections.defaultdict(list)
    begun: dict[int, Slice] = {}
    events = [packet for packet in trace.packet if packet.HasField("track_event")]
    for packet in sorted(events, key=lambda packet: packet.timestamp):
        event = packet.track_event
        stack, name = open_slices[event.track_uuid], event.name or names.get(event.name_iid, "")
        facts = {note.name or notes[note.name_iid]: getattr(note, note.WhichOneof("value"))
                 for note in event.debug_annotations}  # fmt: skip
        assert event.track_uuid in descriptors
        if event.type == event.TYPE_COUNTER:
            assert descriptors[event.track_uuid].HasField("counter")
            read.counters[descriptors[event.track_uuid].name].append((packet.timestamp, event.counter_value))
            continue
        if event.type == event.TYPE_INSTANT:
            read.instants.append((event.track_uuid, name, packet.timestamp, facts))
            continue
        if event.type == event.TYPE_SLICE_BEGIN:
            stack.append(Slice(event.track_uuid, name, packet.timestamp, facts, stack[-1] if stack else None))
            read.slices.append(stack[-1])
        else:
            assert event.type == event.TYPE_SLICE_END
            assert not name
        own = stack[-1]
        if event.type == event.TYPE_SLICE_END:
            stack.pop().end = packet.timestamp
        for identity in event.flow_ids:
            assert identity not in begun
            begun[identity] = own
            read.flows[identity].insert(0, own)
        for identity in event.terminating_flow_ids:
            if identity not in begun:
                read.late.add(identity)
            read.flows[identity].append(own)
    assert not any(open_slices.values())
    return read


def read_chrome(content: bytes) -> Read:
    """By the format's document: complete events nest on their thread, longest first; a flow binds to one around it."""
    document = json.loads(content.decode("ascii"))
    assert document["displayTimeUnit"] == "ns"
    read = Read()
    processes, of_thread, points = {}, {}, []
    by_track: dict[Any, list[Slice]] = collections.defaultdict(list)

    def time(value: float) -> int:
        assert abs(value * 1000 - round(value * 1000)) < 1e-3
        return round(value * 1000)

    for event in document["traceEvents"]:
        track, kind = (event["pid"], event["tid"]), event["ph"]
        if kind == "M" and event["name"] == "process_name":
            assert event["pid"] not in processes
            processes[event["pid"]] = event["args"]["name"]
        elif kind == "M" and event["name"] == "thread_name":
            assert track not in of_thread
            of_thread[track] = event["args"]["name"]
        elif kind == "M":
            assert event["name"] in ("process_sort_index", "thread_sort_index")
        elif kind == "X":
            start = time(event["ts"])
            one = Slice(track, event["name"], start, event.get("args", {}), end=start + time(event["dur"]))
            by_track[track].append(one)
            read.slices.append(one)
        elif kind == "i":
            assert event["s"] == "t"
            read.instants.append((track, event["name"], time(event["ts"]), event.get("args", {})))
        elif kind == "C":
            read.counters[event["name"]].append((time(event["ts"]), event["args"]["count"]))
        else:
            assert kind in "sf"
            assert (event["name"], event["cat"]) == ("dag", "dag")
            points.append((kind, event["id"], track, time(event["ts"])))
    assert len({thread for _, thread in of_thread if thread}) == sum(bool(thread) for _, thread in of_thread)
    gpu = processes[1]
    for track, name in of_thread.items():
        path = [gpu] if track[0] == 1 else [gpu, processes[track[0]]]
        cta = re.match(r"CTA \d+", name)
        if cta:
            path.append(cta[0])
            path += [name[cta.end() + 2 :]] if cta.end() < len(name) else []
        read.path[track] = tuple(path)
    for slices in by_track.values():
        stack: list[Slice] = []
        for one in sorted(slices, key=lambda one: (one.start, -one.end)):
            while stack and stack[-1].end <= one.start and not (one.end == one.start == stack[-1].start):
                stack.pop()
            assert not stack or one.end <= stack[-1].end
            one.around = stack[-1] if stack else None
            stack.append(one)
    ends: dict[int, dict[str, Any]] = collections.defaultdict(dict)
    for kind, identity, track, at in points:
        assert kind not in ends[identity]
        ends[identity][kind] = (at, [one for one in by_track[track] if one.start <= at <= one.end])
    for identity, both in ends.items():
        read.flows[identity] = [both["s"][1], both["f"][1]]  # type: ignore[list-item]
        if both["f"][0] <= both["s"][0]:
            read.late.add(identity)
    return read


READERS = {"perfetto": read_perfetto, "chrome": read_chrome}


def exported(timeline: Timeline, form: str, folder: Path) -> Read:
    path = folder / "written"
    assert EXPORTERS[form](timeline, path) == path
    assert [entry.name for entry in folder.iterdir()] == ["written"]
    return READERS[form](path.read_bytes())


def tracked(rows: Iterable[Any], timeline: Timeline) -> list[tuple[str, ...]]:
    """The tracks that rows belong on, as paths."""
    sm = {row.cta: row.sm for row in timeline.ctas}
    gpu = str(timeline.meta.get("device") or "GPU")
    return [plain((gpu, f"SM {sm[row.cta]}", f"CTA {row.cta}", f"{row.group} / {row.lane}")) for row in rows]


def plain(path: tuple[str, ...]) -> tuple[str, ...]:
    """A path without the number of a lane's further track, and without what only looks like one."""
    return (*path[:-1], re.sub(r"( \(\d+\))+$", "", path[-1]))


def facts_of(row: Any, form: str) -> tuple[tuple[str, Any], ...]:
    facts = {}
    if row.payload is not None:
        odd = form == "chrome" and not np.isfinite(row.payload)
        facts["payload"] = repr(row.payload) if odd else row.payload
    if getattr(row, "cut", False):
        facts["cut"] = True
    return tuple((key, type(value), repr(value)) for key, value in facts.items())


def check(timeline: Timeline, read: Read, form: str) -> None:
    """Compares all of what was read with all of the Timeline."""
    rows, marks, flows = list(timeline.slices), list(timeline.instants), list(timeline.flows)
    ctas = [row for row in timeline.ctas if row.finished]
    gpu = str(timeline.meta.get("device") or "GPU")
    where, where_marks = tracked(rows, timeline), tracked(marks, timeline)

    def key(one: Slice) -> tuple[Any, ...]:
        facts = tuple((name, type(value), repr(value)) for name, value in one.facts.items())
        return plain(read.path[one.track]), one.name, one.start, one.end, facts

    expected = [
        (path, row.name, ns(row.start_ns), ns(row.start_ns + row.duration_ns), facts_of(row, form))
        for path, row in zip(where, rows)
    ]
    on_lanes = [one for one in read.slices if len(read.path[one.track]) == 4]
    # Nothing of a CTA that did not finish is decoded; were it, there would be no place for it.
    shown = {row.cta for row in ctas}
    there = [one for one, row in zip(expected, rows) if row.cta in shown]
    assert collections.Counter(map(key, on_lanes)) == collections.Counter(there)
    for one in on_lanes:
        assert one.around is None or one.around.start <= one.start <= one.end <= one.around.end

    found = [
        (plain(read.path[track]), name, at, tuple((key, type(v), repr(v)) for key, v in facts.items()))
        for track, name, at, facts in read.instants
    ]
    assert collections.Counter(found) == collections.Counter(
        (path, row.name, ns(row.time_ns), facts_of(row, form)) for path, row in zip(where_marks, marks)
    )

    spans = {read.path[one.track]: one for one in read.slices if len(read.path[one.track]) == 3}
    assert len(spans) == len(ctas)
    for row in ctas:
        one = spans[gpu, f"SM {row.sm}", f"CTA {row.cta}"]
        assert (one.start, one.end, one.name) == (ns(row.begin_ns), ns(row.end_ns), f"CTA {row.cta}")
        assert (one.facts["x"], one.facts["y"], one.facts["z"], one.facts["cycles"]) == (
            row.x,
            row.y,
            row.z,
            row.cycles,
        )
        assert (one.facts["events recorded"], one.facts["events dropped"]) == (row.recorded, row.dropped)
    (launch,) = (one for one in read.slices if one.name == launch_name(timeline) and len(read.path[one.track]) < 3)
    assert (launch.start, launch.end) == (0, max((ns(row.end_ns) for row in ctas), default=0))
    assert (launch.facts["CTAs"], launch.facts["CTAs unfinished"]) == (len(timeline.ctas), len(timeline.unfinished))

    assert read.flows.keys() == {at + 1 for at in range(len(flows))}
    for at, row in enumerate(flows):
        ends = read.flows[at + 1]
        for slices, position in zip(ends, (row.src_slice, row.dst_slice)):
            around = slices if isinstance(slices, list) else [slices]
            assert expected[position] in [key(one) for one in around]
        src, dst = expected[row.src_slice], expected[row.dst_slice]
        # What a viewer takes for the source must come first, unless the two can only be the other way round.
        assert at + 1 not in read.late or dst[3] <= src[2]

    spans_of = {
        "CTAs resident": [(ns(row.begin_ns), ns(row.end_ns)) for row in ctas],
        "hand-offs in flight": [(ns(row.start_ns), ns(row.end_ns)) for row in flows],
    }
    for name, spans in spans_of.items():
        check_counter(read.counters[name], [span for span in spans if span[0] < span[1]])


def check_counter(points: list[tuple[int, int]], spans: list[tuple[int, int]]) -> None:
    times = [time for time, _ in points]
    assert times == sorted(set(times))
    for time in {time for span in spans for time in span} | set(times):
        now = [value for at, value in points if at <= time]
        assert (now[-1] if now else 0) == sum(begin <= time < end for begin, end in spans)
    assert all(one[1] != other[1] for one, other in itertools.pairwise(points))


def launch_name(timeline: Timeline) -> str:
    return str(timeline.meta.get("kernel") or "kernel")


def crossing(seed: int) -> Timeline:
    """Ranges that nest, cross, touch and take no time, on few lanes, with the depths that a decoder would give them."""
    rand = random.Random(seed)
    builder = synthetic.Builder((rand.randint(1, 4), 1, 1), ("a", "b (2)"), ghz=rand.choice([1.0, 1.7, 3.3]))
    builder.sm[:] = [rand.randrange(2) for _ in builder.sm]
    builder.begin_ns[:] = [rand.randrange(50) for _ in builder.begin_ns]
    builder.begin_ns -= builder.begin_ns.min()
    for cta in range(builder.count):
        for group in builder.groups:
            for lane in ("main", "main (2)"):
                spans = sorted(sorted(rand.choices(range(30), k=2)) for _ in range(rand.randrange(9)))
                handles = []
                for start, end in spans:
                    depth = sum(s <= start and end < e for s, e in spans) if rand.random() < 0.8 else rand.randrange(4)
                    payload = rand.choice([None, rand.randrange(-(2**31), 2**32), rand.random(), float("inf")])
                    name = rand.choice(["x", "y"])
                    handles.append(
                        builder.slice(cta, group, lane, name, start, end, payload, depth, rand.random() < 0.1)
                    )
                for _ in range(rand.randrange(3) if handles else 0):
                    builder.flow(rand.choice(handles), rand.choice(handles), 0)
                for _ in range(rand.randrange(3)):
                    builder.instant(
                        cta, group, rand.choice([lane, "marks"]), "m", rand.randrange(30), rand.randrange(9)
                    )
    return builder.build()


SCENES = {
    "gemm": lambda: synthetic.gemm((3, 1, 1), 12), "hostile": synthetic.hostile, "troubled": synthetic.troubled,
    "empty": synthetic.empty, "nested": synthetic.nested, "waves": synthetic.waves,
}  # fmt: skip


@pytest.mark.parametrize("form", EXPORTERS)
@pytest.mark.parametrize("scene", SCENES)
def test_scenes_read_back(scene: str, form: str, tmp_path: Path) -> None:
    timeline = SCENES[scene]()
    read = exported(timeline, form, tmp_path)
    check(timeline, read, form)
    if scene in ("gemm", "nested"):  # as many tracks as lanes, and what nests nests as deep
        lanes = {(row.cta, row.group, row.lane) for row in [*timeline.slices, *timeline.instants]}
        assert sum(len(path) == 4 for path in read.path.values()) == len(lanes)
        depths = collections.Counter(one.depth for one in read.slices if len(read.path[one.track]) == 4)
        assert depths == collections.Counter(timeline.slices["depth"].tolist())


@pytest.mark.parametrize("form", EXPORTERS)
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_ranges_that_cross_read_back_and_never_overlap(tmp_path_factory: Any, form: str, seed: int) -> None:
    timeline = crossing(seed)
    check(timeline, exported(timeline, form, tmp_path_factory.mktemp("crossing")), form)


def with_an_axis(seed: int, compensated: bool) -> Timeline | None:
    rand = random.Random(seed)
    launch = model.random_launch(rand, model.random_kernel(rand, chosen=seed % 2 == 0))
    table = launch.kernel.table
    cost = np.full(len(table.sites), 16.0) if compensated else None
    timeline = decode_lines(model.slots_of(launch, rand), table, None, cost)
    finished = timeline.ctas["finished"]
    return timeline if np.isfinite(timeline.ctas["begin_ns"][finished]).all() else None


@pytest.mark.parametrize("form", EXPORTERS)
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, compensated=st.booleans())
def test_random_launches_read_back(tmp_path_factory: Any, form: str, seed: int, compensated: bool) -> None:
    timeline = with_an_axis(seed, compensated)
    if timeline is not None:
        check(timeline, exported(timeline, form, tmp_path_factory.mktemp("launch")), form)


def test_random_launches_have_what_the_formats_have() -> None:
    seen = collections.Counter[str]()
    for seed in range(60):
        timeline = with_an_axis(seed, False)
        if timeline is None:
            continue
        seen["launches"] += 1
        seen["flows"] += len(timeline.flows) > 0
        seen["instants"] += len(timeline.instants) > 0
        seen["cut"] += bool(timeline.slices["cut"].any())
        seen["unfinished"] += len(timeline.unfinished) > 0
        for kind in (1, 2):
            seen[f"payload {kind}"] += bool((timeline.slices["payload_kind"] == kind).any())
    names = ("launches", "flows", "instants", "cut", "unfinished", "payload 1", "payload 2")
    assert all(seen[name] >= 5 for name in names), seen
    assert (
        sum(any(lane.copy for block in tracks.blocks(crossing(seed)) for lane in block.lanes) for seed in range(20)) > 5
    )


@pytest.mark.parametrize("form", EXPORTERS)
def test_blocks_join_without_a_seam(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = synthetic.gemm((3, 2, 1), 10)
    whole = tmp_path / "whole"
    EXPORTERS[form](timeline, whole)
    monkeypatch.setattr(tracks, "_BLOCK", 7)
    monkeypatch.setattr("tileops.trace.export.perfetto._AT_ONCE", 5)
    assert len(list(tracks.blocks(timeline))) == 6
    EXPORTERS[form](timeline, tmp_path / "parts")
    assert len(whole.read_bytes()) == (tmp_path / "parts").stat().st_size
    check(timeline, READERS[form]((tmp_path / "parts").read_bytes()), form)


def test_tables_in_another_order_make_the_same_tracks(tmp_path: Path) -> None:
    timeline = synthetic.gemm((4, 1, 1), 6)
    backwards = timeline.ctas[::-1]
    check(
        replace(timeline, ctas=backwards), exported(replace(timeline, ctas=backwards), "perfetto", tmp_path), "perfetto"
    )


@pytest.mark.parametrize("form", EXPORTERS)
def test_a_recording_of_the_gpu_reads_back(form: str, tmp_path: Path) -> None:
    path = Path(tileops.__file__).parent / "recordings" / "gemm_h200.tltrace"
    recording = Recording.load(path)
    timeline = recording.decode()
    read = exported(timeline, form, tmp_path)
    assert sum(len(path) == 4 for path in read.path.values()) == 512 * 8  # the producer has two lanes, consumers three
    on_lanes = [one for one in read.slices if len(read.path[one.track]) == 4]
    assert len(on_lanes) == len(timeline.slices)
    assert len(read.flows) == len(timeline.flows)
    ends = np.sort(np.rint(timeline.slices["start_ns"] + timeline.slices["duration_ns"])).astype(int)
    assert sorted(one.end for one in on_lanes) == ends.tolist()
    assert not read.late
    # With four stages a producer is four hand-offs ahead at most, and each of 512 CTAs has two consumers.
    assert 0 < max(value for _, value in read.counters["hand-offs in flight"]) <= 132 * 8
    assert max(value for _, value in read.counters["CTAs resident"]) == 132


@pytest.mark.parametrize("form", EXPORTERS)
def test_without_nanoseconds_it_says_which_formats_do_without(form: str, tmp_path: Path) -> None:
    builder = synthetic.Builder((2, 1, 1), ("main",), ghz=[1.7, float("nan")])
    for cta in range(2):
        builder.slice(cta, "main", "main", "x", 0, 10)
    with pytest.raises(TraceError, match=r"has times in cycles only.*export it as parquet, csv, json or html"):
        EXPORTERS[form](builder.build(), tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", EXPORTERS)
def test_a_file_is_whole_or_as_it_was(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "out"
    EXPORTERS[form](synthetic.gemm(), path)
    before = path.read_bytes()

    def fail(part: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        EXPORTERS[form](synthetic.waves(), path, progress=fail)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["out"]
    for bad in (tmp_path, path / "below", tmp_path / ("n" * 300), tmp_path / "a\0b"):
        with pytest.raises(OSError, match=r"^\[Errno \d+\] cannot be written: ") as caught:
            EXPORTERS[form](synthetic.waves(), bad)
        assert caught.value.filename == str(bad)


@pytest.mark.parametrize("form", EXPORTERS)
def test_progress_ascends_to_one(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracks, "_BLOCK", 50)
    told: list[float] = []
    EXPORTERS[form](synthetic.waves(), tmp_path / "out", progress=told.append)
    assert told == sorted(told)
    assert len(told) > 3
    assert told[-1] == 1.0
    EXPORTERS[form](synthetic.empty(), tmp_path / "out", progress=told.append)


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "perfetto.protos.perfetto.trace.perfetto_trace_pb2", None)
    with pytest.raises(TraceError, match=r'needs the package perfetto .*pip install "tileops\[files\]"'):
        export_perfetto(synthetic.empty(), tmp_path / "out")
    assert not list(tmp_path.iterdir())


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(width=64), st.booleans(),
                          st.lists(st.integers(0, 2**64 - 1), max_size=3)), min_size=1, max_size=9))  # fmt: skip
def test_the_wire_format_is_that_of_protobuf(rows: list[tuple[int, float, bool, list[int]]]) -> None:
    number, real, present, ids = zip(*rows)
    there, count = np.array(present), len(rows)
    flat = np.array([one for row in ids for one in row], dtype=np.uint64)
    of = np.repeat(np.arange(count), [len(row) for row in ids])
    parts = [
        wire.field(30, np.array(number)).where(there),
        wire.fixed64(44, np.array(real)).where(~there),
        wire.repeated(47, flat, of, count),
    ]
    written = wire.message(11, [part for part in parts if part is not None]).joined()
    expected = b""
    for one, (value, double, is_there, flows) in enumerate(zip(number, real, present, ids)):
        event = schema.TrackEvent(flow_ids=flows)
        if is_there:
            event.counter_value = value
        else:
            event.double_counter_value = double
        expected += schema.TracePacket(track_event=event).SerializeToString()
    assert written == expected


def test_a_lane_takes_no_more_tracks_than_it_must() -> None:
    """One whose outer ranges were overwritten has depths without what they are in; ranges that touch do not cross."""
    spans = {
        "touching": ([(0, 5), (5, 9), (9, 9), (9, 12)], 1), "nested": ([(0, 9), (0, 4), (4, 9), (4, 4)], 1),
        "crossing": ([(0, 5), (3, 8), (5, 9), (8, 12)], 2), "three": ([(0, 5), (1, 6), (2, 7)], 3),
    }  # fmt: skip
    for ranges, wanted in spans.values():
        builder = synthetic.Builder((1, 1, 1), ("main",), ghz=1.0)
        for start, end in ranges:
            builder.slice(0, "main", "main", "x", start, end, depth=1)
        (block,) = tracks.blocks(builder.build())
        assert [lane.copy for lane in block.lanes] == list(range(wanted))
