"""The ``trace`` object: what kernel authors and operators call.

TileLang takes seconds to import, so it is imported by the methods that build or run kernels, not by this module.
"""

from __future__ import annotations

import datetime
import platform
import re
import threading
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from .errors import TraceError, TraceWarning
from .sites import ATTRIBUTE, SiteTable
from .timeline import Timeline

if TYPE_CHECKING:
    from .markers import Token

DEFAULT_OUTPUT = "debug"
DEFAULT_DUMPS = 3
DEFAULT_MAX_EVENTS = 2048
_STEM = re.compile(r"[^/\\\0]+")


class Trace:
    """In-kernel timeline tracing: markers for kernel bodies, and the host side that builds, runs and dumps.

    There is one instance, :data:`tileops.trace.trace`; its switch is local to the process.
    """

    def __init__(self) -> None:
        self._enabled = False
        self._output = DEFAULT_OUTPUT
        self._dumps_per_stem: int | None = DEFAULT_DUMPS
        self._every = 1
        self._launches: Counter[str] = Counter()
        self._dumped: Counter[str] = Counter()
        self._told: set[str] = set()
        self._written: list[Path] = []
        self._lock = threading.Lock()

    # The switch -----------------------------------------------------------------------------------------------------

    def enable(self, output: str = DEFAULT_OUTPUT, *, dumps: int | None = DEFAULT_DUMPS, every: int = 1) -> None:
        """Turns tracing on for kernels that are built from now on.

        Args:
            output: the folder that :meth:`run` and :meth:`dump` write to; made when first needed.
            dumps: of each stem, how many launches :meth:`run` dumps; ``None`` for all of them.
            every: dump every n-th launch of a stem only.

        Raises:
            TraceError: if an argument makes no sense.
        """
        if not isinstance(output, (str, Path)) or not str(output):
            raise TraceError(f"enable: output must name a folder, got {output!r}")
        if dumps is not None and (isinstance(dumps, bool) or not isinstance(dumps, int) or dumps < 0):
            raise TraceError(f"enable: dumps must be a number of launches, or None for all, got {dumps!r}")
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise TraceError(f"enable: every must be an int of at least 1, got {every!r}")
        with self._lock:
            self._enabled, self._output = True, str(output)
            self._dumps_per_stem, self._every = dumps, every
            self._launches.clear()
            self._dumped.clear()
            self._told.clear()

    def disable(self) -> None:
        """Turns tracing off for kernels that are built from now on."""
        self._enabled = False

    @property
    def enabled(self) -> bool:
        """Whether kernels are built for tracing where ``traced`` is not given."""
        return self._enabled

    @property
    def output(self) -> str:
        """The folder that timelines are written to."""
        return self._output

    @property
    def dumps(self) -> tuple[Path, ...]:
        """The base paths of everything dumped by this process, oldest first."""
        return tuple(self._written)

    # Markers: inside a kernel ---------------------------------------------------------------------------------------

    def group(self, name: str, lead: int) -> AbstractContextManager[None]:
        """Names the warpgroup whose markers stand inside the ``with``, and the thread of it that records.

        Args:
            name: the group's name.
            lead: the recording thread, as numbered by the author of the kernel (x fastest). The other threads run
                the same code and record nothing. Without a group, markers belong to group ``"main"``, lead 0.

        Raises:
            TraceError: outside a kernel, for a lead outside the block or a name that is no text.
        """
        from . import markers

        return markers.group(name, lead)

    def range(self, name: str, lane: str = "main", payload: Any = None) -> AbstractContextManager[None]:
        """Times what stands inside the ``with``, as a bar on a lane of the group's.

        Args:
            name: the range's name.
            lane: the row of the timeline it is drawn in.
            payload: a value to record with its begin: a 32-bit integer or float32, Python or a runtime expression.

        Raises:
            TraceError: outside a kernel, for names that are no texts or a payload of another type.
        """
        from . import markers

        return markers.range(name, lane, payload)

    def range_start(self, name: str, lane: str = "main", payload: Any = None) -> Token:
        """Like :meth:`range` where a ``with`` does not fit: the begin. Returns the token that ends it."""
        from . import markers

        return markers.range_start(name, lane, payload)

    def range_end(self, token: Token) -> None:
        """Ends the range that ``token`` came from: on every path exactly once, in the group that started it.

        Raises:
            TraceError: for something else than a token, or in another group.
        """
        from . import markers

        markers.range_end(token)

    def record(self, name: str, payload: Any = None, lane: str = "main") -> None:
        """Records a point in time, drawn as a mark. Arguments and errors as for :meth:`range`."""
        from . import markers

        markers.record(name, payload, lane)

    def dag(self, src: str, dst: str, *, shift: int = 0) -> None:
        """Declares that every occurrence of range ``src`` hands over to one of range ``dst``: an arrow each.

        Args:
            src: the range that hands over, in any group of the kernel.
            dst: the range that waits for it.
            shift: the n-th ``src`` hands over to the (n + shift)-th ``dst``. A ring of four stages that starts
                empty has shift 4 from the consumer's release to the producer's wait.

        Raises:
            TraceError: when the kernel is finalized, if it has no range of one of the names.
        """
        from . import markers

        markers.dag(src, dst, shift)

    # Building -------------------------------------------------------------------------------------------------------

    def out_idx(self, n_outputs: int, traced: bool | None = None) -> list[int]:
        """``out_idx`` for ``tilelang.jit``: the last ``n_outputs`` parameters, and ``slots`` behind them when traced.

        Args:
            n_outputs: how many outputs the kernel has, last in its signature.
            traced: as given to :meth:`finalize`; ``None`` follows the switch.
        """
        if isinstance(n_outputs, bool) or not isinstance(n_outputs, int) or n_outputs < 0:
            raise TraceError(f"out_idx: n_outputs must be the number of outputs, got {n_outputs!r}")
        count = n_outputs + (1 if self._traced(traced) else 0)
        return [*_negative_positions(count)]

    def finalize(self, func: Any, traced: bool | None = None, max_events: int = DEFAULT_MAX_EVENTS) -> Any:
        """:meth:`lower` when traced, else :meth:`strip`. ``traced=None`` follows the switch."""
        return self.lower(func, max_events) if self._traced(traced) else self.strip(func)

    def lower(self, func: Any, max_events: int = DEFAULT_MAX_EVENTS) -> Any:
        """Turns the markers of a PrimFunc into recording code and adds its trailing output ``slots``.

        Args:
            func: what ``@T.prim_func`` made.
            max_events: events that a CTA's group can record; a range is two. What does not fit is counted.

        Returns:
            A PrimFunc with one more parameter, ``slots``: (CTAs, words) int64.

        Raises:
            TraceError: naming the marker's file and line, if a range is not ended exactly once on every path, and
                for the other mistakes that markers can hold.
        """
        from . import lowering

        return lowering.lower(func, max_events)

    def strip(self, func: Any) -> Any:
        """Takes the markers out of a PrimFunc: its generated source is that of the kernel written without them.

        Raises:
            TraceError: as :meth:`lower` does, so that a mistake shows whether tracing is on or off.
        """
        from . import lowering

        return lowering.strip(func)

    # Running --------------------------------------------------------------------------------------------------------

    def run(self, compiled: Any, inputs: Sequence[Any], stem: str = "trace") -> Any:
        """Runs a compiled kernel; if it was built for tracing, writes its timeline too.

        The kernel decides, not the switch: one built without tracing returns all its outputs untouched (and a
        warning says so while tracing is on), one built with it never returns ``slots``.

        Args:
            compiled: what the ``tilelang.jit`` factory returned.
            inputs: the kernel's arguments.
            stem: the name of the files in :attr:`output`. Of each stem the first launches are dumped, see
                :meth:`enable`.

        Returns:
            What the kernel returns untraced: a tensor for one output, a list for several.
        """
        table = _site_table(compiled)
        if table is None:
            if self._enabled:
                self._tell_once(f"untraced {stem}", f"the kernel run as {stem!r} was not built for tracing: build it "
                                "with traced=trace.enabled after trace.enable()")  # fmt: skip
            return compiled(*inputs)
        produced = compiled(*inputs)
        outputs = list(produced) if isinstance(produced, (list, tuple)) else [produced]
        slots = outputs.pop()
        if self._wants_dump(stem):
            timeline = self.decode(compiled, slots)
            self.dump(timeline, compiled, stem)
            for warning in _warnings(timeline, stem):
                warnings.warn(warning, TraceWarning, stacklevel=2)
        return outputs[0] if len(outputs) == 1 else outputs

    def decode(self, compiled: Any, slots: Any) -> Timeline:
        """Decodes the ``slots`` that a traced kernel returned last.

        Args:
            compiled: the kernel.
            slots: (CTAs, words) int64 tensor, on any device.

        Raises:
            TraceError: if the kernel was not built for tracing or ``slots`` is not its own.
        """
        return self.fetch(compiled, slots).decode()

    def fetch(self, compiled: Any, slots: Any) -> Any:
        """The launch as a :class:`~tileops.trace.recording.Recording`: on the host, not decoded, ready to save."""
        from . import recording

        table = _site_table(compiled)
        if table is None:
            raise TraceError("this kernel was not built for tracing: build it with traced=True")
        return recording.fetch(slots, table, _launch_meta(slots))

    def dump(self, timeline: Timeline, compiled: Any = None, stem: str = "trace") -> Path:
        """Writes a Timeline's page to :attr:`output` under a name that is not taken yet.

        Args:
            timeline: what :meth:`decode` returned.
            compiled: the kernel it came from.
            stem: the name; ``stem.html``, then ``stem-2.html`` and so on.

        Returns:
            The path written, without its suffix.
        """
        base = _claim(Path(self._output), stem)
        page = base.with_name(base.name + ".html")
        try:
            self.export_html(timeline, page)
        except BaseException:
            page.unlink(missing_ok=True)
            raise
        with self._lock:
            self._written.append(base)
        return base

    def export_html(self, timeline: Timeline, path: str | Path, **options: Any) -> Path:
        """Writes the timeline as one self-contained page; see :func:`tileops.trace.export.html.export_html`."""
        from .export.html import export_html

        return export_html(timeline, path, **options)

    # ----------------------------------------------------------------------------------------------------------------

    def _traced(self, traced: bool | None) -> bool:
        return self._enabled if traced is None else bool(traced)

    def _wants_dump(self, stem: str) -> bool:
        with self._lock:
            launch = self._launches[stem]
            self._launches[stem] += 1
            if launch % self._every:
                return False
            if self._dumps_per_stem is None or self._dumped[stem] < self._dumps_per_stem:
                self._dumped[stem] += 1
                return True
        self._tell_once(f"stopped {stem}", f"dumped {self._dumps_per_stem} launches of {stem!r} and stops: "
                        "trace.enable(dumps=..., every=...) changes that", callers=2)  # fmt: skip
        return False

    def _tell_once(self, key: str, text: str, callers: int = 1) -> None:
        """Warns once for each key, at the line that called the method ``callers`` calls up."""
        with self._lock:
            if key in self._told:
                return
            self._told.add(key)
        warnings.warn(text, TraceWarning, stacklevel=2 + callers)


trace = Trace()


def _negative_positions(count: int) -> Sequence[int]:
    return range(-count, 0)  # `range` inside the class would be its method


def _site_table(compiled: Any) -> SiteTable | None:
    """The site table that a compiled kernel carries, or ``None`` if it was not built for tracing."""
    func = getattr(compiled, "prim_func", None)
    if func is None:
        raise TraceError(
            "expected a compiled kernel (what a tilelang.jit factory returns when called), got "
            f"{type(compiled).__name__}"
        )
    text = (func.attrs or {}).get(ATTRIBUTE)
    return None if text is None else _parsed(str(text))


@lru_cache(maxsize=128)
def _parsed(text: str) -> SiteTable:
    return SiteTable.from_json(text)


def _launch_meta(slots: Any) -> dict[str, Any]:
    import torch

    device = platform.processor() or platform.machine()
    if slots.is_cuda:
        device = torch.cuda.get_device_name(slots.device)
    versions = {"tileops": __version__, **{name: metadata.version(name) for name in ("tilelang", "torch")}}
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {"device": device, "date": date, "versions": versions}


def _claim(folder: Path, stem: str) -> Path:
    """Makes and thereby reserves the first file ``stem[-n].html`` that does not exist; also against other processes."""
    if not isinstance(stem, str) or not _STEM.fullmatch(stem) or stem in (".", ".."):
        raise TraceError(f"stem must be a file name without folders, got {stem!r}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            base = folder / (stem if number == 1 else f"{stem}-{number}")
            try:
                base.with_name(base.name + ".html").touch(exist_ok=False)
                return base
            except FileExistsError:
                number += 1
    except OSError as error:
        reason = f"{error.strerror}; see trace.enable(output=...)"
        raise TraceError(f"cannot write timelines to {folder}: {reason}") from error


def _warnings(timeline: Timeline, stem: str) -> list[str]:
    """What a reader of this timeline must know that its picture does not show."""
    found = []
    if timeline.dropped:
        needed = int((timeline.rows["recorded"] + timeline.rows["dropped"]).max())
        found.append(
            f"{stem}: {timeline.dropped} events were dropped, since rows were full; max_events={needed} would have "
            f"held them (it was {timeline.meta['max_events']})"
        )
    if len(timeline.unfinished):
        some = ", ".join(map(str, timeline.unfinished[:8].tolist())) + (", …" if len(timeline.unfinished) > 8 else "")
        found.append(f"{stem}: {len(timeline.unfinished)} CTAs did not finish and are not decoded: {some}")
    if timeline.never_fired:
        found.append(f"{stem}: markers that never fired in this launch: {'; '.join(timeline.never_fired)}")
    return found
