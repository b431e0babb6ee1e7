"""Traces of torch.profiler: read whole, in pieces, damaged and cut off."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import random
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.profile import report_on
from tileops.profile.columns import KERNEL, LABEL, OP, RUNTIME, UNKNOWN
from tileops.profile.errors import ProfileError
from tileops.profile.reading import cutting, read_trace, source
from tileops.profile.reading.numbers import nanoseconds

from .kineto import Maker

NAMES = st.one_of(
    st.sampled_from(["aten::mm", '}, {"ph": "X"', "]", '"traceEvents": [', "a\\", 'b"', "}]}", "näme", "\U0001f600"]),
    st.text(max_size=8).filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text)),
)
TIMES = st.integers(0, 10**19).map(lambda ns: Decimal(ns % (9 * 10**18)) / 1000)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), NAMES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=2)),
    max_leaves=5,
)
EVENTS = st.fixed_dictionaries(
    {
        "ph": st.sampled_from(["X", "X", "X", "s", "M", "i"]),
        "cat": st.sampled_from(["cpu_op", "kernel", "cuda_runtime", "user_annotation"]),
        "name": NAMES,
        "pid": st.one_of(st.integers(0, 3), st.just("Spans")),
        "tid": st.integers(0, 3),
        "ts": TIMES,
        "dur": st.integers(0, 10**9).map(lambda ns: Decimal(ns) / 1000),
    },
    optional={"args": st.dictionaries(st.sampled_from(["correlation", "stream"]), st.integers(0, 9)), "list": VALUES},
)


class Numbers(json.JSONEncoder):
    """Decimals as the numbers they are."""

    def iterencode(self, o: Any, _one_shot: bool = False) -> Any:
        marks: dict[str, str] = {}

        def mark(value: Any) -> Any:
            if isinstance(value, Decimal):
                marks[f"@{len(marks)}@"] = f"{value:f}"
                return f"@{len(marks) - 1}@"
            if isinstance(value, dict):
                return {key: mark(entry) for key, entry in value.items()}
            return [mark(entry) for entry in value] if isinstance(value, list) else value

        text = "".join(super().iterencode(mark(o), _one_shot))
        for key, value in marks.items():
            text = text.replace(f'"{key}"', value, 1)
        yield text


def encode(value: Any, **options: Any) -> bytes:
    return json.dumps(value, cls=Numbers, **options).encode()


def rows(events: list[dict[str, Any]]) -> list[tuple]:
    """What the reader should give, computed an event at a time."""
    found = []
    for event in events:
        if event["ph"] == "X":
            arguments = event.get("args", {})
            found.append((
                int(event["ts"] * 1000), int(event["dur"] * 1000), event["name"], (event["pid"], event["tid"]),
                {"cpu_op": OP, "kernel": KERNEL, "cuda_runtime": RUNTIME, "user_annotation": LABEL}[event["cat"]],
                arguments.get("correlation", UNKNOWN), arguments.get("stream", UNKNOWN),
            ))  # fmt: skip
    return sorted(found, key=lambda row: (row[0], -row[1]))


def read_rows(path: Path) -> list[tuple]:
    trace = read_trace(path)
    return [
        (
            int(e["begin"]), int(e["duration"]), trace.names[e["name"]],
            (trace.tracks[e["track"]].pid, trace.tracks[e["track"]].tid), int(e["kind"]), int(e["correlation"]),
            int(e["stream"]),
        )
        for e in trace.events
    ]  # fmt: skip


@contextlib.contextmanager
def pieces(chunk: int, block: int):
    """The file in small pieces, so that a small file has many."""
    kept = cutting.CHUNK, source._BLOCK, cutting._WINDOW
    cutting.CHUNK, source._BLOCK, cutting._WINDOW = chunk, block, 32
    try:
        yield
    finally:
        cutting.CHUNK, source._BLOCK, cutting._WINDOW = kept


@settings(max_examples=150, deadline=None)
@given(
    events=st.lists(EVENTS, min_size=1, max_size=14), chunk=st.integers(16, 900), block=st.integers(5, 400),
    indent=st.sampled_from([None, 2]), form=st.sampled_from(["object", "list", "events last"]),
    compress=st.booleans(),
)  # fmt: skip
def test_reads_what_json_reads(tmp_path_factory, events, chunk, block, indent, form, compress):
    frame = {"deviceProperties": [{"id": 0, "name": "G"}, {"id": 1, "name": "H"}], "INFO": ["}, {", "]", [{}, {}]]}
    whole = {"object": {"traceEvents": events, **frame}, "list": events, "events last": frame | {"traceEvents": events}}
    content = encode(whole[form], indent=indent)
    path = tmp_path_factory.mktemp("trace") / "t.json"
    path.write_bytes(gzip.compress(content) if compress else content)
    expected = rows(events)
    with pieces(chunk, block):
        if not expected:
            with pytest.raises(ProfileError, match="nothing to report on"):
                read_trace(path)
            return
        found = read_rows(path)
        trace = read_trace(path)
    # Events of one beginning and length may stand in any order.
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert not [text for text in trace.missing if "later events" in text or "left out" in text]
    assert trace.bytes_read == len(content)
    if form != "list":
        assert trace.device_name(1) == "H"


@settings(max_examples=200, deadline=None)
@given(events=st.lists(EVENTS, min_size=2, max_size=8), data=st.data(), chunk=st.integers(16, 400))
def test_a_cut_off_file_gives_its_whole_events(tmp_path_factory, events, data, chunk):
    content = encode({"traceEvents": events, "traceName": "t"}, indent=data.draw(st.sampled_from([None, 1])))
    keep = data.draw(st.integers(1, len(content) - 1))
    path = tmp_path_factory.mktemp("trace") / "t.json"
    path.write_bytes(content[:keep])
    with pieces(chunk, 50):
        try:
            found, trace = read_rows(path), read_trace(path)
        except ProfileError:
            return
    whole = [rows(events[:count]) for count in range(len(events) + 1)]
    assert sorted(found, key=repr) in [sorted(some, key=repr) for some in whole]
    if len(found) < len(whole[-1]):
        # A name that looks like the file's end, and the cut right behind it: then the event counts as broken.
        assert any("later events are missing" in text or "left out" in text for text in trace.missing)


def made(count: int = 50) -> Maker:
    maker = Maker()
    for number in range(count):
        maker.launch(10.0 * number, 4.0, 10.0 * number + 5, 3.0)
    return maker


def test_a_cut_off_file_loses_no_whole_event(tmp_path):
    text = made().text()
    ends = [index for index in range(len(text)) if text.startswith(', {"ph"', index)]
    for count in (1, 7, 50, 99):
        for extra in (0, 1, 2, 30):
            path = tmp_path / "t.json"
            path.write_text(text[: ends[count - 1] + extra])
            assert len(read_trace(path).events) == count


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(
    "broken",
    [
        '{"ph": "X", "cat": "kernel", "name": "a"b", "ts": 1, "dur": 1}',
        '{"ph": "X", "cat": "kernel", "name": "x", "ts": , "dur": 1}',
        '{"ph": "X", "cat": "kernel" "name": "x"}',
    ],
)
def test_a_broken_event_costs_no_other(tmp_path, broken, compress):
    for place in (0, 1, 50, 98, 99):
        maker = made()
        maker.events[place] = {"BROKEN": 1}
        content = maker.text().replace('{"BROKEN": 1}', broken).encode()
        path = tmp_path / "t.json"
        path.write_bytes(gzip.compress(content) if compress else content)
        trace = read_trace(path)
        assert len(trace.events) == 99, place
        assert trace.missing == ["1 event is no JSON, and left out."]
        assert trace.device_name() == "NVIDIA H200"


def test_what_only_python_takes_for_json_is_read(tmp_path):
    maker = made(2)
    maker.events[1]["args"]["est. achieved occupancy %"] = math.nan
    maker.events[2]["args"]["x"] = math.inf
    assert len(maker.trace(tmp_path).events) == 4
    path = tmp_path / "latin.json"
    path.write_bytes(maker.text().encode().replace(b"kernel_a", b"kern\xe9l"))
    trace = read_trace(path)
    assert len(trace.events) == 4
    assert "kern\ufffdl" in trace.names


def test_values_of_other_types(tmp_path):
    maker = made(1)
    maker.events[0]["args"] = {"correlation": "77", "stream": "default", "device": None, "External id": 3.0}
    maker.events[1]["ts"] = "12.5"
    maker.events[1]["pid"] = 2.5
    maker.events.append("not an event")  # type: ignore[arg-type]
    maker.events.append({"ph": "X", "name": "never", "ts": "soon", "dur": 1})
    trace = maker.trace(tmp_path)
    call, kernel = trace.events
    assert (call["correlation"], call["stream"], call["device"], call["external"]) == (77, UNKNOWN, UNKNOWN, 3)
    assert kernel["begin"] == 12500
    assert trace.missing[0] == "2 events have no usable time: left out."


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), flips=st.integers(1, 6), compress=st.booleans(), chunk=st.sampled_from([200, 4000]))
def test_damaged_files_are_read_or_refused(tmp_path_factory, seed, flips, compress, chunk):
    content = made(20).text().encode()
    content = bytearray(gzip.compress(content) if compress else content)
    source_of_damage = random.Random(seed)
    for _ in range(flips):
        content[source_of_damage.randrange(len(content))] = source_of_damage.randrange(256)
    path = tmp_path_factory.mktemp("trace") / "t.json"
    path.write_bytes(content)
    with pieces(chunk, 100), contextlib.suppress(ProfileError):
        trace = read_trace(path)
        assert len(trace.events) <= 40
        assert (trace.events["duration"] >= 0).all()


def test_cut_off_gzip_says_so(tmp_path):
    rng = random.Random(1)
    maker = made(3000)
    for event in maker.events:  # incompressible, so that the cut is inside
        event["args"]["x"] = f"{rng.getrandbits(200):x}"
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(maker.text().encode())[:-40_000])
    trace = read_trace(path)
    assert 0 < len(trace.events) < 6000
    assert trace.missing[0].startswith("The compressed file ends too early")
    assert "later events are missing" in trace.missing[1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"(\xb5/\xfdrest", "Zstandard"),
        (b"hello", "this is no JSON"),
        (b'{"a": 1}', "not a Chrome trace"),
        (b'{"traceEvents": []}', "nothing to report on"),
        (b"[]", "nothing to report on"),
        (b'{"traceEvents": [{"ph": "M", "name": "x"}]}', "nothing to report on"),
        (gzip.compress(b"", mtime=0)[:10], "cut off"),
    ],
)
def test_files_that_are_no_trace(tmp_path, content, said):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(ProfileError, match=said):
        read_trace(path)


def test_files_that_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(ProfileError, match="cannot be read"):
            read_trace(path)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(0, 9 * 10**18).map(lambda ns: f"{Decimal(ns) / 1000:f}"),
            st.decimals(-(10**15), 10**15, places=5).map(str),
            st.sampled_from(
                ["1e3", "-0.5", "7.", "", "nan", "1.2.3", "99999999999999999999", '"15.25"', "0" * 40, "x"]
            ),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_timestamps_are_exact(texts):
    check_timestamps(texts)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.integers(1, 17))
def test_timestamps_of_one_width_are_exact(data, width):
    """As PyTorch writes them, and perhaps one that has another character somewhere."""
    numbers = data.draw(st.lists(st.integers(0, 10 ** (width + 3) - 1), min_size=1, max_size=12))
    texts = [f"{number // 1000:0{width}}.{number % 1000:03}" for number in numbers]
    if data.draw(st.booleans()):
        text, at = data.draw(st.integers(0, len(texts) - 1)), data.draw(st.integers(0, width + 3))
        texts[text] = texts[text][:at] + data.draw(st.sampled_from("0123456789.-e")) + texts[text][at + 1 :]
    check_timestamps(texts)


def check_timestamps(texts):
    found, valid = nanoseconds([text.encode() for text in texts])
    for text, value, is_valid in zip(texts, found, valid):
        try:
            exact: Decimal | None = Decimal(text.strip('"')) * 1000
        except ArithmeticError:
            exact = None
        if exact is None or not exact.is_finite() or abs(exact) > 2**63 - 1:
            assert not is_valid or text.endswith(".")
        else:
            assert is_valid
            assert value == int(exact), text


def test_threads_devices_and_memory(tmp_path):
    maker = made(1)
    maker.frame["distributedInfo"] = {"backend": "nccl", "rank": 3, "world_size": 8}
    maker.events += [
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "ts": 0, "args": {"name": "stream 7"}},
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 101, "ts": 2.5,
         "args": {"Bytes": -512, "Total Allocated": 1024, "Total Reserved": 2048, "Addr": 1 << 70, "Device Id": 0,
                  "Device Type": 1}},
        {"ph": "B", "name": "x", "ts": 1, "pid": 1, "tid": 1},
    ]  # fmt: skip
    trace = maker.trace(tmp_path)
    assert (trace.rank, trace.world_size, trace.has_gpu_activity) == (3, 8, True)
    track = trace.tracks[trace.events["track"][1]]
    assert (track.process, track.thread) == ("GPU 0", "stream 7")
    (memory,) = trace.allocations
    assert (memory["time"], memory["bytes"], memory["total"], memory["device"]) == (2500, -512, 1024, 0)
    assert memory["address"] == UNKNOWN
    assert trace.missing == ["1 event is of another profiler's form (begin and end apart) and not read."]


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (["cpu_op"], "without ProfilerActivity.CUDA"),
        (["cpu_op", "cuda_runtime"], "the GPU's activity was not recorded"),
        (["kernel"], "what launching costs is unknown"),
        (["kernel", "hip_runtime"], None),
        (["Kernel", "Runtime", "Operator"], None),
    ],
)
def test_says_what_was_not_recorded(tmp_path, kinds, said):
    maker = Maker()
    for kind in kinds:
        maker.add(kind, "x", 1, 2)
    missing = maker.trace(tmp_path).missing
    assert len(missing) == (said is not None)
    if said is not None:
        assert said in missing[0]


def test_memory_does_not_grow_with_one_endless_event(tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "LARGEST_EVENT", 20_000)
    text = made(2).text()
    path = tmp_path / "t.json"
    with pieces(1000, 500):
        path.write_text(text[:-2] + ', {"ph": "X", "name": "' + "a" * 60_000)
        trace = read_trace(path)
    assert len(trace.events) == 4
    assert trace.missing


def test_columns_are_in_order(tmp_path):
    maker = made(20)
    random.Random(0).shuffle(maker.events)
    maker.op("outer", 10, 100)
    events = maker.trace(tmp_path).events
    assert (np.diff(events["begin"]) >= 0).all()
    same = events[events["begin"] == 10_000]
    assert (np.diff(same["duration"]) <= 0).all()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["kernel", "cpu_op", "user_annotation", "[memory]"]),
            st.one_of(st.integers(0, 10**4), st.floats(allow_nan=True), st.sampled_from([9.1e15, -9e15, 1e300, "NaN"])),
            st.one_of(st.integers(0, 10**4), st.floats(allow_nan=True), st.sampled_from([1e15, 4e12, -1])),
        ),
        min_size=1, max_size=12,
    )
)  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_times_beyond_all_bounds_overflow_nowhere(tmp_path_factory, wanted):
    """A report on whatever is left says nothing negative."""
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 5}]
    for cat, ts, dur in wanted:
        if cat == "[memory]":
            events.append(
                {"ph": "i", "name": cat, "pid": 1, "tid": 1, "ts": ts, "args": {"Bytes": 8, "Device Type": 0}}
            )
        else:
            events.append({"ph": "X", "cat": cat, "name": "x", "pid": 0, "tid": 7, "ts": ts, "dur": dur})
    path = tmp_path_factory.mktemp("trace") / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    trace = read_trace(path)
    found = trace.events
    ends = [int(event["begin"]) + int(event["duration"]) for event in found]
    assert (found["begin"] + found["duration"]).tolist() == ends
    assert max(ends) - int(found["begin"].min()) < 2**63
    structure = report_on(trace).structure
    for entry in structure.sharing:
        assert 0 <= entry.gpu_ns <= entry.wall_ns
    assert all(row.self_cpu_ns >= 0 and (row.self_cuda_ns or 0) >= 0 for row in structure.table)
    assert all(gaps.idle_ns >= 0 for gaps in structure.gaps)


def test_what_ran_on_a_gpu_without_a_number(tmp_path):
    """The process stands for it where the arguments do not have it; one that is no GPU's stays unknown."""
    event = {"ph": "X", "cat": "kernel", "name": "x", "tid": 7, "ts": 1, "dur": 5}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [event | {"pid": pid} for pid in (3, "GPU", 4021, -1)]}))
    trace = read_trace(path)
    assert sorted(trace.events["device"].tolist()) == [UNKNOWN, UNKNOWN, UNKNOWN, 3]
    text = str(report_on(trace))
    assert "GPU 3" in text
    assert "GPU -1" not in text
    assert "the GPU without a number" in text


def test_reading_ahead_ends_with_its_reader():
    """Also where the reader stops early, or the stream fails."""
    came = []

    def stream():
        for number in range(100_000):
            came.append(number)
            yield number
        raise ProfileError("the end")

    ahead = source._ahead(stream())
    assert [next(ahead) for _ in range(5)] == [0, 1, 2, 3, 4]
    ahead.close()
    assert len(came) < 100
    assert not [thread for thread in threading.enumerate() if thread.name == "tileops-read-ahead"]

    def failing():
        yield from range(3)
        raise ProfileError("the end")

    ahead = source._ahead(failing())
    assert [next(ahead) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ProfileError, match="the end"):
        next(ahead)
