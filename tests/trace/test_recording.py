"""Recordings: from slots to a file and back, and files that are none."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import random
import re
import shutil
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.trace import Timeline, TraceError
from tileops.trace.decode import decode_lines
from tileops.trace.recording import Recording, fetch
from tileops.trace.sites import SiteTable
from tileops.trace.slots import STATE_DONE, GroupLayout

from . import model

SEEDS = st.integers(0, 2**32 - 1)
RICH = 9078
META = {"device": "NVIDIA H200", "kernel µ": ["x", 1, 2.5, None], "probe": {"cost": 16.5}}


def launch_of(seed: int, target: str = "cuda") -> tuple[SiteTable, np.ndarray]:
    rand = random.Random(seed)
    launch = model.random_launch(rand, model.random_kernel(rand, target))
    return launch.kernel.table, model.slots_of(launch, rand)


def fetched() -> Recording:
    table, lines = launch_of(RICH)
    return fetch(torch.from_numpy(lines.view(np.int64)), table, META)


def assert_equal(one: Timeline, other: Timeline) -> None:
    for name in ("slices", "instants", "flows", "rows", "ctas"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert mine.column_names == theirs.column_names
        for column in mine.column_names:
            np.testing.assert_array_equal(mine[column], theirs[column], err_msg=f"{name}.{column}")
            assert mine.codes(column).dtype == theirs.codes(column).dtype
    assert (one.grid, one.groups, one.never_fired) == (other.grid, other.groups, other.never_fired)
    np.testing.assert_equal(one.axis_error_ns, other.axis_error_ns)


def test_the_launch_that_is_damaged_below_has_everything() -> None:
    timeline = fetched().decode()
    assert {group.layout.record_words for group in fetched().table.groups} == {1, 2}
    assert min(len(timeline.flows), len(timeline.instants), timeline.dropped, len(timeline.unfinished)) > 0
    assert timeline.slices.cut.any()


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(["cuda", "c"]))
def test_a_launch_decodes_alike_fetched_saved_or_neither(tmp_path_factory: Any, seed: int, target: str) -> None:
    table, lines = launch_of(seed, target)
    path = tmp_path_factory.mktemp("recording") / "launch.tltrace"
    live = decode_lines(lines, table)
    recording = fetch(torch.from_numpy(lines.view(np.int64)), table, META)
    assert recording.lines.shape[1] == recording.table.line_words <= lines.shape[1]
    assert_equal(live, recording.decode())
    loaded = Recording.load(recording.save(path))
    assert_equal(live, loaded.decode())
    assert loaded.meta == META
    assert loaded.decode().meta == recording.decode().meta
    # Lines that were not shortened make the same file, and so does a loaded recording.
    content = path.read_bytes()
    assert Recording(lines, table, META).save(path).read_bytes() == content
    assert loaded.save(path).read_bytes() == content


def test_rows_are_as_long_as_the_fullest_of_their_group() -> None:
    table, lines = launch_of(RICH)
    recording = fetch(torch.from_numpy(lines.view(np.int64)), table, META)
    for group, whole in zip(recording.table.groups, table.groups):
        rows = [model.read_row(line[whole.layout.offset :], whole.layout) for line in lines]
        fullest = max(len(row["records"]) for row in rows)
        assert group.layout.capacity == max(1, fullest)


def test_slots_of_the_cpu_target_may_have_room_for_more_ctas() -> None:
    table, lines = launch_of(11, "c")
    roomy = torch.full((2, len(lines), table.line_words), -1)
    roomy.view(-1, table.line_words)[: len(lines)] = torch.from_numpy(lines.view(np.int64))
    for slots in (roomy, roomy.reshape(2, -1), roomy.reshape(2, len(lines), -1)):
        assert_equal(decode_lines(lines, table), fetch(slots, replace(table, target=""), META).decode())


def test_a_gpu_launch_takes_little_room(tmp_path: Path) -> None:
    """The record bytes of 64 CTAs of a GEMM: durations with a scatter of 12%, three records an iteration."""
    rand = np.random.default_rng(0)
    table = model.SiteTable(
        "gemm", "cuda", 1024, (model.Group("g", 0, model.layout([False], 300)[0]),),
        (model.Range("mma", "main", 0, 0, "", False, "gemm.py", 1),), ((("begin", 0),), (("end", 0),)), (),
    )  # fmt: skip
    steps = np.tile([400, 90], 130)
    ctas = []
    for cta in range(64):
        clocks = (1 << 40) + np.cumsum(np.maximum(1, rand.normal(steps, steps / 8)).astype(int))
        records = [(number % 2, int(clock), 0) for number, clock in enumerate(clocks)]
        ctas.append(
            model.Cta(cta, [model.Row("done", 1 << 40, int(clocks[-1]) + 99, 0, int(clocks[-1] - (1 << 40)), records)])
        )
    lines = model.slots_of(model.Launch(model.Kernel(table, []), (64, 1, 1), ctas), random.Random(0))
    size = os.path.getsize(Recording(lines, table, {}).save(tmp_path / "gemm.tltrace"))
    assert size < 1.15 * lines.shape[0] * 260  # bytes a record; the jitter alone is 6.5 bits


def test_payloads_that_the_device_did_not_write_are_not_kept(tmp_path: Path) -> None:
    for seed in range(30):
        table, lines = launch_of(seed)
        other = np.random.default_rng(seed).integers(0, 1 << 63, lines.shape, dtype=np.uint64)
        for line, words in zip(lines, other):
            for group in table.groups:
                row = model.read_row(line[group.layout.offset :], group.layout)
                at = group.layout.offset
                words[at : at + 8] = line[at : at + 8]
                for number, (site, _, _) in enumerate(row["records"]):
                    word = at + 8 + number * group.layout.record_words
                    words[word] = line[word]
                    if model.payload_kind(table, site):
                        words[word + 1] = line[word + 1]
        one = Recording(lines, table, {}).save(tmp_path / "one").read_bytes()
        assert Recording(other, table, {}).save(tmp_path / "other").read_bytes() == one


# What is not a recording --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "slots",
    [None, 7, [[1, 2]], np.zeros((4, 8), dtype=np.int64), torch.zeros(4), torch.zeros(4, 8), torch.zeros(4, 9).long()],
)
def test_fetch_says_what_it_takes(slots: Any) -> None:
    table = launch_of(RICH)[0]
    with pytest.raises(TraceError, match=r"slots of kernel 'main' must be a tensor of \(CTAs, \d+\) int64, got"):
        fetch(slots, table, {})


def load_or_refuse(path: Path) -> Recording | None:
    """The recording; None where it is refused with the one error that is allowed."""
    with contextlib.suppress(TraceError):
        return Recording.load(path)
    return None


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return fetched().save(tmp_path_factory.mktemp("saved") / "launch.tltrace").read_bytes()


def test_truncated_files_are_refused(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.tltrace"
    for length in range(0, len(saved), 7):
        path.write_bytes(saved[:length])
        with pytest.raises(TraceError, match=r"cut\.tltrace: not a recording of tileops, or a damaged one"):
            Recording.load(path)


@settings(max_examples=250, deadline=None)
@given(st.lists(st.tuples(st.integers(0), st.integers(0, 7)), min_size=1, max_size=3))
def test_flipped_bits_are_refused_or_harmless(
    saved: bytes, tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    damaged = bytearray(saved)
    for byte, bit in flips:
        damaged[byte % len(damaged)] ^= 1 << bit
    path = tmp_path_factory.getbasetemp() / "flipped.tltrace"
    path.write_bytes(damaged)
    recording = load_or_refuse(path)
    if recording is not None:  # dates, modes and such: the contents have checksums
        assert_equal(recording.decode(), fetched().decode())


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "foreign.tltrace"
    path.write_bytes(content)
    assert load_or_refuse(path) is None


def rewritten(saved: bytes, path: Path, **changed: bytes | None) -> Path:
    """The recording with members replaced, added, or left out where None; ``_`` stands for ``.`` in their names."""
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        members = {name: old.read(name) for name in old.namelist()}
        members |= {name.replace("_", "."): content for name, content in changed.items()}
        for name, content in members.items():
            if content is not None:
                new.writestr(name, content)
    return path


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=True)
    return file.getvalue()


class Bomb:
    """Unpickling it would end the test run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (3,)


def test_pickles_are_not_read(saved: bytes, tmp_path: Path) -> None:
    path = rewritten(saved, tmp_path / "pickled.tltrace", **{"0_records_npy": npy(np.array([Bomb()], dtype=object))})
    assert load_or_refuse(path) is None
    path.write_bytes(pickle.dumps(Bomb()))
    assert load_or_refuse(path) is None


def refused(path: Path, why: str) -> int:
    """Bytes of memory that it takes at most to find out that a file is no recording, and why not."""
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match=rf"{re.escape(str(path))}: not a recording of tileops.*{why}"):
            Recording.load(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def index_of(saved: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        return json.loads(archive.read("recording.json"))


def test_bombs_are_not_unpacked(saved: bytes, tmp_path: Path) -> None:
    path = rewritten(saved, tmp_path / "bomb.tltrace", **{"0_records_npy": npy(np.zeros((8, 12 << 20), dtype="u1"))})
    assert path.stat().st_size < 1 << 20
    assert refused(path, "is due") < 8 << 20
    # A small array that says it is large.
    header = npy(np.zeros(1, dtype=np.uint8)).replace(b"(1,), }         ", b"(1 << 50,), }   ")
    assert load_or_refuse(rewritten(saved, path, **{"0_records_npy": header})) is None
    shape = npy(np.zeros((8, 1, 1), dtype=np.uint8)).replace(b"(8, 1, 1), }       ", b"(8, 1, 1 << 9), } ")
    assert load_or_refuse(rewritten(saved, path, **{"0_records_npy": shape})) is None


def test_bombs_that_agree_with_themselves_are_not_unpacked(saved: bytes, tmp_path: Path) -> None:
    """As many CTAs as there are headers: all zeros, of which a small file holds many."""
    ctas = 3 << 20
    headers = npy(np.zeros((8, 8, ctas), dtype=np.uint8))
    index = json.dumps({**index_of(saved), "ctas": ctas}).encode()
    members = {"recording_json": index, "0_headers_npy": headers, "1_headers_npy": headers}
    path = rewritten(saved, tmp_path / "bomb.tltrace", **members)
    assert path.stat().st_size < 1 << 20
    assert refused(path, r"it would take \d{9} bytes of memory") < 1 << 20
    # The lines alone, of which only the index says how many there are.
    path = rewritten(saved, path, recording_json=json.dumps({**index_of(saved), "ctas": 1 << 40}).encode())
    assert refused(path, "bytes of memory") < 1 << 20
    path = rewritten(saved, path, recording_json=json.dumps({**index_of(saved), "ctas": 10_000}).encode())
    assert refused(path, "is due") < 1 << 20


def test_bombs_of_json_are_not_read(saved: bytes, tmp_path: Path) -> None:
    path = rewritten(saved, tmp_path / "bomb.tltrace", recording_json=b"[" + b"[]," * (3 << 20) + b"[]]")
    assert refused(path, "it would take") < 1 << 20


@pytest.mark.parametrize("name", ["recording.json", "0.headers.npy"])
def test_no_more_is_unpacked_than_the_archive_says(tmp_path: Path, name: str) -> None:
    table, lines = launch_of(RICH)
    path = Recording(np.tile(lines, (100, 1)), table, META).save(tmp_path / "bomb.tltrace")
    with zipfile.ZipFile(path) as archive:
        content = archive.read(name)
    large = content + b" " * (64 << 20)
    rewritten(path.read_bytes(), path, **{name.replace(".", "_"): large})
    lying = path.read_bytes().replace(len(large).to_bytes(4, "little"), len(content).to_bytes(4, "little"))
    path.write_bytes(lying)
    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo(name).file_size == len(content)
    assert refused(path, "CRC") < 4 << 20


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_deflate_is_unpacked(saved: bytes, tmp_path: Path, method: int) -> None:
    path = tmp_path / "other.tltrace"
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name), method if name == "0.order.npy" else zipfile.ZIP_DEFLATED)
    assert refused(path, "compressed in another way") < 1 << 20


@pytest.mark.parametrize(
    ("version", "advice"), [(9, "upgrade it"), (1, "record again, or use the tileops that wrote it")]
)
def test_recordings_of_another_version_say_so(saved: bytes, tmp_path: Path, version: int, advice: str) -> None:
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        index = json.loads(archive.read("recording.json"))
    path = rewritten(saved, tmp_path / "newer", recording_json=json.dumps({**index, "version": version}).encode())
    with pytest.raises(
        TraceError, match=f"newer: a recording of version {version}; this tileops reads version 3: {advice}"
    ):
        Recording.load(path)
    table = {**json.loads(index["table"]), "version": 9}
    path = rewritten(saved, path, recording_json=json.dumps({**index, "table": json.dumps(table)}).encode())
    with pytest.raises(TraceError, match="site table of version 9"):
        Recording.load(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_indexes_of_other_values_are_refused_or_decode(
    saved: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """One value anywhere in the index or the site table is another one."""
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        index = json.loads(archive.read("recording.json"))
    index["table"] = json.loads(index["table"])
    at: Any = index
    while True:
        key = data.draw(st.sampled_from(sorted(at)) if isinstance(at, dict) else st.integers(0, len(at) - 1))
        if not isinstance(at[key], (dict, list)) or not at[key] or data.draw(st.integers(0, 3)) == 0:
            break
        at = at[key]
    at[key] = data.draw(JSON | st.sampled_from([0, 1, 2, "begin", "end", "instant", "i", "f", "main"]))
    index["table"] = json.dumps(index["table"]) if isinstance(index["table"], dict) else index["table"]
    path = tmp_path_factory.getbasetemp() / "other.tltrace"
    recording = load_or_refuse(rewritten(saved, path, recording_json=json.dumps(index).encode()))
    if recording is not None:
        try:
            timeline = recording.decode()
        except TraceError:
            return
        for table in (timeline.slices, timeline.instants, timeline.flows, timeline.rows, timeline.ctas):
            assert len(list(table)) == len(table)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("groups", 1, "layout", "offset"), 8), (("groups", 0, "layout", "offset"), -8),
        (("groups", 1, "layout", "capacity"), 0), (("groups", 1, "layout", "capacity"), -3),
        (("groups", 1, "layout", "record_words"), 3), (("groups",), []), (("groups", 0, "name"), 5),
        (("ranges", 0, "group"), 9), (("ranges", 0, "group"), -1), (("ranges", 0, "payload"), "q"),
        (("ranges", 0, "depth"), -1), (("ranges", 0, "instant"), 1), (("ranges", 0, "name"), None),
        (("sites", 0), []), (("sites", 0, 0, 1), 999), (("sites", 0, 0, 1), -1), (("sites", 0, 0, 0), "middle"),
        (("edges", 0, "src"), "nowhere"), (("edges", 0, "shift"), 2**40), (("target",), "rocm"), (("kernel",), 3),
        (("groups", 0, "layout", "record_words"), True), (("ranges", 0, "group"), 0.0), (("ranges", 0, "depth"), 0.0),
        (("edges", 0, "shift"), 0.0), (("edges", 0, "shift"), False),
    ],
)  # fmt: skip
def test_site_tables_that_no_lowering_makes_are_refused(
    saved: bytes, tmp_path: Path, path: tuple[Any, ...], value: Any
) -> None:
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        index = json.loads(archive.read("recording.json"))
    at = table = json.loads(index["table"])
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    index["table"] = json.dumps(table)
    file = rewritten(saved, tmp_path / "table.tltrace", recording_json=json.dumps(index).encode())
    with pytest.raises(TraceError, match="not a recording of tileops, or a damaged one"):
        Recording.load(file)


@pytest.mark.parametrize("name", ["headers", "records", "payloads", "order"])
def test_arrays_of_other_shapes_and_types_are_refused(saved: bytes, tmp_path: Path, name: str) -> None:
    words = [group.layout.record_words for group in fetched().table.groups]
    group = words.index(2) if name == "payloads" else 0
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        array = np.lib.format.read_array(io.BytesIO(archive.read(f"{group}.{name}.npy")))
    longer = np.concatenate([array, array], axis=-1)
    others = (array[:0], array[..., :-1], array[..., None], array.astype(float), array.astype("U"), array[None], longer)
    for other in others:
        path = rewritten(saved, tmp_path / "shape.tltrace", **{f"{group}_{name}_npy": npy(other)})
        assert load_or_refuse(path) is None
    for other in (npy(array)[:-1], npy(array) + b"\0"):
        path = rewritten(saved, tmp_path / "shape.tltrace", **{f"{group}_{name}_npy": other})
        assert load_or_refuse(path) is None
    assert load_or_refuse(rewritten(saved, tmp_path / "missing.tltrace", **{f"{group}_{name}_npy": None})) is None
    if name == "order":
        for at, value in ((0, array[1]), (0, -1), (-1, len(array))):
            changed = array.copy()
            changed[at] = value
            path = rewritten(saved, tmp_path / "order.tltrace", **{"0_order_npy": npy(changed)})
            assert load_or_refuse(path) is None


@pytest.mark.parametrize("group", [0, 1])
def test_other_counts_of_records_are_refused(saved: bytes, tmp_path: Path, group: int) -> None:
    """The headers say how many records there are."""
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        headers = np.lib.format.read_array(io.BytesIO(archive.read(f"{group}.headers.npy")))
    layout = fetched().table.groups[group].layout
    for cta in range(headers.shape[-1]):
        state = sum(int(byte) << 8 * at for at, byte in enumerate(headers[:, 0, cta]))
        if state & 0xFFFFFFFF != STATE_DONE:
            continue
        for count in {0, (state >> 32) - 1, (state >> 32) + 1, layout.capacity, 2**32 - 1} - {state >> 32}:
            if min(count, layout.capacity) == min(state >> 32, layout.capacity) or count < 0:
                continue
            changed = headers.copy()
            changed[4:, 0, cta] = [*int(count).to_bytes(4, "little")]
            path = rewritten(saved, tmp_path / "count.tltrace", **{f"{group}_headers_npy": npy(changed)})
            refused(path, "")
    # A row that is longer than all that is in it.
    index = index_of(saved)
    table = json.loads(index["table"])
    offset = 0
    for number, place in enumerate(one["layout"] for one in table["groups"]):
        place["capacity"] += number == group
        place["offset"] = offset
        offset = GroupLayout(**place).end
    path = rewritten(
        saved, tmp_path / "longer.tltrace", recording_json=json.dumps({**index, "table": json.dumps(table)}).encode()
    )
    refused(path, "(not as long as the fullest one|is due)")  # the latter where records were dropped


def test_paths_that_cannot_be_read_or_written(tmp_path: Path, saved: bytes) -> None:
    recording = fetched()
    for nothing in ("", 3, None, b"bytes", [tmp_path]):
        for call in (Recording.load, recording.save):
            with pytest.raises(TraceError, match="a recording's path must be a text or a Path, got "):
                call(nothing)
    (tmp_path / "taken").touch()
    for path in (tmp_path, tmp_path / "taken" / "such", tmp_path / ("n" * 300), "nul\0byte"):
        with pytest.raises(TraceError):
            Recording.load(path)
        with pytest.raises(TraceError, match="cannot be written"):
            recording.save(path)
    odd = tmp_path / "ünlikely na\nme (1).zip"
    odd.write_bytes(saved)
    assert_equal(Recording.load(str(odd)).decode(), recording.decode())
    shutil.copy(odd, tmp_path / "copy")
    np.save(tmp_path / "array.npy", np.zeros(4))
    assert load_or_refuse(tmp_path / "array.npy") is None
    np.savez(tmp_path / "arrays.npz", a=np.zeros(4))
    assert load_or_refuse(tmp_path / "arrays.npz") is None
