"""Parquet, CSV, JSON, pandas and Polars, read back and compared with the Timeline, event by event."""

from __future__ import annotations

import contextlib
import csv
import datetime
import json
import math
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.trace import Timeline, TraceError
from tileops.trace.decode import decode_lines
from tileops.trace.export import arrow, events, texts
from tileops.trace.export.arrow import export_parquet, to_arrow
from tileops.trace.export.chrome import export_chrome
from tileops.trace.export.events import COLUMNS
from tileops.trace.export.perfetto import export_perfetto
from tileops.trace.export.texts import export_csv, export_json

from . import model, synthetic

SEEDS = st.integers(0, 2**32 - 1)
LAUNCHED = {"rank": 3, "host": "node µ", "launch": 7}


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def expected(timeline: Timeline) -> list[dict[str, Any]]:
    """The rows, one by one, with what they hold; all else is null."""
    meta = timeline.meta
    date = datetime.datetime.fromisoformat(meta["date"]) if "date" in meta else None
    launch = {**{name: meta.get(name) for name in ("rank", "host", "launch", "kernel", "device")}, "date": date}
    sites = {row.cta: {"cta": row.cta, "x": row.x, "y": row.y, "z": row.z, "sm": row.sm if row.sm >= 0 else None}
             for row in timeline.ctas}  # fmt: skip

    def payload(row: Any) -> dict[str, Any]:
        kind = {int: "int", float: "float", type(None): None}[type(row.payload)]
        return {"payload": row.payload, "payload_kind": kind}

    rows: list[dict[str, Any]] = []
    for row in timeline.ctas:
        rows.append({
            "kind": "cta", **sites[row.cta], "recorded": row.recorded, "dropped": row.dropped,
            "start": 0 if row.finished else None, "duration": row.cycles if row.finished else None,
            "start_ns": finite(row.begin_ns), "duration_ns": finite(row.end_ns - row.begin_ns),
        })  # fmt: skip
    for row in timeline.slices:
        rows.append({
            "kind": "range", **sites[row.cta], "group": row.group, "lane": row.lane, "name": row.name,
            "start": row.start, "duration": row.duration, "start_ns": finite(row.start_ns),
            "duration_ns": finite(row.duration_ns), "depth": row.depth, "cut": row.cut, **payload(row),
        })  # fmt: skip
    for row in timeline.instants:
        rows.append({
            "kind": "instant", **sites[row.cta], "group": row.group, "lane": row.lane, "name": row.name,
            "start": row.time, "start_ns": finite(row.time_ns), **payload(row),
        })  # fmt: skip
    lanes = timeline.slices["lane"]
    for row in timeline.flows:
        rows.append({
            "kind": "flow", **sites[row.cta], "group": row.src_group, "lane": lanes[row.src_slice], "name": row.src,
            "start": row.start, "duration": row.end - row.start, "start_ns": finite(row.start_ns),
            "duration_ns": finite(row.end_ns - row.start_ns), "to_group": row.dst_group, "to_name": row.dst,
            "occurrence": row.occurrence,
        })  # fmt: skip
    return [{**dict.fromkeys(COLUMNS), **launch, **row} for row in rows]


def same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Compares values and types: NaN is NaN, an integer payload may be a float, a date has the zone of its reader."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        assert list(one) == list(other)
        for name, value in one.items():
            alike = value == other[name] if name in ("date", "payload") else False
            assert alike or repr(value) == repr(other[name]), (name, value, other[name])


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Null and the empty text are one."""
    kinds: dict[str, Any] = {
        "bool": {"true": True, "false": False}.__getitem__, "float64": float, "text": str,
        "datetime64[s]": datetime.datetime.fromisoformat,
    }  # fmt: skip
    rows = []
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            made = {}
            for name, text in row.items():
                made[name] = kinds.get(COLUMNS[name], int)(text) if text else None
                if name == "payload" and row["payload_kind"] == "int":
                    made[name] = int(text)
            rows.append(made)
    return rows


TABLES = {"ctas": "cta", "ranges": "range", "instants": "instant", "flows": "flow"}


def read_json(path: Path, timeline: Timeline) -> list[dict[str, Any]]:
    """The rows of all tables; what a kind has not is not there."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    document = json.loads(path.read_text(encoding="ascii"), parse_constant=refuse)
    assert (document["format"], document["version"]) == ("tileops.timeline", 1)
    assert document["grid"] == list(timeline.grid)
    assert document["groups"] == list(timeline.groups)
    assert document["never_fired"] == list(timeline.never_fired)
    assert document["unfinished"] == timeline.unfinished.tolist()
    assert (document["recorded"], document["dropped"]) == (timeline.recorded, timeline.dropped)
    assert document["axis_error_ns"] == finite(timeline.axis_error_ns)
    assert document["meta"].keys() == timeline.meta.keys()
    rows = []
    for table, kind in TABLES.items():
        for row in document[table]:
            if isinstance(row.get("payload"), str):
                row["payload"] = float(row["payload"])
            rows.append({"kind": kind, **row})
    return rows


def check(timeline: Timeline, folder: Path) -> None:
    rows = expected(timeline)

    path = export_parquet(timeline, folder / "a.parquet")
    table = pyarrow.parquet.read_table(path)
    same(table.to_pylist(), rows)
    for name, kind in COLUMNS.items():
        assert pyarrow.types.is_dictionary(table.schema.field(name).type) == (kind == "text")
    about = json.loads(table.schema.metadata[b"tileops"])
    assert (about["format"], about["version"], about["dropped"]) == ("tileops.events", 1, timeline.dropped)

    counted = duckdb.sql(f"SELECT kind, count(*), sum(duration) FROM '{path}' GROUP BY kind").fetchall()
    wanted: dict[str, list[Any]] = {}
    for row in rows:
        wanted.setdefault(row["kind"], []).append(row["duration"])
    assert {kind: (count, total) for kind, count, total in counted} == {
        kind: (len(took), sum(t for t in took if t is not None) if any(t is not None for t in took) else None)
        for kind, took in wanted.items()
    }

    found = read_csv(export_csv(timeline, folder / "a.csv"))
    same(found, [{name: value if value != "" else None for name, value in row.items()} for row in rows])

    in_json = read_json(export_json(timeline, folder / "a.json"), timeline)
    shown = [{name: row[name] for name in one} for one, row in zip(in_json, rows)]
    same(in_json, shown)
    for one, row in zip(in_json, rows):
        left_out = row.keys() - one.keys() - set(events.OF_LAUNCH)
        assert all(row[name] is None for name in left_out)


SCENES = {
    "gemm": lambda: synthetic.gemm((3, 1, 1), 12), "troubled": synthetic.troubled, "empty": synthetic.empty,
    "nested": synthetic.nested, "waves": synthetic.waves,
}  # fmt: skip


@pytest.mark.parametrize("scene", SCENES)
def test_scenes_read_back(scene: str, tmp_path: Path) -> None:
    timeline = SCENES[scene]()
    check(timeline, tmp_path)
    check(replace(timeline, meta={**timeline.meta, **LAUNCHED}), tmp_path)


def test_hostile_names_read_back(tmp_path: Path) -> None:
    timeline = synthetic.hostile()
    check(timeline, tmp_path)
    lone = synthetic.Builder((1, 1, 1), ("lone \ud800",))
    lone.slice(0, "lone \ud800", "main", "half \udfff", 0, 10)
    timeline = lone.build()
    for export in (export_parquet, export_csv):  # UTF-8 has no half of a surrogate pair
        assert "half ?" in pandas_of(export(timeline, tmp_path / f"b.{export.__name__}"))["name"].tolist()
    assert json.loads(export_json(timeline, tmp_path / "b").read_bytes())["ranges"][0]["name"] == "half \udfff"


def pandas_of(path: Path) -> Any:
    return pandas.read_csv(path) if path.name.endswith("csv") else pandas.read_parquet(path)


def decoded(seed: int) -> Timeline:
    rand = random.Random(seed)
    launch = model.random_launch(rand, model.random_kernel(rand, chosen=seed % 2 == 0))
    return decode_lines(model.slots_of(launch, rand), launch.kernel.table, LAUNCHED)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_random_launches_read_back(tmp_path_factory: Any, seed: int) -> None:
    check(decoded(seed), tmp_path_factory.mktemp("launch"))


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.lists(st.tuples(st.integers(0), st.integers(0, 63)), min_size=1, max_size=4))
def test_damaged_slots_are_refused_or_written(tmp_path_factory: Any, seed: int, flips: list[tuple[int, int]]) -> None:
    """Whatever a header says, what decodes is exported or refused with the error that is allowed."""
    rand = random.Random(seed)
    kernel = model.random_kernel(rand)
    lines = model.slots_of(model.random_launch(rand, kernel), rand)
    offsets = [group.layout.offset + word for group in kernel.table.groups for word in range(8)]
    for place, bit in flips:
        place, line = place % len(offsets), place // len(offsets) % max(len(lines), 1)
        if len(lines):
            lines[line, offsets[place]] ^= np.uint64(1 << bit)
    try:
        timeline = decode_lines(lines, kernel.table)
    except TraceError:
        return
    folder = tmp_path_factory.mktemp("damaged")
    for export in (export_parquet, export_csv, export_json, export_perfetto, export_chrome):
        with (
            contextlib.suppress(TraceError) if export in (export_perfetto, export_chrome) else contextlib.nullcontext()
        ):
            export(timeline, folder / "out")


def test_times_that_no_launch_has_are_refused(tmp_path: Path) -> None:
    for begin in (-64.0, 2.0**62):
        builder = synthetic.Builder((1, 1, 1), ("main",))
        builder.begin_ns[:] = begin
        builder.slice(0, "main", "main", "x", 0, 10)
        for export in (export_perfetto, export_chrome):
            with pytest.raises(TraceError, match=r"which no launch does: its recording is damaged"):
                export(builder.build(), tmp_path / "out")
        check(builder.build(), tmp_path)


def test_without_nanoseconds_there_are_cycles(tmp_path: Path) -> None:
    builder = synthetic.Builder((2, 1, 1), ("main",), ghz=[1.7, float("nan")])
    for cta in range(2):
        builder.slice(cta, "main", "main", "x", 0, 10, payload=float("nan"))
        builder.slice(cta, "main", "main", "y", 10, 20, payload=float("-inf"))
        builder.instant(cta, "main", "main", "z", 7, payload=2**32 - 1)
    timeline = builder.build(axis_error_ns=float("nan"))
    check(timeline, tmp_path)
    rows = pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["start_ns"] for row in rows if row["kind"] == "range"][2:] == [None, None]
    assert [row["start"] for row in rows if row["kind"] == "range"] == [0, 10, 0, 10]
    payloads = [row["payload"] for row in rows if row["kind"] == "range" and row["cta"] == 0]
    assert math.isnan(payloads[0])
    assert payloads[1] == -math.inf


def test_chunks_join_without_a_seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_AT_ONCE", 7)
    monkeypatch.setattr(texts, "_AT_ONCE", 5)
    check(decoded(5), tmp_path)
    check(synthetic.gemm((2, 1, 1), 9), tmp_path)


@pytest.mark.parametrize("meta", [
    {}, {"rank": -1, "launch": True, "host": 3, "kernel": None, "device": [], "date": "yesterday"},
    {"rank": 2**31, "launch": 2**63, "date": 5, "odd": {1: float("nan"), "set": {1}}},
    {"date": "2025-11-03T14:05:09"}, {"date": "0001-01-01T00:00:00+23:59"},
])  # fmt: skip
def test_a_meta_that_holds_anything(meta: dict[str, Any], tmp_path: Path) -> None:
    timeline = replace(synthetic.empty(), meta=meta)
    for export in (export_parquet, export_csv, export_json):
        export(timeline, tmp_path / "out")
    row = to_arrow(timeline).to_pylist()[0]
    assert (row["rank"], row["launch"], row["host"]) == (None, None, None)
    assert json.loads((tmp_path / "out").read_text())["meta"].keys() == {str(key) for key in meta}


def test_pandas_and_polars_have_the_rows() -> None:
    timeline = replace(synthetic.troubled(), meta={**synthetic.META, **LAUNCHED})
    rows = expected(timeline)
    frame, other = timeline.to_pandas(), timeline.to_polars()
    assert isinstance(frame, pandas.DataFrame)
    assert isinstance(other, polars.DataFrame)
    assert list(frame.columns) == other.columns == list(COLUMNS)
    assert str(frame["name"].dtype) == "category"
    assert str(frame["duration"].dtype) == "Int64"
    assert other.schema["name"] == polars.Categorical
    for name, kind in COLUMNS.items():
        wanted = [row[name] for row in rows]
        assert [repr(value) for value in other[name].to_list()] == [
            repr(float(value) if kind == "float64" and value is not None else value) for value in wanted
        ] or name == "date"
        assert [None if pandas.isna(value) else value for value in frame[name].tolist()] == wanted
    counts = frame[frame.kind == "range"].groupby("name", observed=True).size().to_dict()
    assert counts == {name: int((timeline.slices["name"] == name).sum()) for name in set(timeline.slices["name"])}


@pytest.mark.parametrize("export", [export_parquet, export_csv, export_json])
def test_a_file_is_whole_or_as_it_was(export: Any, tmp_path: Path) -> None:
    path = tmp_path / "new" / "out"
    told: list[float] = []
    export(synthetic.gemm(), path, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    before = path.read_bytes()

    def fail(part: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(synthetic.waves(), path, progress=fail)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["out"]
    for bad in (tmp_path, path / "below", tmp_path / ("n" * 300), tmp_path / "a\0b"):
        with pytest.raises(OSError, match=r"^\[Errno \d+\] cannot be written: ") as caught:
            export(synthetic.waves(), bad)
        assert caught.value.filename == str(bad)


@pytest.mark.parametrize(("module", "call"), [
    ("pyarrow", Timeline.to_pandas), ("pyarrow", Timeline.to_polars), ("pandas", Timeline.to_pandas),
    ("polars", Timeline.to_polars), ("pyarrow.parquet", lambda timeline: export_parquet(timeline, "out")),
])  # fmt: skip
def test_without_a_package_it_says_what_to_install(
    module: str, call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    package = module.split(".")[0]
    with pytest.raises(TraceError, match=rf'needs the package {package} .*pip install "tileops\[files\]"'):
        call(synthetic.empty())
    assert not list(tmp_path.iterdir())


def test_names_take_no_room_in_parquet(tmp_path: Path) -> None:
    """Names that are long in every row cost what they cost once."""
    sizes = []
    for name in ("x", "x" * 1000):
        builder = synthetic.Builder((1, 1, 1), ("main",))
        for k in range(5000):
            builder.slice(0, "main", "main", name, 10 * k, 10 * k + 5, payload=k)
        sizes.append(export_parquet(builder.build(), tmp_path / "out").stat().st_size)
    assert sizes[1] < sizes[0] + 20_000  # in every row they would take 5 MB


def test_columns_are_arrays_of_their_types() -> None:
    for _, columns in events.chunks(decoded(9078), 100):
        for name, column in columns.items():
            if column.texts is None:
                assert np.can_cast(column.values.dtype, np.dtype(COLUMNS[name]), "safe"), name
