"""Runs a program on a machine without a GPU, as far as its first launch, and keeps the CUDA sources generated for it.

    python benchmarks/examples_lowering.py FOLDER SCRIPT ARGUMENTS...

Tensors are fake ones, which have a shape and a type but no data, so that a program that makes its inputs on a GPU gets
past that. TileLang lowers for a Hopper GPU; what it would compile is kept and not compiled. The program is
over where it needs data or a launch: the last line printed says how it ended.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import runpy
import sys
from pathlib import Path

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def main() -> None:
    folder, script, arguments = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    import tilelang
    import torch
    import tvm_ffi
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.overrides import TorchFunctionMode

    class OnTheHost(TorchFunctionMode):
        """Puts tensors that are meant for a GPU on the host, because a PyTorch without CUDA cannot even fake these."""

        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func is torch.Tensor.cuda:
                return args[0]
            args = [_on_host(one) for one in args]
            return func(*args, **{name: _on_host(one) for name, one in (kwargs or {}).items()})

    def _on_host(argument: object) -> object:
        text = str(argument) if isinstance(argument, (str, torch.device)) else ""
        return "cpu" if text.partition(":")[0] == "cuda" else argument

    from tileops.trace.auto.compilation import current, watched

    folder.mkdir(parents=True, exist_ok=True)
    numbers = itertools.count()
    alone: list[str] = []

    def keep(source: str, _: object) -> str:
        compilation = current()
        kernels = [*compilation.device.functions] if compilation and compilation.device else []
        if len(kernels) > 1 and not alone:  # each by itself, as `tileops trace run` builds it
            for alone[:] in ([kernel] for kernel in kernels):
                compilation.device.built(alone[0])
            alone.clear()
        else:
            (folder / f"{next(numbers):02}.cu").write_text(str(source))
        return str(source)

    tilelang.register_cuda_postproc(keep)
    tvm_ffi.register_global_func("tilelang_callback_cuda_compile", f=lambda *_: "// not compiled", override=True)
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.parent)
    ending = "ended"
    with FakeTensorMode(allow_non_fake_inputs=True), OnTheHost(), tilelang.tvm.target.Target(HOPPER):
        with contextlib.redirect_stdout(sys.stderr), watched():
            try:
                runpy.run_path(str(script), run_name="__main__")
            except SystemExit as exit_:
                ending = f"exit {exit_.code}"
            except BaseException as error:  # whatever it is that it needs a GPU for
                ending = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    print(ending, "on PyTorch", torch.__version__)


if __name__ == "__main__":
    main()
