"""Instrumented twins: what :meth:`tileops.trace.namespace.Trace.instrument` returns.

A twin is built beside its kernel and leaves it alone. Called, it runs the build that records, writes the launch's
timeline and returns what the kernel returns. What it cannot handle it says once, with the reason, and then runs the
kernel itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .. import capacity, launching
from ..errors import TraceError, TraceWarning
from ..sites import ATTRIBUTE, table_in
from .building import grid, instrumenting, with_slots
from .operations import LEVELS
from .rewrite import refusal_in
from .syntax import UnreadableError

if TYPE_CHECKING:
    from ..namespace import Trace
    from ..sites import SiteTable

COMPILE_OPTIONS = ("execution_backend", "target", "target_host", "verbose", "pass_configs", "compile_flags")


@dataclass(frozen=True)
class Settings:
    """How to instrument.

    Attributes:
        level: ``"roles"``, ``"ops"`` or ``"all"``.
        launch: the one launch of a kernel to record, counted from 1; ``None`` records them as
            :meth:`~tileops.trace.namespace.Trace.run` does.
        max_events: records that a row can hold; ``None`` follows the source.
        stem: the name of the files; empty for the kernel's.
    """

    level: str = "ops"
    launch: int | None = None
    max_events: int | None = None
    stem: str = ""

    def check(self) -> None:
        """Refuses what makes no sense.

        Raises:
            TraceError: saying what does.
        """
        if self.level not in LEVELS:
            raise TraceError(f"instrument: level must be one of {', '.join(map(repr, LEVELS))}, got {self.level!r}")
        for name, value in (("launch", self.launch), ("max_events", self.max_events)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise TraceError(f"instrument: {name} must be a number of at least 1, or None, got {value!r}")


def twin_of(trace: Trace, kernel: Any, settings: Settings, options: Mapping[str, Any]) -> Any:
    """The instrumented twin of what people have in hand.

    Raises:
        TraceError: if it is nothing that TileLang compiles, or compile options come with what has its own.
    """
    settings.check()
    if isinstance(kernel, (Twin, FactoryTwin)):
        raise TraceError("instrument: this is an instrumented twin already")
    if hasattr(kernel, "params") and hasattr(kernel, "buffer_map"):  # a PrimFunc
        return _of_function(trace, kernel, settings, options)
    if options:
        raise TraceError(f"instrument: {', '.join(options)}: only a PrimFunc takes compile options; this has its own")
    if hasattr(kernel, "prim_func") and hasattr(kernel, "adapter"):
        return _of_compiled(trace, kernel, settings)
    if hasattr(kernel, "jit_impl") or (hasattr(kernel, "get_tir") and hasattr(kernel, "initialize_jit_mode")):
        return FactoryTwin(trace, kernel, settings)
    raise TraceError(
        f"instrument: expected a tilelang.jit function, a compiled kernel or a PrimFunc, got {type(kernel).__name__}"
    )


class Twin:
    """A kernel and the build of it that records.

    Attributes:
        reason: why there is no such build; empty where there is.
    """

    def __init__(
        self,
        trace: Trace,
        func: Any,
        plain: Callable[[], Any],
        settings: Settings,
        out_idx: Any,
        options: Mapping[str, Any],
    ):
        """Builds the twin.

        Args:
            trace: what writes timelines.
            func: the kernel's PrimFunc.
            plain: compiles the kernel itself, or returns it.
            settings: how to instrument.
            out_idx: positions of the kernel's outputs, as ``tilelang.compile`` takes them.
            options: further arguments of ``tilelang.compile``.
        """
        self.prim_func = func
        self.settings = settings
        self.reason = ""
        self.compiled: Any = None
        self._trace = trace
        self._make_plain = plain
        self._launches = 0
        self._told = False
        try:
            self.compiled = _built(func, settings, out_idx, options)
            self.reason = refusal_in(self.compiled.get_kernel_source())
            if not self.reason and self.table is None:
                raise UnreadableError("TileLang did not call its CUDA post-processing callback for this target")
        except Exception as error:  # whatever the compilers say: the kernel itself has to run on
            self.reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if self.reason:
            self.compiled = self.table = None

    def __getattr__(self, name: str) -> Any:
        """Whatever else a compiled kernel has, the kernel itself answers."""
        if name.startswith("_") or name == "plain":
            raise AttributeError(name)
        return getattr(self.plain, name)

    @cached_property
    def plain(self) -> Any:
        """The kernel itself, compiled."""
        return self._make_plain()

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str((self.prim_func.attrs or {}).get("global_symbol", "kernel"))

    @cached_property
    def table(self) -> SiteTable | None:
        """What the build records; ``None`` where there is no such build."""
        return None if self.compiled is None else table_in(self.compiled.get_kernel_source())

    def __call__(self, *inputs: Any) -> Any:
        """Runs the kernel, writes its timeline, and returns what it returns."""
        self._launches += 1
        if self.compiled is None:
            self._tell()
            return self.plain(*inputs)
        if self.settings.launch not in (None, self._launches) or launching.is_capturing():
            return self.plain(*inputs)
        produced, slots = self.record(*inputs)
        self._trace.write(lambda: self._trace.fetch(self.compiled, slots), self.settings.stem or self.name)
        return produced

    def record(self, *inputs: Any) -> tuple[Any, Any]:
        """Runs the build that records and writes nothing.

        Returns:
            What the kernel returns, and the launch's slots, for ``trace.decode(twin.compiled, slots)``.

        Raises:
            TraceError: if there is no such build.
        """
        table = self.table
        if table is None:
            raise TraceError(f"kernel {self.name!r} has no build that records: {self.reason}")
        slots = self._slots(inputs, table)
        with launching.failed_launch_told(self.name):
            return self.compiled(*inputs, slots.view(-1)), slots

    def _slots(self, inputs: tuple[Any, ...], table: SiteTable) -> Any:
        """Memory for a launch's records: a line for each CTA of its grid."""
        import torch

        ctas = capacity.evaluated(self.compiled, inputs, grid(self.prim_func))
        lines = ctas[0] * ctas[1] * ctas[2]
        device = capacity.cuda_device(inputs, table)
        capacity.check_fits(lines * table.line_words * 8, device, table)
        return torch.empty((lines, table.line_words), dtype=torch.int64, device=device)

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            warnings.warn(f"kernel {self.name!r} runs as it is, without a timeline: {self.reason}", TraceWarning,
                          stacklevel=3)  # fmt: skip


class FactoryTwin:
    """The twin of a ``tilelang.jit`` function, or of one that is autotuned.

    Called as the function is called. In lazy style it returns the twin of the compiled kernel, in eager style it runs
    it. An autotuner's candidates are built as ever; the one that it chose is instrumented.
    """

    def __init__(self, trace: Trace, factory: Any, settings: Settings):
        self._trace = trace
        self._factory = factory
        self._settings = settings
        self._twins: dict[Any, Twin] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Builds the twin for these arguments, once, and in eager style runs it."""
        jit = getattr(self._factory, "jit_impl", self._factory)
        mode = jit.initialize_jit_mode(*args, **kwargs)
        if jit is not self._factory:
            kernel = self._factory.compile(*args, **kwargs)  # tunes; kept by the tuner for the same arguments
            if id(kernel) not in self._twins:
                self._twins[id(kernel)] = _of_compiled(self._trace, kernel, self._settings)
            twin = self._twins[id(kernel)]
            tuned = {**kwargs, **(kernel.config or {})}
            inputs = jit.func.parse_args(*args, **tuned)[1] if mode == "eager" else {}
        else:
            key, inputs = jit.func.parse_args(*args, **kwargs)
            if key not in self._twins:
                options = {name: getattr(jit, name) for name in COMPILE_OPTIONS}
                self._twins[key] = Twin(
                    self._trace, jit.get_tir(*args, **kwargs), lambda: jit.compile(*args, **kwargs), self._settings,
                    jit.out_idx, options,
                )  # fmt: skip
            twin = self._twins[key]
        return twin(*inputs.values()) if mode == "eager" else twin


def _of_function(trace: Trace, func: Any, settings: Settings, options: Mapping[str, Any]) -> Twin:
    import tilelang

    out_idx = options.get("out_idx")
    others = {name: value for name, value in options.items() if name != "out_idx"}
    return Twin(trace, func, lambda: tilelang.compile(func, **options), settings, out_idx, others)


def _of_compiled(trace: Trace, kernel: Any, settings: Settings) -> Twin:
    options = {name: getattr(kernel, name) for name in COMPILE_OPTIONS if name != "verbose"}
    return Twin(trace, kernel.prim_func, lambda: kernel, settings, list(kernel.out_idx or ()) or None, options)


def _built(func: Any, settings: Settings, out_idx: Any, options: Mapping[str, Any]) -> Any:
    import tilelang

    if ATTRIBUTE in (func.attrs or {}):
        raise UnreadableError("it was built with markers: run it with trace.run")
    target = options.get("target")
    kind = str(getattr(target, "kind", target))
    if target is not None and kind != "auto" and "cuda" not in kind:
        raise UnreadableError(f"only CUDA kernels can be instrumented; its target is {kind}")
    attrs = func.attrs or {}
    if out_idx is None and "tilelang_out_idx" in attrs:  # eager style: the outputs are in the PrimFunc
        out_idx = [int(position) for position in attrs["tilelang_out_idx"]]
    if "tilelang_out_idx" in attrs:
        func = func.without_attr("tilelang_out_idx")
    if out_idx is not None:
        positions = [out_idx] if isinstance(out_idx, int) else list(out_idx)
        out_idx = [position % len(func.params) for position in positions]
    made = with_slots(func, settings.level, settings.max_events)
    with instrumenting(settings.level, settings.max_events):
        return tilelang.compile(made, out_idx=out_idx, **options)
