"""Recordings whose rows hold different numbers of records: whatever is saved can be loaded."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.trace import TraceError, recording
from tileops.trace.recording import Recording
from tileops.trace.sites import Group, Range, SiteTable
from tileops.trace.slots import HEADER_WORDS, SITE_SHIFT, STATE_DONE, STATE_OPEN, layout

from . import model

OLD = Path(__file__).parents[1] / "recordings" / "version_2.tltrace"
META = {"device": "NVIDIA H200"}


def table_of(payloads: list[bool], capacity: int) -> SiteTable:
    """A range for each group, of sites ``2 * group`` and ``2 * group + 1``."""
    return SiteTable(
        "main", "cuda", capacity,
        tuple(Group(f"g{at}", 0, place) for at, place in enumerate(layout(payloads, capacity))),
        tuple(Range("mma", "main", at, 0, "i" if kept else "", False, "k.py", 1) for at, kept in enumerate(payloads)),
        tuple(((kind, at),) for at in range(len(payloads)) for kind in ("begin", "end")), (),
    )  # fmt: skip


def launch(counts: np.ndarray, payloads: list[bool], alike: bool = False) -> Recording:
    """A launch whose rows hold ``counts`` (CTAs, groups) records; a row of -1 was never opened, one of -2 not closed.

    Clocks and durations have jitter, or, where ``alike``, none at all.
    """
    rand = np.random.default_rng(0)
    capacity = max(1, int(counts.max(initial=1)))
    table = table_of(payloads, capacity)
    ctas = len(counts)
    lines = np.zeros((ctas, table.line_words), dtype=np.uint64)

    def scatter(width: int, shape: Any) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64) if alike else rand.integers(0, width, shape)

    begin = (1 << 40) + scatter(1 << 20, ctas)
    for number, group in enumerate(table.groups):
        place, count = group.layout, counts[:, number]
        stored = np.maximum(count, 0)
        row = lines[:, place.offset : place.end]
        state = np.where(count == -2, STATE_OPEN, STATE_DONE | stored << 32)
        took = 300 * (stored + 1)
        header = [state, stored, begin, begin // 32 * 32, begin + took, (begin + took) // 32 * 32, ctas | 1 << 32, 1]
        for word, values in enumerate(header):
            row[:, word] = np.where(count == -1, 0, values)
        # Only the few long rows are gone through beyond the columns that most have.
        for at in range(int(stored.max(initial=0))):
            here = np.flatnonzero(stored > at)
            clock = begin[here] + 250 * (at + 1) + scatter(40, len(here))
            word = HEADER_WORDS + at * place.record_words
            row[here, word] = clock + (2 * number + at % 2 << SITE_SHIFT)
            if place.record_words == 2 and at % 2 == 0:
                row[here, word + 1] = at + scatter(1 << 31, len(here))
    return Recording(lines, table, META)


def assert_kept(made: Recording, loaded: Recording) -> None:
    """All that rows hold is what it was."""
    assert loaded.meta == made.meta
    for group, short in zip(made.table.groups, loaded.table.groups):
        row = made.lines[:, group.layout.offset : group.layout.end]
        other = loaded.lines[:, short.layout.offset : short.layout.end]
        width = HEADER_WORDS + short.layout.capacity * short.layout.record_words
        np.testing.assert_array_equal(row[:, :width], other[:, :width])
        assert not row[:, width:].any()
        assert not other[:, width:].any()


def members(path: Path) -> dict[str, int]:
    with zipfile.ZipFile(path) as archive:
        return {member.filename: member.file_size for member in archive.infolist()}


COUNTS = st.integers(1, 2).flatmap(
    lambda groups: st.lists(
        st.lists(st.integers(-2, 2) | st.integers(0, 40), min_size=groups, max_size=groups), max_size=30
    ).map(lambda rows: np.array(rows, dtype=np.int64).reshape(-1, groups))
)


@settings(max_examples=150, deadline=None)
@given(COUNTS, st.lists(st.booleans(), min_size=2, max_size=2), st.booleans(), st.sampled_from([0, 1 << 12, 1 << 28]))
def test_whatever_is_saved_is_loaded(
    tmp_path_factory: Any, counts: np.ndarray, payloads: list[bool], alike: bool, memory: int
) -> None:
    """However full the rows are, and however little memory a file of no size may take."""
    path = tmp_path_factory.getbasetemp() / "ragged.tltrace"
    made = launch(counts, payloads[: counts.shape[1]], alike)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "_MEMORY", memory)
        patch.setattr(recording, "_RATIO", 20)
        loaded = Recording.load(made.save(path))
        assert_kept(made, loaded)
        content = path.read_bytes()
        assert loaded.save(path).read_bytes() == content
    sizes = members(path)
    for number, group in enumerate(made.table.groups):
        records = int(np.maximum(counts[:, number], 0).sum())
        assert sizes[f"{number}.headers.npy"] - 128 == 64 * len(counts)
        assert sizes[f"{number}.records.npy"] - 128 == 8 * records
        if group.layout.record_words == 2:
            assert sizes[f"{number}.payloads.npy"] - 128 == 4 * records


def test_many_ctas_and_one_long_row(tmp_path: Path) -> None:
    counts = np.full((1 << 16, 1), 2)
    counts[777] = 300
    made = launch(counts, [False])
    path = made.save(tmp_path / "sparse.tltrace")
    assert "weight" not in members(path)
    assert os.path.getsize(path) < made.lines.nbytes / 100
    assert_kept(made, Recording.load(path))


@pytest.mark.parametrize("count", [-1, 0])
def test_a_million_ctas_that_recorded_nothing(tmp_path: Path, count: int) -> None:
    made = launch(np.full((1 << 20, 1), count), [False], alike=True)
    path = made.save(tmp_path / "empty.tltrace")
    assert os.path.getsize(path) < 100_000
    assert_kept(made, Recording.load(path))


def test_rows_that_are_all_alike(tmp_path: Path) -> None:
    made = launch(np.full((4096, 2), 500), [True, False], alike=True)
    path = made.save(tmp_path / "alike.tltrace")
    assert sum(members(path).values()) > 500 * os.path.getsize(path)
    assert_kept(made, Recording.load(path))


def test_a_launch_of_no_ctas(tmp_path: Path) -> None:
    made = launch(np.zeros((0, 2), dtype=np.int64), [True, False])
    assert_kept(made, Recording.load(made.save(tmp_path / "none.tltrace")))


def test_a_file_weighs_as_much_as_it_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.zeros((3000, 1), dtype=np.int64)
    counts[5] = 600
    made = launch(counts, [False], alike=True)
    light = made.save(tmp_path / "light.tltrace").read_bytes()
    monkeypatch.setattr(recording, "_MEMORY", 1 << 20)
    (tmp_path / "light.tltrace").write_bytes(light)
    with pytest.raises(
        TraceError, match=r"light\.tltrace: not a recording of tileops: it would take \d+ bytes of memory"
    ):
        Recording.load(tmp_path / "light.tltrace")
    path = made.save(tmp_path / "heavy.tltrace")
    assert members(path)["weight"] > 0
    memory = made.lines.nbytes + sum(members(path).values()) + 31 * members(path)["recording.json"]
    assert memory / 1000 <= path.stat().st_size < memory / 1000 + 1000
    assert_kept(made, Recording.load(path))


# Version 2 -----------------------------------------------------------------------------------------------------------


def as_version_2(path: Path) -> Path:
    """The recording as version 2 had it: all rows as long as the fullest one."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    index = json.loads(content.pop("recording.json"))
    arrays = {name: np.load(io.BytesIO(member)) for name, member in content.items() if name != "weight"}
    places = [group.layout for group in SiteTable.from_json(index["table"]).groups]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("recording.json", json.dumps({**index, "version": 2}))
        for name, array in arrays.items():
            number, kind, _ = name.split(".")
            state = np.ascontiguousarray(arrays[f"{number}.headers.npy"][:, 0].T).view("<u8")[:, 0]
            stored = np.where(state & 0xFFFFFFFF == STATE_DONE, state >> 32, 0)
            held = arrays[f"{number}.order.npy"][:, None] < np.minimum(stored, places[int(number)].capacity)
            if kind in ("records", "payloads"):
                planes = np.zeros((len(array), *held.shape), dtype=np.uint8)
                planes[:, held] = array
                array = planes
            file = io.BytesIO()
            np.save(file, array)
            archive.writestr(name, file.getvalue())
    return path


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_version_2_is_read(tmp_path_factory: Any, seed: int) -> None:
    path = tmp_path_factory.getbasetemp() / "old.tltrace"
    rand = random.Random(seed)
    made = model.random_launch(rand, model.random_kernel(rand))
    new = Recording.load(Recording(model.slots_of(made, rand), made.kernel.table, META).save(path))
    content = path.read_bytes()
    old = Recording.load(as_version_2(path))
    np.testing.assert_array_equal(old.lines, new.lines)
    assert (old.table, old.meta) == (new.table, new.meta)
    assert old.save(path).read_bytes() == content


def test_a_file_that_version_2_wrote() -> None:
    with zipfile.ZipFile(OLD) as archive:
        assert json.loads(archive.read("recording.json"))["version"] == 2
    loaded = Recording.load(OLD)
    assert_kept(launch(np.array([[3, 0], [-2, 9], [40, -1], [1, 16], [0, 2]]), [True, False]), loaded)


@pytest.mark.parametrize("name", ["records", "payloads", "order", "headers"])
def test_damaged_files_of_version_2_are_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(OLD) as archive:
        content = {member: archive.read(member) for member in archive.namelist()}
    array = np.load(io.BytesIO(content[f"0.{name}.npy"]))
    path = tmp_path / "damaged.tltrace"
    for other in (array[..., :-1], array[:-1], array[None], array.astype(np.int16), np.zeros_like(array)):
        file = io.BytesIO()
        np.save(file, other)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, old in (content | {f"0.{name}.npy": file.getvalue()}).items():
                archive.writestr(member, old)
        if name in ("records", "payloads") and other.shape == array.shape and other.dtype == array.dtype:
            continue  # a file that has its checksums right, of other times
        with pytest.raises(TraceError, match=r"damaged\.tltrace: not a recording of tileops"):
            Recording.load(path)
