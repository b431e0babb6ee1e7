"""What a trace shows of a program's structure: where the GPU idled and why, who launched what, what went wrong."""

from __future__ import annotations

from dataclasses import dataclass

from ..columns import Trace
from .artifacts import Artifact, Outlier, Synchronization, artifacts, outliers, unexpected_syncs
from .attribution import Label, Row, labels, table
from .gaps import DeviceGaps, find_gaps
from .launching import Launches, Pipeline, Queue, launches, pipelines, queues
from .overlap import Sharing, Stream, sharing, streams

__all__ = ["Structure", "analyze"]


@dataclass(frozen=True)
class Structure:
    """What a trace shows; lists are empty where there is nothing to say.

    Attributes:
        table: the summary table, by self CUDA time.
        labels: ``record_function``'s, with the kernels launched inside them.
        sharing: of host and each GPU.
        streams: in use.
        gaps: of each GPU as a whole.
        stream_gaps: of each stream, for GPUs that have several in use.
        launches: the launch calls.
        queues: of each GPU.
        pipelines: rows of small kernels.
        syncs: waits that had work behind them.
        artifacts: what a warm-up should have done.
        outliers: labels whose first passage took longer.
    """

    table: list[Row]
    labels: list[Label]
    sharing: list[Sharing]
    streams: list[Stream]
    gaps: list[DeviceGaps]
    stream_gaps: list[DeviceGaps]
    launches: Launches
    queues: list[Queue]
    pipelines: list[Pipeline]
    syncs: list[Synchronization]
    artifacts: list[Artifact]
    outliers: list[Outlier]


def analyze(trace: Trace) -> Structure:
    """Reads a trace's structure."""
    gaps, stream_gaps = find_gaps(trace)
    return Structure(
        table=table(trace),
        labels=labels(trace),
        sharing=sharing(trace),
        streams=streams(trace),
        gaps=gaps,
        stream_gaps=stream_gaps,
        launches=launches(trace),
        queues=queues(trace),
        pipelines=pipelines(trace),
        syncs=unexpected_syncs(trace),
        artifacts=artifacts(trace),
        outliers=outliers(trace),
    )
