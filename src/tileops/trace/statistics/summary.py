"""All statistics of a Timeline, each made when it is first asked for."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..timeline import Table, Timeline
from .handoffs import handoff_table
from .iterations import iteration_table, phase_table
from .lanes import LaneUse, group_overlap_table, lane_overlap_table, lane_table
from .multiprocessors import launch_span_ns, load_table
from .numbering import Numbering
from .ranges import cta_table, range_table, sm_table


class Summary:
    """Where the time of a launch goes.

    Every table is made when it is first read, and kept. ``print`` shows the main ones as text. Times are SM cycles
    unless a column's name ends in ``_ns``. Nothing is known of CTAs that did not finish: no table counts them.

    Args:
        timeline: what to look at.
        depth: the stages that the kernel's pipeline was built with, if you know them, see :attr:`handoffs`.

    Raises:
        ValueError: for a ``depth`` that is no number of stages.
    """

    def __init__(self, timeline: Timeline, depth: int | None = None):
        if depth is not None and (isinstance(depth, bool) or not isinstance(depth, (int, np.integer)) or depth < 1):
            raise ValueError(f"depth must be the number of the pipeline's stages, an integer from 1, got {depth!r}")
        self.timeline = timeline
        self.depth = depth

    @cached_property
    def numbering(self) -> Numbering:
        """Which range each slice belongs to; the rows of :attr:`ranges` are in its order."""
        return Numbering.of(self.timeline)

    @cached_property
    def _lane_use(self) -> LaneUse:
        return LaneUse.of(self.timeline, self.numbering)

    @cached_property
    def span_ns(self) -> float:
        """Nanoseconds from the first CTA's begin to the last one's end; NaN where the clock is not known."""
        return launch_span_ns(self.timeline)

    @cached_property
    def ranges(self) -> Table:
        """A row a range, see :func:`.ranges.range_table`."""
        return range_table(self.timeline, self.numbering)

    @cached_property
    def ctas(self) -> Table:
        """A row a range and CTA, see :func:`.ranges.cta_table`."""
        return cta_table(self.timeline, self.numbering)

    @cached_property
    def sms(self) -> Table:
        """A row a range and SM, see :func:`.ranges.sm_table`."""
        return sm_table(self.timeline, self.numbering, self.ctas)

    @cached_property
    def load(self) -> Table:
        """A row an SM: how many CTAs it ran and how long it was busy, see :func:`.multiprocessors.load_table`."""
        return load_table(self.timeline)

    @cached_property
    def iterations(self) -> Table:
        """A row an iteration of each range in a loop, see :func:`.iterations.iteration_table`."""
        return iteration_table(self.timeline, self.numbering)

    @cached_property
    def phases(self) -> Table:
        """A row a group: its prologue, steady state and epilogue, see :func:`.iterations.phase_table`."""
        return phase_table(self.timeline, self.iterations)

    @cached_property
    def lanes(self) -> Table:
        """A row a lane: how busy it is, and its gaps, see :func:`.lanes.lane_table`."""
        return lane_table(self.timeline, self._lane_use)

    @cached_property
    def lane_overlaps(self) -> Table:
        """A row a pair of lanes: how long both are busy, see :func:`.lanes.lane_overlap_table`."""
        return lane_overlap_table(self.timeline, self._lane_use)

    @cached_property
    def group_overlaps(self) -> Table:
        """A row a pair of groups: how long both are busy, see :func:`.lanes.group_overlap_table`."""
        return group_overlap_table(self.timeline, self._lane_use)

    @cached_property
    def handoffs(self) -> Table:
        """A row a ``dag`` edge: latency and hand-offs in flight, see :func:`.handoffs.handoff_table`."""
        return handoff_table(self.timeline, self.numbering, self.depth)

    def __str__(self) -> str:
        from .text import text

        return text(self)

    __repr__ = __str__
