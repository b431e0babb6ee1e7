"""One compilation of TileLang's: what it compiles, which its callbacks for generated code are not told."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tilelang.instrumentation as instrumentation
from tilelang import tvm

from ..launching import tensors
from .building import Chained

_GENERATES = "target.build.tilelang_"  # ahead of a target, in the name of what generates code for it
_HOST = f"{_GENERATES}c_host"
_CUDA = f"{_GENERATES}cuda"  # generates CUDA source and compiles it, as the tvm_ffi backend does
_NOT_COMPILED = "_without_compile"  # behind it, where another one compiles what it generates
_LAUNCH = "tirx.kernel_launch_params"  # TVM's attribute of a device function
_KERNEL = "_kernel"  # what TileLang appends to a PrimFunc's name
_NVCC_SAYS = "\nCompilation error:\n"
_TELLS = re.compile(r"\b(error|fatal)\b[^:]*:")
_OF_SOURCE = (";", "{", "}")  # how lines of a source end
_LONGEST = 500  # some errors begin with the compiler's whole command
_numbers = itertools.count()


@dataclass(frozen=True)
class DeviceCode:
    """What CUDA source is generated from.

    Attributes:
        functions: the device functions and their variables, by their names in C.
        attributes: those of the module that holds them.
        target: what for.
        options: those of the pass context.
        compiles: whether the source is compiled there and then, as it is where TileLang's host code launches it.
    """

    functions: dict[str, tuple[Any, Any]]
    attributes: Any
    target: Any
    options: Any
    compiles: bool

    def built(self, kernel: str) -> Any:
        """Generates and compiles one of its kernels again; returns the module that holds it alone."""
        variable, func = self.functions[kernel]
        module = tvm.IRModule({variable: func}, attrs=self.attributes)
        with tvm.transform.PassContext(opt_level=3, config=self.options), self.target:
            return tvm.ffi.get_global_func(_CUDA)(module, self.target)


def _unheard(name: str, target: str) -> None:
    """For whoever does not ask about kernels for other targets."""


@dataclass(eq=False)
class Compilation(instrumentation.PassInstrumentationTool):  # type: ignore[misc]
    """What is known of a compilation that is under way.

    Attributes:
        device: what its device code is generated from, once that is known.
        builds: what is made of its kernels, by their names in C.
        changed: whether the source that was generated last is not TileLang's own.
        failure: what compiling such a source said, where it failed.
        told: called with the name of each kernel that is not for CUDA, and what it is for.
        callbacks: those that what is generated has to go through.
    """

    device: DeviceCode | None = None
    builds: dict[str, Any] = field(default_factory=dict)
    changed: bool = False
    failure: str = ""
    told: Callable[[str, str], None] = _unheard
    callbacks: tuple[Chained, ...] = ()
    _tensors: dict[str, str] = field(default_factory=dict)

    def create_pass_instrument(self) -> object:
        """Watches the passes, for the PrimFuncs that they begin with."""
        return _Reader(self._tensors)

    def run_codegen(self, event: Any, next_call: Any) -> Any:
        """Notes what code is generated from; where a changed source does not compile, goes on with TileLang's own."""
        functions = {str(func.attrs["global_symbol"]): (one, func) for one, func in event.mod.functions.items()}
        if event.name in (_CUDA, f"{_CUDA}{_NOT_COMPILED}"):
            options = tvm.transform.PassContext.current().config
            self.device = DeviceCode(functions, event.mod.attrs, event.target, options, event.name == _CUDA)
        elif event.name.startswith(_GENERATES) and event.name != _HOST:
            for name in functions:
                self.told(name, event.name.removeprefix(_GENERATES).removesuffix(_NOT_COMPILED))
        for callback in self.callbacks:
            callback.reached()
        try:
            return next_call()
        except Exception as error:
            if not self.changed:
                raise
            self.failure = f"with recorder calls it does not compile: {first_error(error)}"
            return next_call()

    def launch(self, kernel: str) -> tuple[str, ...]:
        """What a kernel's launch is given behind the kernel's parameters, as ``"blockIdx.x"`` or ``"threadIdx.x"``."""
        assert self.device is not None
        return tuple(str(name) for name in self.device.functions[kernel][1].attrs[_LAUNCH])

    def arguments(self, kernel: str) -> str:
        """The tensors of the PrimFunc that a kernel belongs to, as recordings keep them; empty where unknown."""
        names = [name for name in self._tensors if kernel.startswith(f"{name}{_KERNEL}")]
        return self._tensors[max(names, key=len)] if names else ""


def first_error(error: BaseException) -> str:
    """The line of what a compiler says that tells what is wrong; the error's name where it says nothing.

    TileLang repeats the whole source ahead of nvcc's output, or in its place.
    """
    lines = [line.strip() for line in str(error).rpartition(_NVCC_SAYS)[2].splitlines() if line.strip()]
    said = (line for line in lines if _TELLS.search(line) and not line.endswith(_OF_SOURCE))
    first = next(said, lines[0] if lines else type(error).__name__)
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]}..."


@tvm.ir.instrument.pass_instrument
class _Reader:
    def __init__(self, found: dict[str, str]):
        self._found = found
        self._read = False

    def run_before_pass(self, module: Any, _: Any) -> None:
        """Reads the functions ahead of the first pass; later ones take their tensors' shapes from them."""
        if not self._read:
            self._read = True
            for variable, func in module.functions.items():
                self._found[str((func.attrs or {}).get("global_symbol", variable.name_hint))] = tensors(func)


@contextlib.contextmanager
def watched(told: Callable[[str, str], None] = _unheard, callbacks: tuple[Chained, ...] = ()) -> Iterator[None]:
    """Watches the compilations that begin inside; for ``told`` and ``callbacks`` see :class:`Compilation`."""
    name = f"tileops.trace.{next(_numbers)}"
    instrumentation.register_pass_instrumentation_tool(name, lambda: Compilation(told=told, callbacks=callbacks))
    try:
        yield
    finally:
        instrumentation.unregister_pass_instrumentation_tool(name)


def current() -> Compilation | None:
    """The compilation that this thread is in; ``None`` outside of one that is watched."""
    session = instrumentation.current_compile_pass_instrumentation()
    return None if session is None else session.find_tool(Compilation)
