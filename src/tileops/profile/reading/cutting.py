"""A stream of JSON cut into what stands around the events and lists of whole events, without parsing it twice.

The place to cut is guessed, and a parser decides: from the beginning of an event on, what parses as a list of values
ends where an event ends, since a parser that reads from left to right cannot tell whether the file goes on.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator

from ..errors import ProfileError

# Bytes at a time: of 120 MB, 128 KiB took 0.82 s of CPU, 1 MiB 0.61 and 4 MiB 0.64 (a trace of
# benchmarks/trace_reading.py).
CHUNK = 1 << 20
# An event holds no more than its shapes and its stack. Without a bound, a broken file would be read into memory whole.
LARGEST_EVENT = 64 << 20
# As much may stand before and behind the events.
LARGEST_FRAME = 64 << 20
_EVENTS = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_EVENT_BEGINS = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args)"\s*:')
_LIST_ENDS = re.compile(rb"\}\s*\](?=\s*(?:[,}]|$))")
_SPACE = b" \t\r\n"
_TRIES = 8
# At the end of a piece, where its last events are looked for first.
_WINDOW = 16 << 10


Buffer = bytes | memoryview


class Cutter:
    """Cuts a stream of bytes.

    Args:
        stream: the file's content.
        path: for messages.
        take: is given the bytes of a JSON list of events, and keeps none; raises ValueError if they are no JSON.

    Attributes:
        before, behind: what stands around the list of events.
        broken: events that are no JSON and were left out.
        complete: whether the list of events had its end.
        length: bytes seen.
    """

    def __init__(self, stream: Iterator[bytes], path: object, take: Callable[[Buffer], None]):
        self.before = b""
        self.behind = b""
        self.broken = 0
        self.complete = False
        self.length = 0
        self._stream = stream
        self._path = path
        self._take = take
        self._buffer = bytearray()

    def run(self) -> None:
        """Reads the stream to its end.

        Raises:
            ProfileError: if it has no list of events.
        """
        self._find_events()
        more = True
        while more and not self.complete:
            wanted = max(CHUNK, 2 * len(self._buffer))
            while more and len(self._buffer) < wanted:
                more = self._fill()
            self._cut(last=not more)
            if len(self._buffer) > LARGEST_EVENT:
                if not self.complete:
                    self.broken += 1
                    self._buffer.clear()
                break
        if self.complete:
            while len(self._buffer) < LARGEST_FRAME and self._fill():
                pass
            self.behind = bytes(self._buffer[:LARGEST_FRAME])
        while self._fill(keep=False):
            pass

    def _fill(self, keep: bool = True) -> bool:
        block = next(self._stream, None)
        if block is None:
            return False
        self.length += len(block)
        if keep:
            self._buffer += block
        return True

    def _find_events(self) -> None:
        while True:
            more = self._fill()
            start = self._buffer.lstrip(b"\xef\xbb\xbf" + _SPACE)[:1]
            if start == b"[":  # the older form of Chrome's format: nothing but the list
                begin = self._buffer.index(b"[") + 1
                break
            if bytes(start) not in (b"{", b""):
                raise ProfileError(f"{self._path}: this is no JSON; a trace of torch.profiler begins with {{ or [")
            found = _EVENTS.search(self._buffer)
            if found is not None:
                begin = found.end()
                break
            if not more or len(self._buffer) > LARGEST_FRAME:
                cut = "" if more else ", or was cut off before it"
                raise ProfileError(f'{self._path}: there is no "traceEvents" in it: it is not a Chrome trace{cut}')
        self.before = bytes(self._buffer[:begin])
        self._drop(begin)

    def _cut(self, last: bool) -> None:
        """Takes what is whole from the buffer; at the last, everything that can be read."""
        taken = self._cut_at_the_end()
        if (last or not taken) and not self._closed():
            self._one_by_one(last)

    def _cut_at_the_end(self) -> bool:
        """Takes the events up to one of the last that begin in the buffer."""
        window = _WINDOW
        while True:
            begin = max(0, len(self._buffer) - window)
            places = list(_BETWEEN.finditer(self._buffer, begin))
            if len(places) >= _TRIES or begin == 0:
                break
            window *= 16
        for found in places[: -_TRIES - 1 : -1]:
            place = found.start() + 1
            kept = self._buffer[place]
            self._buffer[place] = ord("]")
            taken = self._taken_up_to(place + 1)
            self._buffer[place] = kept
            if taken:
                self._drop(found.end())
                return True
        return False

    def _drop(self, begin: int) -> None:
        """Drops what stands before an event, but for one character: the buffer is a list that has no end yet."""
        del self._buffer[: begin - 1]
        self._buffer[0] = ord("[")

    def _taken_up_to(self, end: int) -> bool:
        # Not copied: of 8 s for 1 GB, 3 went to the pages of copies.
        with memoryview(self._buffer) as whole, whole[:end] as view:
            return self._taken(view)

    def _taken(self, events: Buffer) -> bool:
        try:
            self._take(events)
        except ValueError:
            return False
        return True

    def _closed(self) -> bool:
        """Whether the list of events ends in the buffer; then it is taken."""
        text = self._buffer.decode("latin-1")  # a character a byte, so that positions hold
        try:
            end = json.JSONDecoder(strict=False).raw_decode(text)[1]
        except (ValueError, RecursionError):
            return False
        if not self._taken_up_to(end):
            return False
        del self._buffer[:end]
        self.complete = True
        return True

    def _one_by_one(self, last: bool) -> None:
        """Takes events singly, and leaves out those that are no JSON."""
        data = bytes(self._buffer)
        begins = [found.start() for found in _EVENT_BEGINS.finditer(data)]
        # Of the last ones it cannot be said yet whether they are broken or go on.
        stop = len(begins) if last else len(begins) - _TRIES
        index = 0
        while index < stop:
            # What looks like an event's beginning may stand inside one.
            following = range(index + 1, min(index + 1 + _TRIES, len(begins)))
            end = next((other for other in following if self._piece(data[begins[index] : begins[other]])), None)
            if end is None and last and index + _TRIES >= len(begins) and self._last_one(data[begins[index] :]):
                return
            if end is None and index + 1 == len(begins):
                if self._find_end(data[begins[index] :]):
                    return
                # The event in which the file ends, or the last one before that.
                self._single(data[begins[index] : begins[index] + (_first_value(data[begins[index] :]) or 0)])
                break
            self.broken += end is None
            index = end or index + 1
        if last:
            rest = data[1:].lstrip(_SPACE + b",")
            self.complete = not begins and rest.startswith(b"]")
            self._buffer = bytearray(rest[1:] if self.complete else b"")
        elif index:
            self._drop(begins[index])

    def _piece(self, text: bytes) -> bool:
        text = text.rstrip(_SPACE)
        return text.endswith(b",") and self._single(text[:-1])

    def _last_one(self, text: bytes) -> bool:
        """Takes the event that the list ends with."""
        end = _first_value(text)
        rest = text[end:].lstrip(_SPACE) if end is not None else b""
        if rest.startswith(b"]"):
            self.broken += not self._single(text[:end])
            self._close(rest[1:])
            return True
        return False

    def _find_end(self, text: bytes) -> bool:
        """Looks for the end of the list behind an event that is no JSON: what follows the end must be JSON."""
        listed = self.before.lstrip(b"\xef\xbb\xbf" + _SPACE)[:1] == b"["
        for found in itertools.islice(_LIST_ENDS.finditer(text), _TRIES):
            rest = text[found.end() :]
            frame = b'{"":0' + rest.rstrip(_SPACE)
            if (listed and not rest.strip()) or (not listed and _first_value(frame) == len(frame)):
                self.broken += 1
                self._close(rest)
                return True
        return False

    def _close(self, behind: bytes) -> None:
        self.complete = True
        self._buffer = bytearray(behind)

    def _single(self, text: bytes) -> bool:
        if self._taken(b"[" + text + b"]"):
            return True
        try:
            # As the standard library reads it: NaN, and what is no UTF-8.
            value = json.loads(text.decode("utf-8", "replace"), strict=False, parse_constant=lambda name: None)
            return self._taken(b"[" + json.dumps(value).encode() + b"]")
        except (ValueError, RecursionError):
            return False


def _first_value(text: bytes) -> int | None:
    """Where the JSON value ends that a text begins with; None if it has no end."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text.decode("latin-1"))[1]
    except (ValueError, RecursionError):
        return None
