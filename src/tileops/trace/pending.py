"""Launches that a CUDA graph captured: they run when the graph is replayed, so they are dumped later."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import TraceError

if TYPE_CHECKING:
    from .namespace import Trace
    from .recording import Recording
    from .timeline import Timeline


@dataclass(frozen=True)
class Launch:
    """A captured launch.

    Attributes:
        compiled: the kernel.
        slots: its last output, written by every replay. Holding it keeps the graph's memory pool from giving the same
            memory to something else that is captured later.
        stem: the name that it is dumped under.
    """

    compiled: Any
    slots: Any
    stem: str

    def decode(self, trace: Trace, number: int) -> tuple[Recording, Timeline]:
        """What the newest replay recorded, and its Timeline. ``number`` is the launch's.

        Raises:
            TraceError: as :meth:`Trace.decode` does, with what to do where there was no replay.
        """
        recording = trace.fetch(self.compiled, self.slots)
        recording.meta["launch"] = number
        try:
            return recording, recording.decode()
        except TraceError as error:
            raise TraceError(
                f"{self.stem}: {error}. The launch was captured in a CUDA graph, and has not run before the graph is "
                "replayed: replay it, then call trace.flush()"
            ) from error


@dataclass
class Pending:
    """The captured launches that were not let go, in order. Safe to use from several threads."""

    _launches: list[Launch] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    def add(self, launch: Launch) -> None:
        """Keeps one more."""
        with self._lock:
            self._launches.append(launch)

    def all(self) -> list[Launch]:
        """Those that are kept, oldest first."""
        with self._lock:
            return list(self._launches)

    def forget(self, launches: list[Launch]) -> None:
        """Lets go of these, and of their memory."""
        with self._lock:
            self._launches = [kept for kept in self._launches if not any(kept is gone for gone in launches)]
