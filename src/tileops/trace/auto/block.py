"""Kernels that are built inside ``with trace.auto():``, traced without anybody touching them.

Such a kernel's PrimFunc is its author's, so there is no ``slots`` parameter. Its device code reads where to record from
two words of GPU memory, the control words, whose address is built into it. And its host code, which TileLang generates
as C, is made to call back before and after the launch; before, the control words get the address of fresh slots and
how many CTAs they have room for, after, they get zeros and the timeline is written. Such code is good in the process
that built it alone, so the kernel cache is off while the block is open.

What an autotuner tries keeps its device code, and so does a source of several kernels. When such a kernel is to be
recorded, it alone is built again, with recorder calls, and launched in the kernel's place.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import capacity, launching, recording
from ..choice import Choice
from ..errors import warn
from ..lowering import multiprocessors
from ..own_memory import in_own_memory
from ..placing import CALLBACK, placed_behind
from ..probe import is_compiling
from ..sites import markers_in, tables_in
from ..slots import WORD_BYTES
from . import host
from .building import callback_lock, chained
from .compilation import Compilation, current, watched
from .mixed import Markers, address, joined, markers_of, tensor_at
from .notes import is_meant
from .rewrite import instrument
from .syntax import UnreadableError, parse
from .twin import check_level, check_number

if TYPE_CHECKING:
    from ..choice import Ctas
    from ..namespace import Trace
    from ..recording import Recording
    from ..sites import SiteTable

HOST_CALLBACK = "tilelang_callback_c_host_postproc"
HOOK = "tileops.trace.auto"
DEFAULT_LAUNCH = 3  # the first ones load code and warm caches
# The memory of a launch's records. Of a launch that would take more, the first CTAs are recorded: a page of all its
# events would help nobody, and take longer than the script.
MOST_BYTES = 1 << 28
_RECORDER = "tileops_trace::"  # in every source that records
_numbers = itertools.count()
# A rebuild's source is for the rebuild alone: blocks that are open leave it as it is.
_rebuilding = threading.local()


@dataclass
class Recorder:
    """A kernel's code that records, for one GPU.

    Attributes:
        table: its site table.
        parameters: how many parameters the kernel has in C.
        behind: what a launch is given behind these, see :meth:`Compilation.launch`.
        control: the control words, a tensor of two int64 on the GPU.
        markers: those that the kernel's author placed.
        launch: what is launched in the kernel's place; ``None`` where the kernel itself records.
    """

    table: SiteTable
    parameters: int
    behind: tuple[str, ...]
    control: Any
    markers: Markers = field(default_factory=Markers)
    launch: Any = None


class Launch(NamedTuple):
    """A launch that records.

    Attributes:
        slots: where to.
        recorder: what records it.
        author_s: the address that its author's markers record to.
        thread: which thread launches it.
    """

    slots: Any
    recorder: Recorder
    author_s: int
    thread: int


@dataclass
class Build:
    """A kernel that was built inside a block.

    Attributes:
        name: the kernel's name in C.
        compilation: what it was built from.
        tuned: whether an autotuner built it, perhaps to try it only.
        recorders: what records it, by the GPU's number.
        launches: how often it was launched, but for what an autotuner does.
        hooked: whether its launches are seen.
        home: the number of the GPU that the kernel itself can record on; ``None`` where it does not record.
        recording: the launch that is under way, if it records.
        last: what the last launch recorded, until it is written.
        written: whether the launch that was asked for is.
        reason: why it cannot be recorded; empty where it can.
    """

    name: str
    compilation: Compilation
    tuned: bool = False
    recorders: dict[int, Recorder] = field(default_factory=dict)
    launches: int = 0
    hooked: bool = False
    home: int | None = None
    recording: Launch | None = None
    last: Recording | None = None
    written: bool = False
    reason: str = ""


@dataclass
class Block:
    """What one ``with trace.auto():`` block covers.

    Attributes:
        trace: what writes timelines.
        level, max_events: see :meth:`tileops.trace.namespace.Trace.instrument`.
        launch: which launch of a kernel to record, counted from 1.
        kernel: which kernels to instrument, by their names.
        ctas: which CTAs record.
        builds: those that were built.
        left: kernels that can't be recorded, with the reason.
        written: kernels of which a timeline was written.
        passed: kernels that were built and are not among those to instrument.
    """

    trace: Trace
    level: str = "ops"
    launch: int = DEFAULT_LAUNCH
    max_events: int | None = None
    kernel: re.Pattern[str] = field(default_factory=lambda: re.compile(""))
    ctas: Ctas = None
    builds: list[Build] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def open(self) -> Iterator[Block]:
        """Instruments what is built inside; leaving restores TileLang's callbacks and its cache.

        Of kernels that were launched, but not as often as was asked for, the last recorded launch is written then.
        """
        import tilelang
        import tvm_ffi
        from tilelang import env

        # Ctrl-C in a launch's callback would come out of the host code as a RuntimeError.
        tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
        cached = env.is_cache_enabled()
        with (
            placed_behind(), chained(CALLBACK, self._device) as device, chained(HOST_CALLBACK, self._host) as host_code,
            watched(self._other, (device, host_code)),
        ):  # fmt: skip
            if cached:
                tilelang.disable_cache()
            try:
                yield self
            finally:
                if cached:
                    tilelang.enable_cache()
                for build in self.builds:
                    if build.last is not None and not build.written:
                        self._guarded(self._write, build)()
        for build in self.builds:
            if build.reason:
                self.left[build.name] = build.reason

    def check(self) -> None:
        """Refuses what makes no sense.

        Raises:
            TraceError: saying what does.
        """
        check_level("auto", self.level)
        check_number("auto", "launch", self.launch)
        check_number("auto", "max_events", self.max_events, optional=True)

    # While building --------------------------------------------------------------------------------------------------

    def _device(self, source: str, previous: Any, target: Any) -> str:
        """TileLang's CUDA callback."""
        if previous is not None:
            source = str(previous(source, target))
        compilation = current()
        if is_compiling():
            return source
        # A twin's, or one that another block records.
        if is_meant(source) or tables_in(source) or (_RECORDER in source and markers_in(source) is None):
            return source
        if _is_rebuilding() or compilation is None or compilation.device is None:
            return source
        kernels = [*compilation.device.functions]
        for name in kernels:
            if self._is_chosen(name):
                build = self._build(name, compilation)
                if not compilation.device.compiles:
                    build.reason = "its launches can't be seen: its execution backend is not tvm_ffi"
                elif len(kernels) == 1 and not build.tuned and not build.reason:
                    source = self._recording(source, build)
        return source

    def _other(self, name: str, target: str) -> None:
        """Notes a kernel that is not for CUDA."""
        if not is_compiling() and self._is_chosen(name):
            self.left[name] = f"only CUDA kernels can be instrumented; its target is {target}"

    def _is_chosen(self, name: str) -> bool:
        """Whether to instrument a kernel of this name; notes it where not."""
        if self.kernel.search(name):
            return True
        if name not in self.passed:
            self.passed.append(name)
        return False

    def _recording(self, source: str, build: Build) -> str:
        """The source of a kernel that records itself; as it was, if it can't."""
        compilation = build.compilation
        if compilation.failure:
            build.reason, build.home, compilation.changed = compilation.failure, None, False
            build.recorders.clear()
            return source
        try:
            _check_gpu()
            device = _current_device()
            behind = compilation.launch(build.name)
            source, build.recorders[device] = self._instrumented(source, behind, _new_control(device))
            build.home, compilation.changed = device, True
        except Exception as reason:  # the author's kernel has to build, whatever this is
            build.reason = str(reason)
        return source

    def _build(self, name: str, compilation: Compilation) -> Build:
        """The Build of a compilation's kernel."""
        from tilelang import env

        if name not in compilation.builds:
            build = compilation.builds[name] = Build(name, compilation, tuned=_is_tuning())
            self.builds.append(build)
            if env.is_cache_enabled():  # which would keep code that is good in this process alone
                build.reason = "TileLang's kernel cache was turned on inside the block"
        return compilation.builds[name]

    def _instrumented(self, source: str, behind: tuple[str, ...], control: Any) -> tuple[str, Recorder]:
        kernel = parse(source)
        words = control_words(control.data_ptr())
        choice = None if self.ctas is None else Choice.of(self.ctas, lambda: multiprocessors("cuda"))
        made = instrument(
            source, f"{words}[0]", self.level, lines=f"{words}[1]", max_events=self.max_events, choice=choice
        )
        return made.source, Recorder(made.table, len(kernel.parameters), behind, control, markers_of(source, kernel))

    def _host(self, source: str, previous: Any, target: Any) -> str:
        """TileLang's callback for host code; kernels that are compiled together have theirs ahead of device code."""
        if previous is not None:
            source = str(previous(source, target))
        compilation = current()
        if compilation is None or is_compiling():
            return source
        names = host.launched(source)
        if compilation.device is None:
            for name in names:
                if self._is_chosen(name):
                    self._build(name, compilation)
        for name, build in compilation.builds.items():
            if name in names and not build.reason and not build.hooked:
                source = self._hooked(source, build, names.count(name))
        return source

    def _hooked(self, source: str, build: Build, count: int) -> str:
        if count != 1:
            build.reason = f"its host code launches it in {count} places; one can be followed"
            return source
        import tvm_ffi

        name = f"{HOOK}.{next(_numbers)}"
        tvm_ffi.register_global_func(f"{name}.before", f=self._guarded(self._before, build))
        tvm_ffi.register_global_func(f"{name}.after", f=self._guarded(self._after, build))
        build.hooked = True
        return host.hooked(source, build.name, name)

    # While running ---------------------------------------------------------------------------------------------------

    def _guarded(self, step: Callable[..., Any], build: Build) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            try:
                return step(build, arguments)
            except BaseException as error:
                _stop(build)
                if not isinstance(error, Exception):  # Ctrl-C, say, ends the launch
                    raise
                said = str(error) or type(error).__name__
                warn(f"kernel {build.name!r}: no timeline: {said}")
                return None  # the launch itself goes on

        return run

    def _before(self, build: Build, arguments: tuple[Any, ...]) -> Any:
        """Prepares a launch that is to be recorded; returns what to launch in the kernel's place, or ``None``."""
        if build.tuned and _is_tuning():
            return None
        if build.recording is not None and build.recording.thread == threading.get_ident():
            _stop(build)  # that launch failed
        build.launches += 1
        device = _current_device()
        wanted = (
            self._is_wanted(build) and not build.written and not build.reason and build.recording is None
            and not launching.is_capturing()
        )  # fmt: skip
        # Code that records reads control words of its own GPU: on another one it cannot run.
        if not wanted and build.home in (None, device):
            return None
        if device not in build.recorders:
            build.recorders[device] = self._rebuilt(build, device)
        recorder = build.recorders[device]
        if wanted:
            self._guarded(self._prepare, build)(recorder, arguments)
        return recorder.launch

    def _is_wanted(self, build: Build) -> bool:
        """Whether to record a launch: the one asked for, and the first ones, in case that one never comes."""
        return build.launches == self.launch or build.launches < min(self.launch, DEFAULT_LAUNCH)

    def _prepare(self, build: Build, given: tuple[Recorder, tuple[Any, ...]]) -> None:
        """Points a recorder to fresh slots."""
        import torch

        recorder, arguments = given
        ctas = host.ctas(arguments[recorder.parameters :], recorder.behind)
        table, markers, device = recorder.table, recorder.markers, recorder.control.device
        words = table.line_words - markers.table.line_words
        most = max(MOST_BYTES // (WORD_BYTES * words), 1)
        if table.choice == Choice() and not markers.table.groups and ctas > most:
            table = replace(table, choice=_first(most))
            recorder = replace(recorder, table=table)
        lines = capacity.lines(ctas, table)
        capacity.check_fits(WORD_BYTES * lines * table.line_words, device, table)
        author_s = address(arguments[markers.slots]) if markers.table.groups else 0
        slots = in_own_memory(device, lambda: torch.empty((lines, words), dtype=torch.int64, device=device))
        build.recording = Launch(slots, recorder, author_s, threading.get_ident())
        # A launch of another thread may read these words meanwhile: the address is good before there is room.
        for word, value in enumerate((slots.data_ptr(), lines)):
            recorder.control[word : word + 1].copy_(torch.tensor([value], dtype=torch.int64))
            torch.cuda.synchronize(device)

    def _rebuilt(self, build: Build, device: int) -> Recorder:
        """Builds a kernel's code that records and that takes its place."""
        made: list[Recorder] = []
        control = _new_control(device)

        def filled(source: str, previous: Any, target: Any) -> str:
            if previous is not None:
                source = str(previous(source, target))
            if not _is_rebuilding():
                return source
            source, recorder = self._instrumented(source, build.compilation.launch(build.name), control)
            made.append(recorder)
            return source

        try:
            assert build.compilation.device is not None
            with callback_lock, chained(CALLBACK, filled), _rebuilt_here():
                module = build.compilation.device.built(build.name)
            return replace(made[0], launch=module[build.name])
        except Exception as reason:
            build.reason = str(reason) or type(reason).__name__
            raise

    def _after(self, build: Build, _: tuple[Any, ...]) -> None:
        """Fetches what a launch recorded."""
        launch = build.recording
        if launch is None or launch.thread != threading.get_ident():
            return
        slots, recorder = launch.slots, launch.recorder
        with launching.failed_launch_told(build.name):
            _close(launch)
        build.recording = None
        if recorder.markers.table.groups:
            shape = len(slots), recorder.markers.table.line_words
            author_s = tensor_at(launch.author_s, shape, slots.device)
            slots = in_own_memory(slots.device, lambda: joined(author_s, launch.slots))
        arguments = build.compilation.arguments(build.name)
        meta = {**launching.host_meta(slots, arguments), "launch": build.launches - 1}
        build.last = recording.fetch(slots, recorder.table, meta)
        if build.launches == self.launch:
            build.written = True
            self._write(build)

    def _write(self, build: Build, _: tuple[Any, ...] = ()) -> None:
        """Writes what the last launch recorded."""
        last, build.last = build.last, None
        assert last is not None
        self.trace.write(lambda: last, build.name)
        self.written.append(build.name)


def _stop(build: Build) -> None:
    """Gives up a launch that was to be recorded; its slots may not be written to when they are freed."""
    launch, build.recording = build.recording, None
    if launch is not None:
        with contextlib.suppress(Exception):  # after a failed launch nothing works, and nothing records
            _close(launch)


def _close(launch: Launch) -> None:
    """Waits for a launch, and for those of other threads that found its slots as well."""
    import torch

    torch.cuda.synchronize(launch.slots.device)
    launch.recorder.control[1:].zero_()
    torch.cuda.synchronize(launch.slots.device)


def _first(ctas: int) -> Choice:
    """The first CTAs of a launch."""
    return Choice("stride", (0, ctas, 1))


def control_words(address: int) -> str:
    """The control words as device code reads them: the address of the slots, and how many CTAs these have room for."""
    return f"((const volatile unsigned long long*){address:#x}ull)"


def _check_gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        raise UnreadableError("there is no GPU here")


def _current_device() -> int:
    import torch

    return torch.cuda.current_device()


def _new_control(number: int) -> Any:
    import torch

    device = torch.device("cuda", number)
    return in_own_memory(device, lambda: torch.zeros(2, dtype=torch.int64, device=device))


def _is_tuning() -> bool:
    """Whether an autotuner builds or tries what is being built or launched.

    Functions that are autotuned are called and compiled through two methods of the autotuner's module as well.
    """
    frame: Any = sys._getframe()
    while frame is not None:
        module, function = str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
        if module.startswith("tilelang.autotuner") and function not in ("__call__", "compile"):
            return True
        frame = frame.f_back
    return False


def _is_rebuilding() -> bool:
    return getattr(_rebuilding, "on", False)


@contextlib.contextmanager
def _rebuilt_here() -> Iterator[None]:
    _rebuilding.on = True
    try:
        yield
    finally:
        _rebuilding.on = False
