"""Instrumented twins: what :meth:`tileops.trace.namespace.Trace.instrument` returns.

A twin is built beside its kernel and leaves it alone. Called, it runs the build that records, writes the launch's
timeline and returns what the kernel returns. What it cannot handle it says once, with the reason, and then runs the
kernel itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from .. import capacity, launching
from ..choice import Choice, checked_ctas
from ..errors import TraceError, warn
from ..own_memory import in_own_memory
from ..sites import ATTRIBUTE, SiteTable, tables_in
from .building import grids, instrumenting, with_slots
from .compilation import first_error
from .mixed import NO_MARKERS, joined
from .notes import refusals_in
from .operations import LEVELS
from .syntax import UnreadableError

if TYPE_CHECKING:
    from ..choice import Ctas
    from ..namespace import Trace

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
        ctas: which CTAs record; ``None`` for all of them, or those that the kernel's own markers record.
    """

    level: str = "ops"
    launch: int | None = None
    max_events: int | None = None
    stem: str = ""
    ctas: Ctas = None

    def check(self) -> None:
        """Refuses what makes no sense.

        Raises:
            TraceError: saying what does.
        """
        checked_ctas("instrument", self.ctas)
        check_level("instrument", self.level)
        check_number("instrument", "launch", self.launch, optional=True)
        check_number("instrument", "max_events", self.max_events, optional=True)
        if self.stem != "":
            from ..namespace import check_stem

            check_stem(self.stem)


def check_level(said_by: str, level: Any) -> None:
    """Refuses what is no level.

    Raises:
        TraceError: saying what is.
    """
    if level not in LEVELS:
        raise TraceError(f"{said_by}: level must be one of {', '.join(map(repr, LEVELS))}, got {level!r}")


def check_number(said_by: str, name: str, value: Any, optional: bool = False) -> None:
    """Refuses what is no number of at least 1.

    Raises:
        TraceError: naming the argument.
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TraceError(
            f"{said_by}: {name} must be a number of at least 1{', or None' if optional else ''}, got {value!r}"
        )


def twin_of(trace: Trace, kernel: Any, settings: Settings, options: Mapping[str, Any]) -> Any:
    """The instrumented twin of what people have in hand.

    Raises:
        TraceError: if it is nothing that TileLang compiles, or compile options come with what has its own.
    """
    settings.check()
    if isinstance(kernel, (Twin, FactoryTwin)):
        raise TraceError("instrument: this is an instrumented twin already")
    if hasattr(kernel, "params") and hasattr(kernel, "buffer_map"):  # a PrimFunc
        unknown = [name for name in options if name not in ("out_idx", *COMPILE_OPTIONS)]
        if unknown:
            raise TraceError(
                f"instrument: {', '.join(unknown)}: neither instrument nor tilelang.compile takes such an argument"
            )
        return _of_function(trace, kernel, settings, options)
    if options:
        raise TraceError(
            f"instrument: {', '.join(options)}: leave it out; only a PrimFunc takes arguments of tilelang.compile"
        )
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
        left: of a kernel that is several ``__global__`` functions, those that do not record, with the reasons.
        tables: what those that do record, by their numbers in the order in which they are launched.
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

        Raises:
            TraceError: if none of the CTAs that are to record is in the grid, where its size is known.
        """
        self.prim_func = func
        self.settings = settings
        self.reason = ""
        self.left: dict[str, str] = {}
        self.tables: dict[int, SiteTable] = {}
        self.compiled: Any = None
        self._trace = trace
        self._make_plain = plain
        self._launches = 0
        self._told = False
        try:
            self.compiled = _built(func, settings, out_idx, options)
            source = self.compiled.get_kernel_source()
            self.left, self.tables = refusals_in(source), tables_in(source)
            if not self.tables:
                missing = "TileLang did not call its CUDA post-processing callback for this target"
                raise UnreadableError(next(iter(self.left.values()), missing))
        except Exception as error:  # whatever the compilers say: the kernel itself has to run on
            self.reason = first_error(error)
        if self.reason:
            self.compiled = None
        self._check_choice()

    def __getattr__(self, name: str) -> Any:
        """Whatever else a compiled kernel has, the kernel itself answers."""
        if name.startswith("_") or name == "plain":
            raise AttributeError(name)
        return getattr(self.plain, name)

    def _check_choice(self) -> None:
        for number, extents in enumerate(grids(self.prim_func)):
            sizes = [int(extent) for extent in extents if hasattr(extent, "__int__")]
            if number in self.tables and len(sizes) == len(extents):
                capacity.lines(math.prod(sizes), self.tables[number])

    @cached_property
    def plain(self) -> Any:
        """The kernel itself, compiled."""
        return self._make_plain()

    @property
    def build(self) -> Any:
        """The build that records.

        Raises:
            TraceError: if there is none.
        """
        if self.compiled is None:
            raise TraceError(f"kernel {self.name!r} has no build that records: {self.reason}")
        return self.compiled

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str((self.prim_func.attrs or {}).get("global_symbol", "kernel"))

    @property
    def table(self) -> SiteTable | None:
        """What the build records, or its first ``__global__`` function; ``None`` where there is no such build."""
        return next(iter(self.tables.values()), None)

    def __call__(self, *inputs: Any) -> Any:
        """Runs the kernel, writes its timeline or timelines, and returns what it returns."""
        self._launches += 1
        self._tell()
        if self.compiled is None:
            return self._run_plain(inputs)
        if self.settings.launch not in (None, self._launches) or launching.is_capturing():
            return self._run_plain(inputs)
        produced, found = self.record(*inputs)
        for kernel, slots in found.items() if isinstance(found, dict) else [("", found)]:
            self._write(kernel, slots)
        return produced

    def _run_plain(self, inputs: tuple[Any, ...]) -> Any:
        """Runs the kernel itself; nobody gets to see what its own markers record."""
        produced = self.plain(*inputs)
        return launching.parted(produced)[0] if launching.returns_slots(self.plain) else produced

    def record(self, *inputs: Any) -> tuple[Any, Any]:
        """Runs the build that records and writes nothing.

        Returns:
            What the kernel returns, and the launch's slots, for ``trace.decode(twin.compiled, slots)``. Of a kernel
            that is several ``__global__`` functions these are a dictionary, by the names of those that record: for
            ``trace.decode(twin.compiled, slots[name], kernel=name)``.

        Raises:
            TraceError: if there is no such build.
        """
        slots = self._slots(inputs)
        with launching.failed_launch_told(self.name):
            produced = self.compiled(*inputs, *(one.view(-1) for one in slots))
            if self._markers.groups:
                produced, own = launching.parted(produced)
                found = slots[0]
                slots = [in_own_memory(found.device, lambda: joined(own, found))]
        if len(slots) == 1:
            return produced, slots[0]
        return produced, {table.kernel: slots[number] for number, table in self.tables.items()}

    def launcher(self, inputs: Sequence[Any]) -> Callable[..., Any]:
        """What launches the build that records, with such inputs, time and again into the same slots.

        Raises:
            TraceError: if there is no such build.
        """
        slots = [one.view(-1) for one in self._slots(tuple(inputs))]
        return lambda *given: self.compiled(*given, *slots)

    @cached_property
    def _markers(self) -> SiteTable:
        """What its author's markers record; an empty table where there are none."""
        text = (self.compiled.prim_func.attrs or {}).get(ATTRIBUTE)
        return NO_MARKERS if text is None else SiteTable.from_json(str(text))

    def _slots(self, inputs: tuple[Any, ...]) -> list[Any]:
        """Memory for a launch's records: of each kernel that records, a line for each CTA that does.

        Raises:
            TraceError: if none does.
        """
        import torch

        build, sizes = self.build, []
        words = 0
        for number, extents in enumerate(grids(self.prim_func)):
            table = self.tables.get(number)
            if table is None:
                sizes.append((1, 1))
                continue
            lines = capacity.lines(math.prod(capacity.evaluated(build, inputs, extents)), table)
            sizes.append((lines, table.line_words - self._markers.line_words))
            # The author's markers have slots of their own, and both are joined then.
            words += lines * table.line_words * (2 if self._markers.groups else 1)
        first = next(iter(self.tables.values()))
        device = capacity.cuda_device(inputs, first)
        capacity.check_fits(words * 8, device, first)
        return [in_own_memory(device, partial(torch.empty, size, dtype=torch.int64, device=device)) for size in sizes]

    def _write(self, kernel: str, slots: Any) -> None:
        """Writes a timeline; ``kernel`` names the ``__global__`` function where there are several."""
        stem = self.settings.stem
        stem = f"{stem}.{kernel}" if stem and kernel else stem or kernel or self.name
        self._trace.write(lambda: self._trace.fetch(self.compiled, slots, kernel), stem)

    def _tell(self) -> None:
        """Says once what does not record, and why."""
        if self._told:
            return
        if self.reason:
            _ = self.plain  # what does not compile without recorder calls either is for TileLang to tell
            texts = [f"kernel {self.name!r} runs as it is, without a timeline: {self.reason}"]
        else:
            texts = [f"kernel {name!r} runs as it is, without a timeline: {why}" for name, why in self.left.items()]
        self._told = True
        for text in texts:
            warn(text)


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
                func, options = jit.get_tir(*args, **kwargs), {name: getattr(jit, name) for name in COMPILE_OPTIONS}
                if _has_markers(func):  # the function itself does not compile then
                    options["out_idx"] = jit.out_idx
                    self._twins[key] = _of_function(self._trace, func, self._settings, options)
                else:
                    self._twins[key] = Twin(
                        self._trace, func, lambda: jit.compile(*args, **kwargs), self._settings, jit.out_idx, options
                    )
            twin = self._twins[key]
        return twin(*inputs.values()) if mode == "eager" else twin


def _of_function(trace: Trace, func: Any, settings: Settings, options: Mapping[str, Any]) -> Twin:
    import tilelang
    from tilelang import tvm

    from ..namespace import DEFAULT_MAX_EVENTS

    others = {name: value for name, value in options.items() if name != "out_idx"}
    marked = plain = func
    if _has_markers(func):
        with tvm.target.Target({"kind": "cuda", "arch": "sm_90a"}):  # lowering asks for the kind alone
            marked = trace.lower(func, settings.max_events or DEFAULT_MAX_EVENTS, ctas=settings.ctas)
        plain = trace.strip(func)
    out_idx = _outputs(plain, options.get("out_idx"))
    own = {**options, "out_idx": out_idx} if ATTRIBUTE in (plain.attrs or {}) else options
    return Twin(trace, marked, lambda: tilelang.compile(plain, **own), settings, out_idx, others)


def _of_compiled(trace: Trace, kernel: Any, settings: Settings) -> Twin:
    options = {name: getattr(kernel, name) for name in COMPILE_OPTIONS if name != "verbose"}
    return Twin(trace, kernel.prim_func, lambda: kernel, settings, list(kernel.out_idx or ()) or None, options)


def _has_markers(func: Any) -> bool:
    """Whether a PrimFunc holds markers that nothing has been made of yet."""
    from tilelang import tvm

    from ..markers import Marker

    found: list[bool] = []
    tvm.tirx.stmt_functor.post_order_visit(func.body, lambda node: found.append(Marker.of(node) is not None))
    return any(found)


def _outputs(func: Any, out_idx: Any) -> list[int] | None:
    """The positions of a PrimFunc's outputs: those that are asked for, and its ``slots``.

    Raises:
        TraceError: if there is no such parameter.
    """
    attrs = func.attrs or {}
    if out_idx is None and "tilelang_out_idx" in attrs:  # eager style: the outputs are in the PrimFunc
        out_idx = [int(position) for position in attrs["tilelang_out_idx"]]
    positions = [] if out_idx is None else list(out_idx) if isinstance(out_idx, (list, tuple)) else [out_idx]
    count = len(func.params)
    for position in positions:
        is_number = hasattr(position, "__index__") and not isinstance(position, bool)  # NumPy's integers too
        if not is_number or not -count <= position < count:
            name = str(attrs.get("global_symbol", "kernel"))
            raise TraceError(
                f"instrument: out_idx: {position!r} is no position of kernel {name!r}, which has {count} parameters"
            )
    if ATTRIBUTE in attrs:
        positions.append(count - 1)
    return [*dict.fromkeys(int(position) % count for position in positions)] or None


def _built(func: Any, settings: Settings, out_idx: Any, options: Mapping[str, Any]) -> Any:
    import tilelang

    from ..lowering import multiprocessors

    target = options.get("target")
    kind = str(getattr(target, "kind", target))
    if target is not None and kind != "auto" and "cuda" not in kind:
        raise UnreadableError(f"only CUDA kernels can be instrumented; its target is {kind}")
    out_idx = _outputs(func, out_idx)
    if "tilelang_out_idx" in (func.attrs or {}):
        func = func.without_attr("tilelang_out_idx")
    choice = None if settings.ctas is None else Choice.of(settings.ctas, lambda: multiprocessors("cuda"))
    made = with_slots(func, settings.level, settings.max_events, choice)
    with instrumenting(settings.level, settings.max_events, choice):
        return tilelang.compile(made, out_idx=out_idx, **options)
