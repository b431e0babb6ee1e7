"""The table of events in Arrow's memory, and from there in pandas, Polars and Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..files import exported
from ..timeline import Timeline
from .events import COLUMNS, VERSION, Column, as_json, chunks, described, of_launch
from .extras import needed

SUFFIX = ".parquet"

# Rows of a row group: what readers skip at once, or read at once.
_AT_ONCE = 1 << 17


def export_parquet(
    timeline: Timeline, path: str | os.PathLike[str], *, progress: Callable[[float], None] | None = None
) -> Path:
    """Writes a Timeline as a Parquet file, a row an event; ``docs/files.md`` says what the columns are.

    Args:
        timeline: what to write.
        path: the file; its folders are made, and a file that is there is replaced, unless it is a recording.
        progress: called with how much is done, from 0 to 1.

    Returns:
        ``path``.

    Raises:
        TraceError: without the package ``pyarrow``.
        OSError: naming ``path``, if it cannot be written. The file appears whole or not at all.
    """
    parquet = needed("pyarrow.parquet", "Parquet")
    arrow = needed("pyarrow", "Parquet")
    events = sum(len(table) for table in (timeline.ctas, timeline.slices, timeline.instants, timeline.flows))
    done = 0
    with exported(path) as file:
        with parquet.ParquetWriter(file, _schema(arrow, timeline), compression="zstd") as writer:
            for batch in _batches(arrow, timeline):
                writer.write_batch(batch)
                done += batch.num_rows
                if progress is not None:
                    progress(done / events)
    return Path(path)


def to_arrow(timeline: Timeline) -> Any:
    """The ``pyarrow.Table`` of a Timeline's events, with the columns of :func:`export_parquet`.

    Raises:
        TraceError: without the package ``pyarrow``.
    """
    arrow = needed("pyarrow", "Arrow")
    return arrow.Table.from_batches(_batches(arrow, timeline), _schema(arrow, timeline)).unify_dictionaries()


def to_pandas(timeline: Timeline) -> Any:
    """The ``pandas.DataFrame`` of a Timeline's events; see :meth:`tileops.trace.Timeline.to_pandas`."""
    pandas, arrow = needed("pandas", "to_pandas"), needed("pyarrow", "to_pandas")
    # Columns that can be null keep their types: pandas makes integers with a gap floats otherwise.
    types = {
        arrow.int16(): pandas.Int16Dtype(), arrow.int32(): pandas.Int32Dtype(), arrow.int64(): pandas.Int64Dtype(),
        arrow.bool_(): pandas.BooleanDtype(),
    }  # fmt: skip
    return to_arrow(timeline).to_pandas(types_mapper=types.get)


def to_polars(timeline: Timeline) -> Any:
    """The ``polars.DataFrame`` of a Timeline's events; see :meth:`tileops.trace.Timeline.to_polars`."""
    return needed("polars", "to_polars").from_arrow(to_arrow(timeline))


def _schema(arrow: Any, timeline: Timeline) -> Any:
    about = {"format": "tileops.events", "version": VERSION, **described(timeline)}
    fields = [arrow.field(name, _type(arrow, kind)) for name, kind in COLUMNS.items()]
    return arrow.schema(fields, metadata={"tileops": as_json(about)})


def _type(arrow: Any, kind: str) -> Any:
    if kind == "text":
        return arrow.dictionary(arrow.int32(), arrow.string())
    if kind == "bool":
        return arrow.bool_()
    if kind.startswith("datetime64"):
        return arrow.timestamp("s", tz="UTC")
    return arrow.from_numpy_dtype(np.dtype(kind))


def _batches(arrow: Any, timeline: Timeline) -> Iterator[Any]:
    launch = of_launch(timeline)
    schema = _schema(arrow, timeline)
    for kind, columns in chunks(timeline, _AT_ONCE):
        count = len(columns["cta"].values)
        constant = {**launch, "kind": kind}
        arrays = []
        for field in schema:
            if field.name in columns:
                arrays.append(_array(arrow, field.type, columns[field.name]))
            else:
                arrays.append(_repeated(arrow, field.type, constant.get(field.name), count))
        yield arrow.record_batch(arrays, schema=schema)


def _array(arrow: Any, dtype: Any, column: Column) -> Any:
    mask = None if column.valid is None else ~column.valid
    if column.texts is None:
        return arrow.array(column.values, type=dtype, mask=mask, from_pandas=False)  # a payload may be NaN
    codes = arrow.array(column.values.astype(np.int32), mask=mask)
    return arrow.DictionaryArray.from_arrays(codes, arrow.array(map(_text, column.texts), type=arrow.string()))


def _repeated(arrow: Any, dtype: Any, value: Any, count: int) -> Any:
    if value is None:
        return arrow.nulls(count, dtype)
    if arrow.types.is_dictionary(dtype):
        return arrow.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int32), arrow.array([_text(value)]))
    return arrow.repeat(arrow.scalar(value, dtype), count)


def _text(text: str) -> str:
    """Arrow's texts are UTF-8, which has no lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")
