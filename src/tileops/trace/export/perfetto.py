"""The timeline as Perfetto's protobuf, for ui.perfetto.dev and trace_processor.

The messages are those of the package ``perfetto``. Its classes write the few that describe; the many that are events
are written as arrays of bytes (:mod:`.wire`) with the field numbers that these classes have, some CTAs at a time. What
they add up to is what the classes would have written, to the byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..files import exported
from ..timeline import PAYLOAD_FLOAT, PAYLOAD_INT, PAYLOAD_NONE, Timeline
from . import wire
from .extras import needed
from .facts import cta_facts, launch_facts
from .tracks import Block, Counter, blocks, check_axis, counters, joined, whole_ns

SUFFIX = ".pftrace"

_SEQUENCE = 1
# Interned names of debug annotations.
_PAYLOAD, _CUT = 1, 2
# Messages that are written at once: their arrays of bytes then stay in the processor's cache.
_AT_ONCE = 1 << 13
# The greatest rank that a track can have.
_LAST = (1 << 31) - 1


def export_perfetto(
    timeline: Timeline, path: str | os.PathLike[str], *, progress: Callable[[float], None] | None = None
) -> Path:
    """Writes a Timeline as a Perfetto trace.

    The GPU is a track that holds the launch, with a track for each SM in it, in that one for each CTA, in that one for
    each of its lanes. A range is a slice, with its payload, and ``cut`` where its end is not recorded, as debug
    annotations; a mark is an instant; an occurrence of a ``dag`` edge is a flow. Two counters of the GPU say how many
    CTAs are resident and how many hand-offs are in flight. Times are nanoseconds, rounded to whole ones.

    A flow has its id at the begin of the source, and ends at the first of the destination's begin and end that comes
    later: Perfetto takes for the source what comes first. Where neither is later, it ends at the destination's end, and
    is not drawn.

    Args:
        timeline: what to write.
        path: the file; its folders are made, and a file that is there is replaced, unless it is a recording.
        progress: called with how much is done, from 0 to 1.

    Returns:
        ``path``.

    Raises:
        TraceError: without the package ``perfetto``, or for a Timeline that has no nanoseconds.
        OSError: naming ``path``, if it cannot be written. The file appears whole or not at all.
    """
    schema = needed("perfetto.protos.perfetto.trace.perfetto_trace_pb2", "Perfetto's format")
    check_axis(timeline)
    with exported(path) as file:
        _Writer(timeline, schema, file).write(progress or (lambda _: None))
    return Path(path)


@dataclass(frozen=True)
class _Events:
    """Events of a sequence, (n,) each.

    Attributes:
        time, kind, track: always there.
        name: interned; -1 for none.
        payload, payload_kind: as Timelines have them.
        cut: whether to say so.
        flows, terminating: pairs of (m,) ids and (m,) events, ascending by event.
    """

    time: np.ndarray
    kind: np.ndarray
    track: np.ndarray
    name: np.ndarray
    payload: np.ndarray
    payload_kind: np.ndarray
    cut: np.ndarray
    flows: tuple[np.ndarray, np.ndarray]
    terminating: tuple[np.ndarray, np.ndarray]

    def parts(self) -> Iterator[_Events]:
        """The same, some at a time."""
        for first in range(0, len(self.time), _AT_ONCE):
            chosen = slice(first, first + _AT_ONCE)
            flows, terminating = (_within(pairs, first) for pairs in (self.flows, self.terminating))
            yield _Events(
                self.time[chosen], self.kind[chosen], self.track[chosen], self.name[chosen], self.payload[chosen],
                self.payload_kind[chosen], self.cut[chosen], flows, terminating,
            )  # fmt: skip


class _Writer:
    def __init__(self, timeline: Timeline, schema: Any, file: BinaryIO):
        self._timeline, self._schema, self._file = timeline, schema, file
        self._tracks = 0
        self._names, self._slice_names, self._instant_names = joined(timeline.slices, timeline.instants, "name")
        self._begin, self._end = schema.TrackEvent.TYPE_SLICE_BEGIN, schema.TrackEvent.TYPE_SLICE_END

    def write(self, progress: Callable[[float], None]) -> None:
        timeline = self._timeline
        self._write_interned()
        facts = launch_facts(timeline)
        gpu = self._add_track(None, str(facts["device"]), 0)
        ends = timeline.ctas["end_ns"][timeline.ctas["finished"].astype(bool)]
        self._write_span(gpu, str(facts["kernel"]), 0, int(whole_ns(ends).max(initial=0)), facts)
        for at, counter in enumerate(counters(timeline)):
            self._write_counter(self._add_track(gpu, counter.name, at, counter=True), counter)
        sms: dict[int, int] = {}
        done = 0
        for block in blocks(timeline):
            self._write_block(block, gpu, sms)
            done += len(block.ctas)
            progress(done / len(timeline.ctas))
        progress(1.0)

    # One message at a time: what describes ---------------------------------------------------------------------------

    def _packet(self, **fields: Any) -> Any:
        return self._schema.TracePacket(trusted_packet_sequence_id=_SEQUENCE, **fields)

    def _put(self, *packets: Any) -> None:
        self._file.write(self._schema.Trace(packet=packets).SerializeToString())

    def _write_interned(self) -> None:
        schema = self._schema
        names = [schema.EventName(iid=at + 1, name=_text(name)) for at, name in enumerate(self._names)]
        annotations = [
            schema.DebugAnnotationName(iid=_PAYLOAD, name="payload"), schema.DebugAnnotationName(iid=_CUT, name="cut")
        ]  # fmt: skip
        interned = schema.InternedData(event_names=names, debug_annotation_names=annotations)
        self._put(self._packet(interned_data=interned, sequence_flags=schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED))

    def _add_track(self, parent: int | None, name: str, rank: int, counter: bool = False) -> int:
        self._tracks += 1
        kinds = self._schema.TrackDescriptor
        track = kinds(
            uuid=self._tracks, parent_uuid=parent, name=_text(name), sibling_order_rank=rank,
            child_ordering=None if counter else kinds.EXPLICIT,
            # Tracks of one name are otherwise drawn as one.
            sibling_merge_behavior=kinds.SIBLING_MERGE_BEHAVIOR_NONE,
            counter=self._schema.CounterDescriptor(unit=self._schema.CounterDescriptor.UNIT_COUNT) if counter else None,
        )  # fmt: skip
        self._put(self._packet(track_descriptor=track))
        return self._tracks

    def _write_span(self, track: int, name: str, start: int, end: int, facts: dict[str, Any]) -> None:
        event = self._schema.TrackEvent
        annotations = [self._annotation(key, value) for key, value in facts.items()]
        begin = event(type=self._begin, track_uuid=track, name=_text(name), debug_annotations=annotations)
        self._put(
            self._packet(timestamp=start, track_event=begin),
            self._packet(timestamp=end, track_event=event(type=self._end, track_uuid=track)),
        )

    def _annotation(self, name: str, value: Any) -> Any:
        kind = {bool: "bool_value", int: "int_value", float: "double_value"}.get(type(value), "string_value")
        shown = {kind: _text(value) if isinstance(value, str) else value}
        return self._schema.DebugAnnotation(name=_text(name), **shown)

    # Many at a time: the events ---------------------------------------------------------------------------------------

    def _write_counter(self, track: int, counter: Counter) -> None:
        number = partial(self._number, "TrackEvent")
        for first in range(0, len(counter.time), _AT_ONCE):
            chosen = slice(first, first + _AT_ONCE)
            count = len(counter.time[chosen])
            event = [
                _constant(count, number("type"), self._schema.TrackEvent.TYPE_COUNTER),
                _constant(count, number("track_uuid"), track),
                wire.field(number("counter_value"), counter.value[chosen]),
            ]
            self._file.write(self._packets(counter.time[chosen], event).joined())

    def _write_block(self, block: Block, gpu: int, sms: dict[int, int]) -> None:
        tracks = []
        for cta, lanes in block.by_cta():
            if cta.sm not in sms:
                sms[cta.sm] = self._add_track(gpu, f"SM {cta.sm}", min(2 + cta.sm, _LAST))
            facts = cta_facts(self._timeline, cta.row)
            own = self._add_track(sms[cta.sm], f"CTA {cta.number}", min(cta.begin, _LAST))
            self._write_span(own, f"CTA {cta.number}", cta.begin, cta.end, facts)
            tracks += [self._add_track(own, lane.title, rank) for rank, lane in enumerate(lanes)]
        uuids = np.array(tracks, dtype=np.int64)
        for events in (self._slices(block, uuids), self._instants(block, uuids)):
            for part in events.parts():
                self._file.write(self._encoded(part).joined())

    def _slices(self, block: Block, uuids: np.ndarray) -> _Events:
        """Begins and ends, in the order in which they are nested."""
        slices, count = self._timeline.slices, len(block.slices)
        begin, end = block.order

        def both(of_begin: np.ndarray, of_end: Any) -> np.ndarray:
            column = np.empty(2 * count, dtype=of_begin.dtype)
            column[begin], column[end] = of_begin, of_end
            return column

        ids = block.flows + 1
        uuid = uuids[block.track]
        return _Events(
            time=both(block.start, block.end),
            kind=both(np.full(count, self._begin), self._end),
            track=both(uuid, uuid),
            name=both(self._slice_names[slices.codes("name")[block.slices]], -1),
            payload=both(slices["payload"][block.slices], np.nan),
            payload_kind=both(slices["payload_kind"][block.slices], PAYLOAD_NONE),
            cut=both(slices["cut"][block.slices].astype(bool), False),
            flows=_by_event(ids, begin[block.src]),
            terminating=_by_event(ids, np.where(block.at_begin, begin[block.dst], end[block.dst])),
        )

    def _instants(self, block: Block, uuids: np.ndarray) -> _Events:
        instants, count = self._timeline.instants, len(block.instants)
        nothing = np.empty(0, dtype=np.int64)
        return _Events(
            time=block.time,
            kind=np.full(count, self._schema.TrackEvent.TYPE_INSTANT),
            track=uuids[block.instants_track],
            name=self._instant_names[instants.codes("name")[block.instants]],
            payload=instants["payload"][block.instants],
            payload_kind=instants["payload_kind"][block.instants],
            cut=np.zeros(count, dtype=bool),
            flows=(nothing, nothing),
            terminating=(nothing, nothing),
        )

    def _encoded(self, events: _Events) -> wire.Columns:
        number, count = partial(self._number, "TrackEvent"), len(events.time)
        note = partial(self._number, "DebugAnnotation")
        parts = []
        if (events.payload_kind != PAYLOAD_NONE).any():
            integer, real = events.payload_kind == PAYLOAD_INT, events.payload_kind == PAYLOAD_FLOAT
            value = [
                _constant(count, note("name_iid"), _PAYLOAD),
                wire.field(note("int_value"), np.where(integer, events.payload, 0)).where(integer),
                wire.fixed64(note("double_value"), events.payload).where(real),
            ]
            parts.append(wire.message(number("debug_annotations"), value).where(integer | real))
        if events.cut.any():
            value = [_constant(count, note("name_iid"), _CUT), _constant(count, note("bool_value"), 1)]
            parts.append(wire.message(number("debug_annotations"), value).where(events.cut))
        parts += [
            wire.field(number("type"), events.kind),
            wire.field(number("name_iid"), events.name + 1).where(events.name >= 0),
            wire.field(number("track_uuid"), events.track),
        ]
        for field, (ids, of) in (("flow_ids", events.flows), ("terminating_flow_ids", events.terminating)):
            found = wire.repeated(number(field), ids, of, count)
            parts += [] if found is None else [found]
        return self._packets(events.time, parts)

    def _packets(self, time: np.ndarray, event: list[wire.Columns]) -> wire.Columns:
        number, count = partial(self._number, "TracePacket"), len(time)
        flags = self._schema.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        fields = [
            wire.field(number("timestamp"), time),
            _constant(count, number("trusted_packet_sequence_id"), _SEQUENCE),
            wire.message(number("track_event"), event),
            _constant(count, number("sequence_flags"), flags),
        ]
        return wire.message(self._number("Trace", "packet"), fields)

    def _number(self, message: str, field: str) -> int:
        """A field's number, as the schema has it."""
        return int(getattr(self._schema, message).DESCRIPTOR.fields_by_name[field].number)


def _constant(count: int, number: int, value: int) -> wire.Columns:
    return wire.constant(count, wire.field(number, np.array([value])).joined())


def _within(pairs: tuple[np.ndarray, np.ndarray], first: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of some events, which are then counted from the first of these."""
    ids, events = pairs
    chosen = slice(*np.searchsorted(events, [first, first + _AT_ONCE]))
    return ids[chosen], events[chosen] - first


def _by_event(ids: np.ndarray, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(events, kind="stable")
    return ids[order], events[order]


def _text(text: str) -> str:
    """Protobuf's texts are UTF-8, which has no lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")
