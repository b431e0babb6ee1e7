"""The Timeline: what a recording says, as columns.

Every view, statistic and exporter reads a :class:`Timeline` and nothing else. It holds plain NumPy columns, so that
a question about a million events is one vectorized expression; iterating a table gives rows for the cases where a
loop is clearer.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .findings import Finding
    from .statistics import Summary

PAYLOAD_NONE, PAYLOAD_INT, PAYLOAD_FLOAT = 0, 1, 2


class Table:
    """Equally long named columns.

    A column is reached as an attribute (``table.start``) and is a NumPy array. Text columns are kept as small codes
    into a vocabulary: ``table.name`` decodes them to an array of ``str``, ``table.codes("name")`` gives the codes and
    ``table.vocabulary("name")`` the texts they stand for.

    A column that follows from others, row by row, may be given as a function of the table. It is called when the
    column is first read: of a million events' 56 bytes each, decoding then makes and keeps 22.

    Args:
        columns: name to array, all of one length, or to a function that takes the table and returns one.
        vocabularies: for each text column, the texts that its codes index.

    Raises:
        ValueError: if the columns' lengths differ, or a vocabulary names no column.
    """

    def __init__(
        self,
        columns: Mapping[str, np.ndarray | Callable[[Table], np.ndarray]],
        vocabularies: Mapping[str, Sequence[str]] | None = None,
    ):
        lengths = {len(column) for column in columns.values() if not callable(column)}
        if len(lengths) > 1:
            raise ValueError(f"the columns of a table must be equally long, got lengths {sorted(lengths)}")
        self._length = max(lengths, default=0)
        self._columns = dict(columns)
        self._vocabularies = {name: tuple(texts) for name, texts in (vocabularies or {}).items()}
        unknown = set(self._vocabularies) - set(self._columns)
        if unknown:
            raise ValueError(f"vocabularies without a column: {sorted(unknown)}")
        self._decoded: dict[str, np.ndarray] = {}

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return self._length

    def __getattr__(self, name: str) -> np.ndarray:
        if name.startswith("_") or name not in self._columns:
            raise AttributeError(f"no column {name!r}; there are {', '.join(self.__dict__.get('_columns', {}))}")
        return self[name]

    def __getitem__(self, key: Any) -> Any:
        """A column by name, or the rows chosen by a mask, a slice or an array of positions, as a Table."""
        if isinstance(key, str):
            if key not in self._vocabularies:
                return self.codes(key)
            if key not in self._decoded:
                texts = np.array(self._vocabularies[key] or ("",), dtype=object)
                self._decoded[key] = texts[self.codes(key)]
            return self._decoded[key]
        if isinstance(key, (int, np.integer)):
            raise TypeError("index a table with a column's name, a mask, a slice or an array of positions")
        columns = {name: column if callable(column) else column[key] for name, column in self._columns.items()}
        return Table(columns, self._vocabularies)

    def codes(self, name: str) -> np.ndarray:
        """A column as it is kept: of a text column the codes, integers that index :meth:`vocabulary`."""
        column = self._columns[name]
        if callable(column):
            column = self._columns[name] = column(self)
        return column

    def vocabulary(self, name: str) -> tuple[str, ...]:
        """The texts that the codes of text column ``name`` stand for."""
        return self._vocabularies[name]

    def where(self, **equal: Any) -> Table:
        """The rows whose columns equal the given values, e.g. ``slices.where(cta=3, name="wait")``."""
        mask = np.ones(len(self), dtype=bool)
        for name, value in equal.items():
            if name in self._vocabularies:
                matching = [code for code, text in enumerate(self._vocabularies[name]) if text == value]
                mask &= np.isin(self.codes(name), matching)
            else:
                mask &= self.codes(name) == value
        return self[mask]

    def __iter__(self) -> Iterator[Any]:
        """Rows with the columns' names as attributes; ``payload`` is an ``int``, a ``float`` or ``None``."""
        names = [name for name in self._columns if name != "payload_kind"]
        namedtuple: Any = collections.namedtuple  # mypy would have the names be constants
        row = namedtuple("Row", names)
        kinds = self.codes("payload_kind") if "payload_kind" in self._columns else None
        for index, values in enumerate(zip(*(self[name].tolist() for name in names))):
            made = row(*values)
            if kinds is not None:
                kind, payload = kinds[index], made.payload
                value = None if kind == PAYLOAD_NONE else int(payload) if kind == PAYLOAD_INT else payload
                made = made._replace(payload=value)
            yield made

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self._columns)})"


@dataclass(frozen=True)
class Timeline:
    """A launch's recorded events.

    Times without a unit in their name are SM cycles, zeroed at the begin of each CTA. Times in ``_ns`` are
    nanoseconds on one axis for the whole GPU, zeroed at the first CTA's begin.

    Attributes:
        slices: one row a range that was entered: ``cta``, ``group``, ``lane``, ``name``, ``start``, ``duration``,
            ``payload``, ``payload_kind``, ``depth`` (ranges of its group and lane around it), ``start_ns``,
            ``duration_ns``, ``cut`` (its end is not recorded: it ends with the last event of a full row, or where the
            thread returned), ``site``. Ordered by CTA, group and start.
        instants: one row a zero-width mark: ``cta``, ``group``, ``lane``, ``name``, ``time``, ``payload``,
            ``payload_kind``, ``time_ns``, ``site``.
        flows: one row an occurrence of a ``dag`` edge: ``cta``, ``src``, ``dst``, ``src_group``, ``dst_group``,
            ``src_slice``, ``dst_slice`` (positions in ``slices``), ``occurrence``, ``start``, ``end``, ``start_ns``,
            ``end_ns``. Ordered by ``src_slice``; a cut slice has none.
        rows: one row a CTA and group: ``cta``, ``group``, ``recorded``, ``dropped`` (events), ``finished``.
        ctas: one row a CTA: ``cta``, ``x``, ``y``, ``z``, ``sm``, ``begin_ns``, ``end_ns``, ``cycles`` (from its begin
            to its end), ``ghz`` (its SM's clock as measured, averaged over the CTA; NaN where unknown), ``recorded``,
            ``dropped``, ``finished``.
        grid: the launch's extents along x, y and z.
        groups: the groups' names, in the order of their rows.
        axis_error_ns: how far the nanosecond axis is from the timer, where that was read, at most; NaN if unknown.
        never_fired: for each marker that no CTA recorded though nothing was dropped, what and where it is.
        meta: what else is known of the launch: ``kernel``, ``device``, ``target``, ``versions``, ``date``, …
    """

    slices: Table
    instants: Table
    flows: Table
    rows: Table
    ctas: Table
    grid: tuple[int, int, int]
    groups: tuple[str, ...]
    axis_error_ns: float = float("nan")
    never_fired: tuple[str, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def dropped(self) -> int:
        """Events that did not fit into their rows: exact, over all CTAs that finished."""
        return int(self.ctas["dropped"].sum())

    @cached_property
    def recorded(self) -> int:
        """Events that were recorded, over all CTAs that finished."""
        return int(self.ctas["recorded"].sum())

    @cached_property
    def unfinished(self) -> np.ndarray:
        """The CTAs that started and never closed their rows: nothing of theirs is decoded."""
        return self.ctas["cta"][~self.ctas["finished"]]

    def summary(self, *, depth: int | None = None) -> Summary:
        """Where the time goes, as tables; ``print`` shows the main ones.

        Args:
            depth: the stages that the kernel's pipeline was built with, if you know them: they are shown next to the
                number of hand-offs that are really in flight.
        """
        from .statistics import Summary

        return Summary(self, depth)

    def findings(
        self,
        *,
        minimum: float = 0.05,
        depth: int | None = None,
        roles: Mapping[str, Collection[str]] | None = None,
        least_cycles: Mapping[str, float] | None = None,
        flops: float | None = None,
    ) -> list[Finding]:
        """What costs time and could be won, and what the recording cannot tell; see ``docs/findings.md``.

        Args:
            minimum: the least win that makes a finding, as a share of the kernel's span.
            depth: the stages that the kernel's pipeline was built with, if you know them.
            roles: words in the names of ranges and lanes by which they ``"wait"``, ``"load"`` or ``"compute"``, if
                they are not the usual ones. Destinations of ``dag`` edges wait whatever their names.
            least_cycles: how long computing ranges need at least, by name, if you know it: their operations over what
                an SM does in a cycle. What they take beyond that counts as time that is not computed in; without it,
                a computation is taken for as fast as it can be.
            flops: floating-point operations of the whole launch in fp16 or bf16, if you know them: 2·m·n·k of a GEMM.
                They tell a slow computation too, on A100, H100 and H200, where every CTA was recorded.

        Returns:
            Findings by the most that they could win, the largest first; what concerns the recording comes last.

        Raises:
            TraceError: for another ``minimum``, ``roles``, ``least_cycles`` or ``flops``; for ``flops`` on a device
                whose tensor cores' rate is not known.
            ValueError: for a ``depth`` that is no number of stages.
        """
        from .findings import find

        return find(self, minimum, depth, roles, least_cycles, flops)

    def show(self, *, title: str | None = None, plotlyjs: str = "embed") -> Path:
        """Writes the timeline's page to a temporary folder and opens it in a browser; says where it is if none opens.

        Args:
            title: the page's heading; the kernel's name by default.
            plotlyjs: where the page has its library from, see :func:`tileops.trace.export.html.export_html`.

        Returns:
            The page's path. The file stays until something clears the folder for temporary files.

        Raises:
            ValueError: for another ``plotlyjs``.
            OSError: if the page cannot be written.
        """
        # In the methods, not above: exporters and statistics read Timelines, and this module knows none of them.
        from .export.html.show import show

        return show(self, title, plotlyjs)

    def to_pandas(self) -> Any:
        """The events as a ``pandas.DataFrame``, a row each.

        Rows of four kinds, in column ``kind``, share the columns: ``cta``, ``range``, ``instant`` and ``flow``. What a
        kind has not is null. Texts are categories. ``docs/files.md`` says what each column is.

        Raises:
            TraceError: where a package is missing that this needs, with the command that installs it.
        """
        from .export.arrow import to_pandas

        return to_pandas(self)

    def to_polars(self) -> Any:
        """The events as a ``polars.DataFrame``, with the rows, columns and errors of :meth:`to_pandas`."""
        from .export.arrow import to_polars

        return to_polars(self)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from .export.html.show import frame

        return frame(self)

    def __repr__(self) -> str:
        parts = [f"{len(self.ctas)} CTAs", f"{len(self.slices)} slices", f"{len(self.instants)} instants"]
        parts += [f"{len(self.flows)} flows", f"{self.dropped} events dropped"]
        if len(self.unfinished):
            parts.append(f"{len(self.unfinished)} CTAs unfinished")
        return f"Timeline({self.meta.get('kernel', 'kernel')}: {', '.join(parts)})"
