"""The ``trace`` object: what kernel authors and operators call.

TileLang takes seconds to import, so it is imported by the methods that build or run kernels, not by this module.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import capacity, launching
from .choice import check_keep, checked_ctas
from .errors import TraceError, warn
from .export.choices import INDEX, check_plotlyjs
from .pending import Launch, Pending
from .sites import SiteTable
from .timeline import Timeline

if TYPE_CHECKING:
    from .auto.block import Block
    from .choice import Ctas
    from .markers import Token
    from .perturbation import Perturbation
    from .recording import Recording

DEFAULT_OUTPUT = "debug"
DEFAULT_DUMPS = 3
DEFAULT_KEEP = "first"
DEFAULT_PLOTLYJS = "embed"
DEFAULT_MAX_EVENTS = 2048
_STEM = re.compile(r"[^/\\\0]+")
_log = logging.getLogger("tileops.trace")


class Trace:
    """In-kernel timeline tracing: markers for kernel bodies, and the host side that builds, runs and dumps.

    There is one instance, :data:`tileops.trace.trace`; its switch is local to the process.
    """

    def __init__(self) -> None:
        self._enabled = False
        self._output = DEFAULT_OUTPUT
        self._dumps_per_stem: int | None = DEFAULT_DUMPS
        self._every = 1
        self._keep = DEFAULT_KEEP
        self._ctas: Ctas = None
        self._plotlyjs = DEFAULT_PLOTLYJS
        self._launches: Counter[str] = Counter()
        self._dumped: Counter[str] = Counter()
        self._told: set[str] = set()
        self._written: list[Path] = []
        self._pending = Pending()
        self._perturbations: weakref.WeakKeyDictionary[Any, Perturbation] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    # The switch -----------------------------------------------------------------------------------------------------

    def enable(
        self,
        output: str = DEFAULT_OUTPUT,
        *,
        dumps: int | None = DEFAULT_DUMPS,
        every: int = 1,
        keep: str = DEFAULT_KEEP,
        ctas: Ctas = None,
        plotlyjs: str = DEFAULT_PLOTLYJS,
    ) -> None:
        """Turns tracing on for kernels that are built from now on.

        Args:
            output: the folder that :meth:`run` and :meth:`dump` write to; made when first needed.
            dumps: of each stem, how many launches :meth:`run` dumps; ``None`` for all of them.
            every: dump every n-th launch of a stem only.
            keep: which events of full rows stay in kernels whose :meth:`finalize` does not say, see :meth:`lower`.
            ctas: which CTAs such kernels record, likewise. A kernel that was built before keeps what it was built with.
            plotlyjs: where the pages that :meth:`run` and :meth:`dump` write have Plotly's JavaScript (5 MB) from:
                ``"embed"`` puts it into each page, ``"folder"`` beside the pages, once for all of them, and with
                ``"cdn"`` they fetch it from the network.

        Raises:
            TraceError: if an argument makes no sense.
        """
        if not isinstance(output, (str, Path)) or not str(output) or "\0" in str(output):
            raise TraceError(f"enable: output must name a folder, got {output!r}")
        if dumps is not None and (isinstance(dumps, bool) or not isinstance(dumps, int) or dumps < 0):
            raise TraceError(f"enable: dumps must be a number of launches, or None for all, got {dumps!r}")
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise TraceError(f"enable: every must be an int of at least 1, got {every!r}")
        check_keep("enable", keep)
        ctas = checked_ctas("enable", ctas)
        try:
            check_plotlyjs(plotlyjs)
        except ValueError as error:
            raise TraceError(f"enable: {error}") from error
        with self._lock:
            self._enabled, self._output = True, str(output)
            self._keep, self._ctas = keep, ctas
            self._plotlyjs = plotlyjs
            self._dumps_per_stem, self._every = dumps, every
            self._launches.clear()
            self._dumped.clear()
            self._told.clear()

    def disable(self) -> None:
        """Turns tracing off for kernels that are built from now on."""
        self._enabled = False
        self._keep, self._ctas = DEFAULT_KEEP, None

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

    def finalize(
        self,
        func: Any,
        traced: bool | None = None,
        max_events: int = DEFAULT_MAX_EVENTS,
        *,
        keep: str | None = None,
        ctas: Ctas = None,
    ) -> Any:
        """:meth:`lower` when traced, else :meth:`strip`. ``traced=None`` follows the switch."""
        if self._traced(traced):
            return self.lower(func, max_events, keep=keep, ctas=ctas)
        check_keep("finalize", "first" if keep is None else keep)
        checked_ctas("finalize", ctas)
        return self.strip(func)

    def lower(
        self, func: Any, max_events: int = DEFAULT_MAX_EVENTS, *, keep: str | None = None, ctas: Ctas = None
    ) -> Any:
        """Turns the markers of a PrimFunc into recording code and adds its trailing output ``slots``.

        Args:
            func: what ``@T.prim_func`` made.
            max_events: events that a CTA's group can record; a range is two. What does not fit is counted.
            keep: which events of a group stay where there are more: its ``"first"`` or its ``"last"`` ones; ``None``
                follows :meth:`enable`.
            ctas: the CTAs that record; the others cost a predicate and no memory. A list of their numbers (x fastest),
                a slice of these numbers (``slice(None, None, 8)``: every eighth, ``slice(None)``: all), ``"one per
                SM"`` (the earliest of each SM, among the first four times as many CTAs as the GPU has SMs) or ``"first
                and last wave"`` (as many of the first and of the last ones as the GPU has SMs); ``None`` follows
                :meth:`enable`.

        Returns:
            A PrimFunc with one more parameter, ``slots``: (CTAs that record, words) int64.

        Raises:
            TraceError: naming the marker's file and line, if a range is not ended exactly once on every path, and
                for the other mistakes that markers can hold; if ``keep`` or ``ctas`` is none of these, or no CTA of
                the grid is chosen.
        """
        from . import lowering

        keep = self._keep if keep is None else keep
        if ctas is None:
            return lowering.lower(func, max_events, keep, self._ctas, said_by="trace.enable")
        return lowering.lower(func, max_events, keep, ctas)

    def strip(self, func: Any) -> Any:
        """Takes the markers out of a PrimFunc: its generated source is that of the kernel written without them.

        Raises:
            TraceError: as :meth:`lower` does, so that a mistake shows whether tracing is on or off.
        """
        from . import lowering

        return lowering.strip(func)

    # Without markers ------------------------------------------------------------------------------------------------

    def instrument(
        self, kernel: Any, *, level: str = "ops", launch: int | None = None, max_events: int | None = None,
        stem: str = "", ctas: Ctas = None, **options: Any,
    ) -> Any:  # fmt: skip
        """Builds a twin of a kernel that nobody annotated: called like the kernel, it writes a timeline.

        Recorder calls are put into the CUDA source that TileLang generates; the kernel, and what TileLang caches of it,
        stay as they are. The switch plays no part in it. Timelines go where :meth:`enable` says, as many of a stem as
        it says.

        Markers that the kernel was built with stay, and their ranges stand in the same timeline, in their groups. So do
        those of a PrimFunc that is not finalized yet. The twin never returns ``slots``.

        Args:
            kernel: a ``tilelang.jit`` function in lazy or eager style, one that is autotuned, a compiled kernel, or a
                PrimFunc.
            level: ``"roles"`` records waits, loads, compute and the epilogue; ``"ops"`` every operation on a tile;
                ``"all"`` arrivals and the setup of barriers too.
            launch: record this launch only, counted from 1; the others run the kernel itself. ``None`` records all.
            max_events: records that a CTA's role can hold. ``None`` takes what the source says, 4096 where that depends
                on data.
            stem: the name of the files; the kernel's where it is empty.
            ctas: which CTAs record, as :meth:`lower` takes them; ``None`` for all of them, or those that the kernel's
                own markers record.
            options: where ``kernel`` is a PrimFunc, the arguments of ``tilelang.compile``, such as ``out_idx``.

        Returns:
            The twin. Of a kernel that can't be instrumented, it runs the kernel itself, and warns with the reason.

        Raises:
            TraceError: for arguments that make no sense.
        """
        from .auto.twin import Settings, twin_of

        return twin_of(self, kernel, Settings(level, launch, max_events, stem, ctas), options)

    @contextlib.contextmanager
    def auto(
        self, *, level: str = "ops", launch: int = 3, kernel: str = "", max_events: int | None = None,
        ctas: Ctas = None,
    ) -> Iterator[Block]:  # fmt: skip
        """Traces the kernels that are built inside the ``with``, wherever they are built and launched from.

        Each one's timeline is written when it is launched for the ``launch``-th time, inside the block or later. Of a
        kernel that was launched fewer times when the block ends, its last launch is written, one of the first three.
        TileLang's kernel cache is off while the block is open, and on again behind it; a user's own post-processing
        callbacks run first, and are back behind it. A ``tilelang.jit`` function that was called inside keeps the
        instrumented kernel for the same arguments. What an autotuner tries is left as it is; what it chose is built
        once more to be recorded, and so is each of several kernels that one PrimFunc holds.

        Args:
            level: as for :meth:`instrument`.
            launch: which launch of each kernel to record, counted from 1.
            kernel: a regular expression; only kernels are instrumented whose name (in CUDA) it is found in.
            max_events: as for :meth:`instrument`.
            ctas: as for :meth:`instrument`.

        Yields:
            The block: what it instrumented is in its ``builds``, what it left as it was, with the reason, in its
            ``left``. A warning behind the block names these.

        Raises:
            TraceError: for arguments that make no sense.
        """
        from .auto.block import Block

        try:
            pattern = re.compile(kernel)
        except (re.error, TypeError) as error:
            raise TraceError(f"auto: kernel must be a regular expression, got {kernel!r}: {error}") from None
        block = Block(self, level, launch, max_events, pattern, checked_ctas("auto", ctas))
        block.check()
        with block.open():
            yield block
        for name, reason in block.left.items():
            warn(f"auto: kernel {name!r} is left as it is: {reason}")
        if block.builds or block.left:
            return
        if block.passed:
            others = ", ".join(block.passed)
            warn(f"auto: no kernel was built whose name {kernel!r} is found in; {others} were passed over")
        else:
            warn(
                "auto: no kernel was built inside the block; those compiled before it are out of its reach: build them "
                "inside, or use trace.instrument"
            )

    # Running --------------------------------------------------------------------------------------------------------

    def run(self, compiled: Any, inputs: Sequence[Any], stem: str = "trace") -> Any:
        """Runs a compiled kernel; if it was built for tracing, writes its timeline too.

        That is its page, and beside it the recording (``stem.tltrace``), from which ``tileops trace export`` makes
        other formats.

        The kernel decides, not the switch: one built without tracing returns all its outputs untouched (and a
        warning says so while tracing is on), one built with it never returns ``slots``.

        While the current stream captures a CUDA graph nothing can be copied to the host: the launch is then kept for
        :meth:`flush`, with the memory of its ``slots``, and nothing is written.

        The size of ``slots`` is logged at level INFO by the logger ``tileops.trace`` before each launch that is
        dumped.

        Args:
            compiled: what the ``tilelang.jit`` factory returned.
            inputs: the kernel's arguments.
            stem: the name of the files in :attr:`output`, see :meth:`dump`. Of each stem the first launches are dumped,
                see :meth:`enable`.

        Returns:
            What the kernel returns untraced: a tensor for one output, a list for several.

        Raises:
            TraceError: before anything is allocated, if ``slots`` would not fit into the GPU's free memory; if the
                launch failed on the device; and as :meth:`dump` does.
        """
        table = launching.site_table(compiled)
        if table is None:
            if self._enabled:
                self._tell_once(f"untraced {stem}", f"the kernel run as {stem!r} was not built for tracing: build it "
                                "with traced=trace.enabled after trace.enable()")  # fmt: skip
            return compiled(*inputs)
        with launching.failed_launch_told(table.kernel):
            captured = launching.is_capturing()
        size = self._checked_size(compiled, inputs, table, stem, captured)
        launch = None if captured else self._launch_to_dump(stem)
        if launch is not None or captured:
            _log.info("%s: kernel %r records into %s", stem, table.kernel, capacity.human(size))
        try:
            with launching.failed_launch_told(table.kernel):
                produced = compiled(*inputs)
        except BaseException:
            if launch is not None:
                self._take_back(stem)
            raise
        outputs, slots = launching.parted(produced)
        if captured:
            self._pending.add(Launch(compiled, slots, stem))
        elif launch is not None:
            recording = self.fetch(compiled, slots)
            recording.meta["launch"] = launch
            self._write(recording, recording.decode(), stem)
        return outputs

    def flush(self, *, forget: bool = False) -> list[Path]:
        """Writes the timelines of the launches that :meth:`run` kept while a CUDA graph was captured.

        Each replay of the graph records into the same memory, so this writes what the newest one left; call it again
        after another replay. :meth:`enable`'s limits hold, each launch counting once a call.

        Args:
            forget: let go of the launches and of the memory of their ``slots``, also where an error is raised. The
                memory goes back to the graph's pool: the graph may be replayed, but another one that is captured into
                the same pool may then use that memory for something else.

        Returns:
            The paths written, without their suffixes.

        Raises:
            TraceError: after the other launches were written, if one cannot be: the graph was not replayed yet, the
                current stream is capturing, or a launch failed on the device.
        """
        launches = self._pending.all()
        written: list[Path] = []
        failures: list[TraceError] = []
        try:
            for launch in launches:
                number = self._launch_to_dump(launch.stem)
                if number is None:
                    continue
                try:
                    written.append(self._write(*launch.decode(self, number), launch.stem))
                except TraceError as failure:
                    self._take_back(launch.stem)
                    failures.append(failure)
        finally:
            if forget:
                self._pending.forget(launches)
        if failures:
            raise failures[0]
        return written

    def slots_bytes(self, compiled: Any, inputs: Sequence[Any]) -> int:
        """The size of the buffer ``slots`` that a launch with these inputs allocates, in bytes. Nothing is launched.

        It is what one CTA takes, a matter of ``max_events`` and of the groups, times the CTAs that record.

        Args:
            compiled: the kernel.
            inputs: its arguments, as for :meth:`run`.

        Raises:
            TraceError: if the kernel was not built for tracing, or the inputs do not give all sizes.
        """
        launching.traced_table(compiled)
        return capacity.slots_bytes(compiled, inputs)

    def perturbation(self, stripped: Any, traced: Any, inputs: Sequence[Any], rounds: int = 20) -> Perturbation:
        """Measures how much slower tracing makes a kernel, and remembers it for the kernel's later recordings.

        Both builds run in turn, see :func:`tileops.trace.perturbation.measure`. Everything that :meth:`fetch`,
        :meth:`decode` and :meth:`run` make of ``traced`` from then on has the result in its meta, and views show it.

        Args:
            stripped: the kernel, compiled without tracing.
            traced: the kernel, compiled with it, or a twin of it (:meth:`instrument`), whose ``plain`` is ``stripped``.
            inputs: the arguments of both. Kernels that change them do so many times.
            rounds: how often each build is timed.

        Returns:
            The ratio of the two times with its spread; as text, a sentence.

        Raises:
            TraceError: if the kernels are in the wrong order, a twin has no build that records, or ``rounds`` is no
                positive number.
        """
        from .auto.twin import FactoryTwin, Twin
        from .perturbation import check_rounds, measure

        check_rounds(rounds)
        for kernel in (stripped, traced):
            is_twin = isinstance(kernel, Twin)  # which compiles its kernel when asked for what it has not
            if isinstance(kernel, FactoryTwin) or (not is_twin and hasattr(kernel, "initialize_jit_mode")):
                raise TraceError("perturbation: call the function and its twin first, and pass what they return")
        if isinstance(stripped, Twin) or launching.site_table(stripped) is not None:
            raise TraceError(
                "perturbation: the first kernel was built for tracing: build it with traced=False, or pass a twin's "
                ".plain"
            )
        launch = traced
        if isinstance(traced, Twin):
            launch, traced = traced.launcher(inputs), traced.build
        table = launching.site_table(traced)
        if table is None:
            raise TraceError(
                "perturbation: the second kernel was not built for tracing: build it with traced=True, or pass a twin"
            )
        with launching.failed_launch_told(table.kernel):
            found = measure(stripped, launch, inputs, rounds)
        with self._lock:
            self._perturbations[traced] = found
        return found

    def decode(self, compiled: Any, slots: Any, *, compensate: bool = False, kernel: str = "") -> Timeline:
        """Decodes the ``slots`` that a traced kernel returned last. See :meth:`fetch` for what it waits for.

        Args:
            compiled: the kernel, or a twin of one.
            slots: (CTAs that record, words) int64 tensor, on any device.
            compensate: take what records cost out of all ranges, see
                :meth:`~tileops.trace.recording.Recording.decode`.
            kernel: as for :meth:`fetch`.

        Raises:
            TraceError: as :meth:`fetch` does; if ``slots`` holds no launch of this kernel; for ``compensate`` where
                the cost of a record could not be measured.
        """
        return self.fetch(compiled, slots, kernel).decode(compensate)

    def fetch(self, compiled: Any, slots: Any, kernel: str = "") -> Recording:
        """The launch as a :class:`~tileops.trace.recording.Recording`: on the host, not decoded, ready to save.

        On a GPU this waits for everything that was launched on the device, in any stream. The first call in a process
        also measures what a record costs there; the result is in the recording's ``meta["probe"]``: ``plain`` and
        ``payload`` (cycles) and ``device``, or ``error`` where it could not be measured.

        Args:
            compiled: the kernel, or a twin of one.
            slots: (CTAs that record, words) int64 tensor, on any device.
            kernel: which of its ``__global__`` functions these are of, by its name; where :meth:`instrument` found
                several.

        Raises:
            TraceError: if the kernel was not built for tracing, ``slots`` is not its own, the current stream is
                capturing a CUDA graph, or the launch failed on the device.
        """
        import torch

        from . import recording
        from .auto.twin import Twin

        if isinstance(compiled, Twin):
            compiled = compiled.build
        table = launching.traced_table(compiled, kernel)
        # PyTorch reports a launch that failed from whatever is the next call into CUDA, this one included.
        with launching.failed_launch_told(table.kernel):
            captured = launching.is_capturing()
        if captured:
            raise TraceError(
                "the current stream is capturing a CUDA graph, so that nothing has run yet: decode after a replay, "
                "or launch with trace.run and call trace.flush() after a replay"
            )
        with launching.failed_launch_told(table.kernel):
            if getattr(slots, "is_cuda", False):
                # The copy is ordered behind what runs in the current stream. The kernel may have run in another one,
                # and `slots` does not tell in which.
                torch.cuda.synchronize(slots.device)
            found = recording.fetch(slots, table, {})
        found.meta.update(launching.launch_meta(compiled, slots), probe=_probe_meta(found.table.target, slots))
        with self._lock:
            perturbation = self._perturbations.get(compiled)
        if perturbation is not None:
            found.meta["perturbation"] = asdict(perturbation)
        return found

    def dump(self, timeline: Timeline | Recording, compiled: Any = None, stem: str = "trace") -> Path:
        """Writes a Timeline's page to :attr:`output` under a name that is not taken yet; of a recording both.

        The folder's ``index.html`` is then made anew: all timelines in it, of earlier runs too, with their headline
        figures. An ``index.html`` that this method did not write is left as it is, and a warning says so.

        Args:
            timeline: what :meth:`decode` returned, or :meth:`fetch`.
            compiled: the kernel it came from.
            stem: the name; ``stem.html``, then ``stem-2.html`` and so on, and ``stem.tltrace`` for the recording. Where
                ``torchrun`` or another launcher set ``RANK``, ``stem-rank3.html``, then ``stem-rank3-2.html``.

        Returns:
            The path written, without its suffix.

        Raises:
            TraceError: if the stem is no file name, or the folder cannot be written to.
            OSError: if the page cannot be written.
        """
        if isinstance(timeline, Timeline):
            return self._dump(timeline, stem)
        return self._dump(timeline.decode(), stem, recording=timeline)

    def export_html(self, timeline: Timeline, path: str | Path, **options: Any) -> Path:
        """Writes the timeline as one self-contained page; see :func:`tileops.trace.export.html.export_html`."""
        from .export.html import export_html

        return export_html(timeline, path, **options)

    # ----------------------------------------------------------------------------------------------------------------

    def _traced(self, traced: bool | None) -> bool:
        if traced is not None and not isinstance(traced, (bool, np.bool_)):
            raise TraceError(f"traced must be True, False, or None for the switch, got {traced!r}")
        return self._enabled if traced is None else bool(traced)

    def _checked_size(
        self, compiled: Any, inputs: Sequence[Any], table: SiteTable, stem: str, captured: bool
    ) -> int | None:
        """The size of a launch's ``slots`` in bytes; None where the inputs are not what the kernel takes."""
        try:
            size = capacity.slots_bytes(compiled, inputs)
        except TraceError:
            return None  # the launch itself tells better what is wrong with the inputs
        # The pool of a graph being captured is not what is asked for here; the launch before it told.
        device = None if captured else capacity.cuda_device(inputs, table)
        if device is not None:
            capacity.check_fits(size, device, table)
        if size > capacity.LARGE:
            self._tell_once(f"large {stem}", f"{stem}: the trace buffer takes {capacity.human(size)}: if that is too "
                            f"much, {capacity.advice(table)}")  # fmt: skip
        return size

    def _dump(self, timeline: Timeline, stem: str, recording: Recording | None = None) -> Path:
        """Writes a Timeline's page, its recording and the index."""
        folder = Path(self._output)
        base = _claim(folder, stem)
        page = base.with_name(base.name + ".html")
        try:
            if recording is not None:
                recording.save(_beside(page))
            self.export_html(timeline, page, plotlyjs=self._plotlyjs)
        except BaseException:
            page.unlink(missing_ok=True)
            if recording is not None:
                _beside(page).unlink(missing_ok=True)
            raise
        with self._lock:
            self._written.append(base)
        from .export.html import write_index

        try:
            problem = "" if write_index(folder) else "it was not written by tileops, and is left as it is"
        except OSError as error:  # the timeline is written, and is what was asked for
            problem = f"it cannot be written: {error.strerror or error}"
        if problem:
            self._tell_once(f"index {folder}", f"no index of the timelines in {folder / INDEX}: {problem}")
        return base

    def write(self, fetch: Callable[[], Recording], stem: str) -> None:
        """Writes a launch that an instrumented kernel recorded, where :meth:`enable`'s limits let it.

        Args:
            fetch: gives its recording; called only if it is written.
            stem: the name of the files.
        """
        number = self._launch_to_dump(stem)
        if number is None:
            return
        try:
            found = fetch()
            found.meta.setdefault("launch", number)
            timeline = found.decode()
        except BaseException:
            self._take_back(stem)
            raise
        self._write(found, timeline, stem)

    def _write(self, recording: Recording, timeline: Timeline, stem: str) -> Path:
        """Dumps a launch and warns of what its page does not show."""
        base = self._dump(timeline, stem, recording=recording)
        for warning in _warnings(timeline, stem):
            warn(warning)
        return base

    def _take_back(self, stem: str) -> None:
        """Uncounts a launch that :meth:`_launch_to_dump` said to dump, and that was not."""
        with self._lock:
            self._launches[stem] -= 1
            self._dumped[stem] -= 1

    def _launch_to_dump(self, stem: str) -> int | None:
        """Counts a launch: its number among those of its stem, from 0; None if it is not to be dumped."""
        with self._lock:
            launch = self._launches[stem]
            self._launches[stem] += 1
            if launch % self._every:
                return None
            if self._dumps_per_stem is None or self._dumped[stem] < self._dumps_per_stem:
                self._dumped[stem] += 1
                return launch
        self._tell_once(f"stopped {stem}", f"dumped {self._dumps_per_stem} launches of {stem!r} and stops: "
                        "trace.enable(dumps=..., every=...) changes that")  # fmt: skip
        return None

    def _tell_once(self, key: str, text: str) -> None:
        """Warns once for each key."""
        with self._lock:
            if key in self._told:
                return
            self._told.add(key)
        warn(text)


trace = Trace()


def _negative_positions(count: int) -> Sequence[int]:
    return range(-count, 0)  # `range` inside the class would be its method


def _probe_meta(target: str, slots: Any) -> dict[str, Any]:
    """What a record costs on the device of ``slots``, as recordings keep it."""
    from .probe import probe_cost

    try:
        cost = probe_cost(target, str(slots.device))
    except TraceError as error:
        return {"error": str(error)}
    behind = {kind: list(cycles) for kind, cycles in cost.behind.items()}
    return {**asdict(cost), "behind": behind, "device": launching.device_name(slots)}


def check_stem(stem: str) -> None:
    """Refuses what is no file name.

    Raises:
        TraceError: saying what is.
    """
    if not isinstance(stem, str) or not _STEM.fullmatch(stem) or stem in (".", ".."):
        raise TraceError(f"stem must be a file name without folders, got {stem!r}")


def _claim(folder: Path, stem: str) -> Path:
    """Makes and thereby reserves the first file ``stem[-n].html`` that does not exist; also against other processes.

    Nor does ``stem[-n].tltrace`` then. Where processes have ranks, theirs stands behind the stem.
    """
    check_stem(stem)
    rank = launching.rank()
    if rank is not None:
        stem = f"{stem}-rank{rank}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            base = folder / (stem if number == 1 else f"{stem}-{number}")
            page = base.with_name(base.name + ".html")
            if page.name == INDEX or os.path.lexists(_beside(page)):  # the index's own place, or a recording's
                number += 1
                continue
            try:
                page.touch(exist_ok=False)
                return base
            except FileExistsError:
                number += 1
    except OSError as error:
        reason = f"{error.strerror}; see trace.enable(output=...)"
        raise TraceError(f"cannot write timelines to {folder}: {reason}") from error


def _beside(page: Path) -> Path:
    """Where the recording of a page lies."""
    return page.with_suffix(".tltrace")


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
