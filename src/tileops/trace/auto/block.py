"""Kernels that are built inside ``with trace.auto():``, traced without anybody touching them.

Such a kernel's PrimFunc is its author's, so there is no ``slots`` parameter. Its device code reads where to record from
two words of GPU memory, the control words, whose address is built into it. And its host code, which TileLang generates
as C, is made to call back before and after the launch; before, the control words get the address of fresh slots and
how many CTAs they have room for, after, they get zeros and the timeline is written. Such code is good in the process
that built it alone, so the kernel cache is off while the block is open.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import capacity, launching, recording
from ..errors import TraceError, TraceWarning
from .building import CALLBACK, chained
from .operations import LEVELS
from .rewrite import instrument, is_placeholder
from .syntax import UnreadableError, parse

if TYPE_CHECKING:
    from ..namespace import Trace
    from ..sites import SiteTable

HOST_CALLBACK = "tilelang_callback_c_host_postproc"
HOOK = "tileops.trace.auto"
DEFAULT_LAUNCH = 3  # the first ones load code and warm caches
_CALL = re.compile(
    r"^([ \t]*)if \(TVMFFIFunctionCall\((\w+)_packed, \(TVMFFIAny\*\) (\w+), (\d+), &\w+\) != 0\) \{\n[^}]*\}\n", re.M
)
_numbers = itertools.count()


@dataclass
class Build:
    """An instrumented kernel of this process.

    Attributes:
        name: the kernel's name in C.
        table: its site table.
        parameters: how many parameters its device code has.
        dynamic: whether it uses dynamic shared memory.
        control: the control words, a tensor of two int64 on the GPU.
        launches: how often it was launched.
        hooked: whether its launches are seen.
        slots: where the launch that is under way records.
    """

    name: str
    table: SiteTable
    parameters: int
    dynamic: bool
    control: Any
    launches: int = 0
    hooked: bool = False
    slots: Any = None


@dataclass
class Block:
    """What one ``with trace.auto():`` block covers.

    Attributes:
        trace: what writes timelines.
        level, max_events: see :meth:`tileops.trace.namespace.Trace.instrument`.
        launch: which launch of a kernel to record, counted from 1.
        kernel: which kernels to instrument, by their names.
        builds: those that are.
        left: kernels that aren't, with the reason.
        written: kernels of which a timeline was written.
    """

    trace: Trace
    level: str = "ops"
    launch: int = DEFAULT_LAUNCH
    max_events: int | None = None
    kernel: re.Pattern[str] = field(default_factory=lambda: re.compile(""))
    builds: list[Build] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    _pending: threading.local = field(default_factory=threading.local)

    @contextlib.contextmanager
    def open(self) -> Iterator[Block]:
        """Instruments what is built inside; leaving restores TileLang's callbacks and its cache."""
        import tilelang
        from tilelang import env

        cached = env.is_cache_enabled()
        with chained(CALLBACK, self._device), chained(HOST_CALLBACK, self._host):
            if cached:
                tilelang.disable_cache()
            try:
                yield self
            finally:
                if cached:
                    tilelang.enable_cache()
        for build in self.builds:
            if not build.hooked:
                self.left[build.name] = "its launches can't be seen: its execution backend is not tvm_ffi"

    def check(self) -> None:
        """Refuses what makes no sense.

        Raises:
            TraceError: saying what does.
        """
        if self.level not in LEVELS:
            raise TraceError(f"auto: level must be one of {', '.join(map(repr, LEVELS))}, got {self.level!r}")
        if isinstance(self.launch, bool) or not isinstance(self.launch, int) or self.launch < 1:
            raise TraceError(f"auto: launch must be the number of a launch, 1 for the first, got {self.launch!r}")

    # While building --------------------------------------------------------------------------------------------------

    def _device(self, source: str, previous: Any, target: Any) -> str:
        """TileLang's CUDA callback."""
        if previous is not None:
            source = str(previous(source, target))
        self._pending.build = None
        name = ""
        try:
            kernel = parse(source)
            name = kernel.name
            if is_placeholder(source) or "tileops_trace::" in source or not self.kernel.search(name):
                return source  # its author's markers, or a twin's, are enough
            if _is_tuning():
                raise UnreadableError("an autotuner tries it: instrument what it chooses, with trace.instrument")
            control = _new_control()
            words = control_words(control.data_ptr())
            made = instrument(source, f"{words}[0]", self.level, lines=f"{words}[1]", max_events=self.max_events)
            dynamic = "extern __shared__" in source
            build = Build(name, made.table, len(kernel.parameters), dynamic, control)
        except Exception as reason:  # the author's kernel has to build, whatever this is
            self.left[name or "a kernel"] = str(reason)
            return source
        self.builds.append(build)
        self._pending.build = build
        return made.source

    def _host(self, source: str, previous: Any, target: Any) -> str:
        """TileLang's callback for host code; that of a kernel follows its device code, in the same thread."""
        if previous is not None:
            source = str(previous(source, target))
        build: Build | None = getattr(self._pending, "build", None)
        self._pending.build = None
        return source if build is None else self._hooked(source, build)

    def _hooked(self, source: str, build: Build) -> str:
        found = [call for call in _CALL.finditer(source) if call[2] == build.name]
        if len(found) != 1:
            self.left[build.name] = f"its host code launches it {len(found)} times; one launch can be followed"
            return source
        import tvm_ffi

        name = f"{HOOK}.{next(_numbers)}"
        tvm_ffi.register_global_func(f"{name}.before", f=self._guarded(self._before, build))
        tvm_ffi.register_global_func(f"{name}.after", f=self._guarded(self._after, build))
        build.hooked = True
        call = found[0]
        before = _host_call(call[1], f"{name}.before", call[3], call[4])
        after = _host_call(call[1], f"{name}.after", call[3], "0")
        return source[: call.start()] + before + call[0] + after + source[call.end() :]

    # While running ---------------------------------------------------------------------------------------------------

    def _guarded(self, step: Callable[..., None], build: Build) -> Callable[..., None]:
        def run(*arguments: Any) -> None:
            try:
                step(build, arguments)
            except Exception as error:  # the launch itself goes on
                build.slots = None
                warnings.warn(f"kernel {build.name!r}: no timeline: {error}", TraceWarning, stacklevel=2)

        return run

    def _before(self, build: Build, arguments: tuple[Any, ...]) -> None:
        import torch

        build.launches += 1
        if build.launches != self.launch or launching.is_capturing():
            return
        ctas = _ctas(arguments[build.parameters :], build.dynamic)
        device = build.control.device
        words = build.table.line_words
        capacity.check_fits(ctas * words * 8, device, build.table)
        build.slots = torch.empty((ctas, words), dtype=torch.int64, device=device)
        build.control.copy_(torch.tensor([build.slots.data_ptr(), ctas], dtype=torch.int64))
        torch.cuda.synchronize(device)

    def _after(self, build: Build, _: tuple[Any, ...]) -> None:
        import torch

        slots, build.slots = build.slots, None
        if slots is None:
            return
        with launching.failed_launch_told(build.name):
            torch.cuda.synchronize(slots.device)
            build.control.zero_()
        meta = {**launching.host_meta(slots), "launch": build.launches - 1}
        self.trace.write(lambda: recording.fetch(slots, build.table, meta), build.name)
        self.written.append(build.name)


def control_words(address: int) -> str:
    """The control words as device code reads them: the address of the slots, and how many CTAs these have room for."""
    return f"((const volatile unsigned long long*){address:#x}ull)"


def _new_control() -> Any:
    import torch

    if not torch.cuda.is_available():
        raise UnreadableError("there is no GPU here")
    return torch.zeros(2, dtype=torch.int64, device="cuda")


def _ctas(launch: tuple[Any, ...], dynamic: bool) -> int:
    """The grid's size, of what a launch is given behind the kernel's parameters.

    That is a cluster's three extents, where there are clusters, one to three of the grid, three of the block, and the
    bytes of dynamic shared memory, where there is any.
    """
    extents = [int(value) for value in launch][: len(launch) - 3 - dynamic]
    if len(extents) > 3:
        extents = extents[3:]
    if not 1 <= len(extents) <= 3 or min(extents) < 1:
        raise TraceError(f"its launch has parameters that are not known: {launch}")
    return math.prod(extents)


def _host_call(indent: str, name: str, stack: str, count: str) -> str:
    lines = [
        "{",
        "  void* tileops_hook = NULL;",
        "  TVMFFIAny tileops_result;",
        "  tileops_result.type_index = kTVMFFINone;",
        "  tileops_result.zero_padding = 0;",
        "  tileops_result.v_int64 = 0;",
        f'  if (TVMBackendGetFuncFromEnv(__tvm_ffi__library_ctx, "{name}", &tileops_hook) == 0) {{',
        f"    TVMFFIFunctionCall(tileops_hook, (TVMFFIAny*) {stack}, {count}, &tileops_result);",
        "  }",
        "}",
    ]
    return "".join(f"{indent}{line}\n" for line in lines)


def _is_tuning() -> bool:
    """Whether an autotuner builds what is being built."""
    frame: Any = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("tilelang.autotuner"):
            return True
        frame = frame.f_back
    return False
