"""``trace.auto()`` without a GPU: what is built, what a launch is told, what is written and what is left alone."""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tilelang
import tilelang.language as T
import torch
import tvm_ffi
from tilelang import env

from tileops.trace import TraceError, TraceWarning, probe, trace
from tileops.trace import placing as placing_module
from tileops.trace.auto import block as block_module
from tileops.trace.auto import building, host
from tileops.trace.auto.block import Block, Build, Recorder
from tileops.trace.auto.compilation import Compilation
from tileops.trace.auto.rewrite import instrument
from tileops.trace.recording import Recording
from tileops.trace.slots import WORD_GRID_XY

from . import corpus, kernels
from .pretended import OnGpu, any_device
from .running import slots
from .test_twin import HOPPER, lowered

PLAIN = {"target": HOPPER}
# What a launch is given behind a kernel's parameters and the grid.
BLOCK, DYNAMIC = ("threadIdx.x", "threadIdx.y", "threadIdx.z"), "tirx.use_dyn_shared_memory"


@pytest.fixture(autouse=True)
def _switch_back() -> Iterator[None]:
    yield
    trace.enable()
    trace.disable()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lets a block's builds go on where there is no GPU; the one that is current is the list's last."""
    current = [0]
    monkeypatch.setattr(block_module, "_new_control", lambda _: torch.zeros(2, dtype=torch.int64))
    monkeypatch.setattr(block_module, "_check_gpu", lambda: None)
    monkeypatch.setattr(block_module, "_current_device", lambda: current[-1])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr("tileops.trace.capacity.check_fits", lambda *_: None)
    monkeypatch.setattr("tileops.trace.launching.is_capturing", lambda: False)
    monkeypatch.setattr("tileops.trace.launching.device_name", lambda _: "a GPU")
    return current


@pytest.fixture
def uncompiled() -> Iterator[None]:
    """Spares nvcc's time where nothing of the device code is run."""
    name = "tilelang_callback_cuda_compile"
    before = tvm_ffi.get_global_func(name)
    tvm_ffi.register_global_func(name, f=lambda *_: "// not compiled", override=True)
    tilelang.disable_cache()
    yield
    tilelang.enable_cache()
    tvm_ffi.register_global_func(name, f=before, override=True)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    trace.enable(str(tmp_path), plotlyjs="cdn")
    trace.disable()
    return tmp_path


def hooks(kernel: Any, name: str = "") -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What a compiled kernel's host code calls ahead of and behind the launch of ``name``."""
    source = kernel.get_host_source()
    ((_, hook),) = [found for found in re.findall(r'void\* tileops_launch_(\w+) = .*?"([\w.]+)\.before"', source, re.S)
                    if name in ("", found[0])]  # fmt: skip
    return tvm_ffi.get_global_func(f"{hook}.before"), tvm_ffi.get_global_func(f"{hook}.after")


def recordings(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.tltrace"))


class Launches:
    """Launches a GEMM's hooks as its host code would, with a device that records what the source says."""

    GRID = (0, 0, 0, 1, 1, 256, 1, 1, 98304)  # three parameters, a grid of one CTA, its block, dynamic shared memory

    def __init__(self, kernel: Any, build: Build):
        self._before, self._after = hooks(kernel)
        self._build = build
        self._source = kernel.get_kernel_source(kernel_only=True)

    def __call__(self) -> bool:
        """Whether the launch recorded."""
        assert self._before(*self.GRID) is None
        recording = self._build.recording is not None
        if self._build.recording is not None:
            given, recorder = self._build.recording.slots, self._build.recording.recorder
            assert given.shape == (1, recorder.table.line_words)
            assert recorder.control.tolist() == [given.data_ptr(), 1]
            given[:] = torch.from_numpy(slots(self._source, recorder.table).view("int64"))
        assert self._after() is None
        assert self._build.recording is None
        assert all(one.control[1] == 0 for one in self._build.recorders.values())  # there is room for nothing
        return recording


# Building -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("uncompiled")
def test_a_block_instruments_what_is_built_inside(gpu: list[int], output: Path) -> None:
    tilelang.enable_cache()
    with trace.auto(launch=5, kernel="matmul") as block:
        assert not env.is_cache_enabled()
        kernel = tilelang.compile(kernels.gemm(), out_idx=[2], **PLAIN)
        other = tilelang.compile(kernels.elementwise(), out_idx=[2], **PLAIN)
        (build,) = block.builds
        launch = Launches(kernel, build)
        # The first launches are recorded in case that there are no more; nothing is written of them yet.
        assert [launch() for _ in range(4)] == [True, True, False, False]
        assert recordings(output) == []
        assert launch()
        assert (block.written, recordings(output)) == (["matmul_kernel"], ["matmul_kernel.tltrace"])
        assert not launch()
    assert env.is_cache_enabled()
    tilelang.disable_cache()
    assert tvm_ffi.get_global_func(building.CALLBACK, allow_missing=True) is None
    assert "tileops" in kernel.get_kernel_source()
    assert "tileops" not in other.get_kernel_source()
    assert "tileops" not in tilelang.compile(kernels.gemm(), out_idx=[2], **PLAIN).get_kernel_source()
    meta = Recording.load(output / "matmul_kernel.tltrace").meta
    assert meta["launch"] == 4  # counted from 0
    assert meta["arguments"] == "A float16[1024, 1024], B float16[1024, 1024], C float16[1024, 1024]"
    assert (block.written, block.left) == (["matmul_kernel"], {})


@pytest.mark.usefixtures("uncompiled")
def test_a_kernel_of_few_launches_is_written_in_the_end(gpu: list[int], output: Path) -> None:
    with trace.auto(launch=4) as block:
        kernel = tilelang.compile(kernels.gemm(), out_idx=[2], **PLAIN)
        launch = Launches(kernel, block.builds[0])
        assert launch()
        assert launch()
        assert block.written == []
    assert block.written == ["matmul_kernel"]
    assert Recording.load(output / "matmul_kernel.tltrace").meta["launch"] == 1
    assert not launch()
    assert launch()  # the fourth, outside
    assert recordings(output) == ["matmul_kernel-2.tltrace", "matmul_kernel.tltrace"]


@pytest.mark.usefixtures("uncompiled")
def test_code_that_records_runs_on_its_own_gpu_alone(gpu: list[int], output: Path) -> None:
    with trace.auto(launch=1) as block:
        kernel = tilelang.compile(kernels.doubled(), **PLAIN)
    before, after = hooks(kernel)
    (build,) = block.builds
    gpu.append(1)
    elsewhere = before(0, 16, 256, 1, 1)
    assert isinstance(elsewhere, tvm_ffi.Function)
    assert [*build.recorders] == [0, 1]
    assert build.recording is not None
    assert build.recording.recorder is build.recorders[1]
    build.recording = None
    assert build.recorders[0].control is not build.recorders[1].control
    assert isinstance(before(0, 16, 256, 1, 1), tvm_ffi.Function)  # not recorded, and not the code of GPU 0 either
    gpu.append(0)
    assert before(0, 16, 256, 1, 1) is None
    after()


def test_of_a_large_launch_the_first_ctas_are_recorded(
    gpu: list[int], output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = corpus.text("gemm", "sm_90a", "0.1.15")
    made = instrument(source, "slots")
    recorder = Recorder(made.table, 3, ("blockIdx.x", "blockIdx.y", *BLOCK, DYNAMIC), torch.zeros(2, dtype=torch.int64))
    build = Build("matmul_kernel", Compilation(), home=0, recorders={0: recorder}, launches=2)
    block = Block(trace)
    monkeypatch.setattr(block_module, "MOST_BYTES", made.table.line_words * 8 * 5 + 7)
    assert block._before(build, (0, 0, 0, 2, 4, 256, 1, 1, 98304)) is None
    assert build.recording is not None
    given = build.recording.slots
    assert recorder.control.tolist()[1] == len(given) == 5
    # The slots of CTA 0 for each of the five, in a grid of eight.
    line = slots(made.source, made.table).view("int64")
    given[:] = torch.from_numpy(np.concatenate([line] * 5))
    for group in made.table.groups:
        given[:, group.layout.offset + WORD_GRID_XY] = 2 | 4 << 32
    block._after(build, ())
    timeline = Recording.load(output / "matmul_kernel.tltrace").decode()
    assert (timeline.ctas["cta"].tolist(), timeline.grid) == ([0, 1, 2, 3, 4], (2, 4, 1))
    assert recorder.table.choice.kind == "all"


# Where the kernel itself does not record ----------------------------------------------------------------------------


def autotuner() -> ModuleType:
    """What calls functions as an autotuner does: its module's name is what it is known by."""
    module = ModuleType("tilelang.autotuner.tuner")
    exec("def run(step, *given):\n    return step(*given)\ndef __call__(step, *given):\n    return step(*given)\n",
         module.__dict__)  # fmt: skip
    return module


@pytest.mark.nvcc
def test_what_an_autotuner_chose_is_built_again_to_be_recorded(gpu: list[int], output: Path) -> None:
    tuner = autotuner()
    plain = tilelang.compile(kernels.doubled(), **PLAIN).get_kernel_source(kernel_only=True)
    with trace.auto(launch=2) as block:
        kernel = tuner.run(lambda: tilelang.compile(kernels.doubled(), **PLAIN))
        assert kernel.get_kernel_source(kernel_only=True) == plain  # its choice must not change
        before, after = hooks(kernel)
        (build,) = block.builds
        for _ in range(5):
            assert tuner.run(before, 0, 16, 256, 1, 1) is None
        assert build.launches == 0
        # Calling the tuned function launches what was chosen from within the autotuner's module, too.
        first = tuner.__dict__["__call__"](before, 0, 16, 256, 1, 1)
        assert isinstance(first, tvm_ffi.Function)
        assert build.recording is not None
        given, recorder = build.recording.slots, build.recording.recorder
        assert recorder.table.ranges
        assert given.shape == (16, recorder.table.line_words)
        build.recording = None
        second = before(0, 16, 256, 1, 1)
        assert second.same_as(first)
        build.recording = None
        build.written = True
        assert before(0, 16, 256, 1, 1) is None
        after()
    assert block.left == {}
    assert kernel.get_kernel_source(kernel_only=True) == plain


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("together", [False, True])
def test_the_real_autotuner_s_candidates_keep_their_code(
    together: bool, gpu: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU it can choose none, and by then all of them are built, in its own threads."""
    from tilelang.autotuner import AutoTuner

    monkeypatch.chdir(tmp_path)  # where it writes a log
    plain = lowered(kernels.gemm(block_k=32))
    tuner = AutoTuner.from_kernel(lambda block_k=32: kernels.gemm(block_k=block_k), [{"block_k": 32}, {"block_k": 64}])
    tuner = tuner.set_compile_args(out_idx=[2], target=HOPPER, execution_backend="tvm_ffi")
    seen: list[str] = []
    tilelang.register_cuda_postproc(lambda source, _: seen.append(str(source)) or str(source))
    with trace.auto() as block:
        if torch.cuda.is_available():
            tuner.run(1, 1, enable_grouped_compile=together)
        else:
            with pytest.raises(RuntimeError, match="No configuration"):
                tuner.run(1, 1, enable_grouped_compile=together)
    names = ["matmul_gc_0_kernel", "matmul_gc_1_kernel"] if together else ["matmul_kernel"] * 2
    assert sorted(build.name for build in block.builds) == names
    for build in block.builds:
        assert (build.tuned, build.hooked, build.home, build.reason, build.launches) == (True, True, None, "", 0)
        assert build.compilation.arguments(build.name).startswith("A float16[1024, 1024], B float16")
        assert block._rebuilt(build, 0).table.kernel == build.name
    assert "tileops" not in "".join(seen)
    assert together or plain in seen


def two_kernels() -> Any:
    """B = 2A, then C = B + 1."""

    @T.prim_func
    def both(A: T.Tensor((4096,), "float32"), B: T.Tensor((4096,), "float32"), C: T.Tensor((4096,), "float32")):
        with T.Kernel(16, threads=256) as bx:
            for i in T.Parallel(256):
                B[bx * 256 + i] = A[bx * 256 + i] * 2.0
        with T.Kernel(32, threads=128) as bx:
            for i in T.Parallel(128):
                C[bx * 128 + i] = B[bx * 128 + i] + 1.0

    return both


@pytest.mark.usefixtures("uncompiled")
def test_each_of_several_kernels_is_recorded(gpu: list[int], output: Path) -> None:
    plain = tilelang.compile(two_kernels(), **PLAIN).get_kernel_source(kernel_only=True)
    with trace.auto(launch=1) as block:
        kernel = tilelang.compile(two_kernels(), **PLAIN)
    assert kernel.get_kernel_source(kernel_only=True) == plain
    names = [build.name for build in block.builds]
    assert len(names) == 2
    assert sorted(host.launched(kernel.get_host_source())) == []  # both are hooked
    for build, extent in zip(block.builds, (16, 32)):
        before, _ = hooks(kernel, build.name)
        assert isinstance(before(0, 0, extent, 128, 1, 1), tvm_ffi.Function)
        assert build.recording is not None
        assert build.recording.recorder.table.kernel == build.name
        assert len(build.recording.slots) == extent


@pytest.mark.usefixtures("uncompiled")
def test_what_cannot_be_recorded_is_said(gpu: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise TraceError("not this one")

    monkeypatch.setattr(block_module, "instrument", broken)
    with pytest.warns(TraceWarning, match="kernel 'both_kernel' is left as it is: its launches can't be seen"):
        with trace.auto():
            lowered(two_kernels())
    tuner = autotuner()

    def launched() -> list[Build]:
        with trace.auto(launch=1) as block:
            kernel = tuner.run(lambda: tilelang.compile(kernels.doubled(), **PLAIN))
            before, _ = hooks(kernel)
            with pytest.warns(TraceWarning, match="kernel 'double_kernel': no timeline: not this one"):
                assert before(0, 16, 256, 1, 1) is None
            assert before(0, 16, 256, 1, 1) is None  # said once
        return block.builds

    with pytest.warns(TraceWarning, match="kernel 'double_kernel' is left as it is: not this one"):
        builds = launched()
    assert [build.reason for build in builds] == ["not this one"]


def never_built(twice: bool) -> Any:
    """A kernel that no cache holds, or two of them."""
    factor = float(secrets.randbelow(1 << 20) + 2)

    @T.prim_func
    def scale(A: T.Tensor((4096,), "float32"), B: T.Tensor((4096,), "float32")):
        with T.Kernel(16, threads=256) as bx:
            for i in T.Parallel(256):
                B[bx * 256 + i] = A[bx * 256 + i] * factor
        if twice:
            with T.Kernel(32, threads=128) as bx:
                for i in T.Parallel(128):
                    A[bx * 128 + i] = B[bx * 128 + i] + 1.0

    return scale


@pytest.mark.nvcc
@pytest.mark.parametrize("twice", [False, True])
def test_what_the_kernel_cache_would_keep_is_left_as_it_is(twice: bool, gpu: list[int]) -> None:
    def built() -> Any:
        with trace.auto():
            tilelang.enable_cache()
            return tilelang.compile(never_built(twice), **PLAIN)

    before = env.is_cache_enabled()
    with pytest.warns(TraceWarning, match="left as it is: TileLang's kernel cache was turned on inside the block"):
        kernel = built()
    assert env.is_cache_enabled() == before
    assert kernel.get_kernel_source(kernel_only=True).count("__global__ void __launch_bounds__") >= 1 + twice
    assert "tileops" not in kernel.get_kernel_source()
    assert "tileops" not in kernel.get_host_source()


@pytest.mark.nvcc
def test_a_kernel_whose_changed_source_does_not_compile_is_built_as_it_was(
    gpu: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(source: str, *given: Any, **more: Any) -> Any:
        made = instrument(source, *given, **more)
        return replace(made, source=f"{made.source}\n#error not with this compiler\n")

    monkeypatch.setattr(block_module, "instrument", broken)
    with pytest.warns(TraceWarning, match="left as it is: with recorder calls it does not compile: .*not with this"):
        with trace.auto() as block:
            kernel = tilelang.compile(kernels.doubled(), **PLAIN)
    assert "tileops" not in kernel.get_kernel_source()
    assert [(build.home, build.recorders, build.hooked) for build in block.builds] == [(None, {}, False)]
    # A mistake of the author's own is told as ever.
    tilelang.register_cuda_postproc(lambda source, _: f"{source}\n#error the author's\n")
    with pytest.raises(Exception, match="the author's"):
        with trace.auto():
            tilelang.compile(kernels.doubled(), **PLAIN)


class Author:
    """Somebody's own callback, which notes what it sees. It may call the one that was there when it was registered."""

    def __init__(self, calls_what_was_there: bool = False):
        self.seen: list[str] = []
        self._calls = calls_what_was_there
        self._before: Any = None

    def register(self) -> None:
        self._before = registered()
        tilelang.register_cuda_postproc(self)

    def __call__(self, source: Any, target: Any) -> str:
        self.seen.append(str(source))
        made = self._before(source, target) if self._calls and self._before is not None else source
        return f"// the author's\n{made}"


def registered() -> Any:
    return tvm_ffi.get_global_func(building.CALLBACK, allow_missing=True)


def built() -> str:
    return str(tilelang.compile(kernels.doubled(), **PLAIN).get_kernel_source())


def recorders(source: str) -> int:
    return source.count("namespace tileops_trace {")


@pytest.mark.usefixtures("gpu", "uncompiled")
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("placing", [False, True])
@pytest.mark.parametrize("calls_what_was_there", [False, True])
def test_callbacks_that_are_registered_inside_run_too(calls_what_was_there: bool, placing: bool, nested: bool) -> None:
    """As a script does that ``tileops trace run`` runs: all of it is inside a block. Each runs once, and stays."""
    author = Author(calls_what_was_there)
    with trace.auto() as block:
        first = built()
        author.register()
        if placing:
            placing_module.placed_in_what_is_generated()
        with trace.auto() if nested else contextlib.nullcontext():
            made = [built() for _ in range(3)]
    assert recorders(first) == 1
    assert nested or [build.name for build in block.builds] == ["double_kernel"] * 4
    assert nested or all(build.recorders and build.hooked for build in block.builds)
    for source in made:
        assert (source.count("// the author's"), recorders(source)) == (1, 1)
    assert len(author.seen) == 3
    assert not any(map(recorders, author.seen))
    after = built()
    assert (after.count("// the author's"), recorders(after)) == (1, 0)


@pytest.mark.usefixtures("gpu", "uncompiled")
@pytest.mark.filterwarnings("ignore::tileops.trace.TraceWarning")
def test_a_callback_that_was_there_and_is_registered_again_inside_ends() -> None:
    """It finds the block's in its own place, and calls that, which calls it."""
    author = Author(calls_what_was_there=True)
    author.register()
    with trace.auto():
        author.register()
        assert recorders(built()) == 1
    assert recorders(built()) == 0


@pytest.mark.usefixtures("gpu", "uncompiled")
def test_a_callback_that_is_taken_away_inside_stays_away() -> None:
    Author().register()
    with trace.auto():
        tvm_ffi.remove_global_func(building.CALLBACK)
        assert recorders(built()) == 1
        tvm_ffi.remove_global_func(building.CALLBACK)
    assert registered() is None


@pytest.mark.usefixtures("uncompiled")
def test_callbacks_that_are_there_for_a_while_inside_leave_the_block_its_own(gpu: list[int]) -> None:
    """As those of TileLang's own tool iket, which puts back what was there."""
    sources = []
    with trace.auto() as block:
        for _ in range(2):
            there = tvm_ffi.get_global_func(building.CALLBACK)
            tilelang.register_cuda_postproc(lambda source, _: f"// for a while\n{source}")
            sources.append(tilelang.compile(kernels.doubled(), **PLAIN).get_kernel_source())
            tvm_ffi.register_global_func(building.CALLBACK, f=there, override=True)
            sources.append(tilelang.compile(kernels.doubled(), **PLAIN).get_kernel_source())
    assert [source.count("// for a while") for source in sources] == [1, 0, 1, 0]
    assert all(source.count("namespace tileops_trace {") == 1 for source in sources)
    assert len(block.builds) == 4
    assert tvm_ffi.get_global_func(building.CALLBACK, allow_missing=True) is None


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.filterwarnings("ignore::tileops.trace.TraceWarning")  # only one of the two blocks builds it
def test_code_is_generated_once(gpu: list[int]) -> None:
    seen: list[str] = []
    for register in (tilelang.register_cuda_postproc, tilelang.register_c_postproc):
        register(lambda source, _: seen.append(str(source)) or str(source))
    with trace.auto(), trace.auto():  # one in another
        tilelang.compile(kernels.doubled(), **PLAIN)
    assert len(seen) == 2


def test_the_block_says_what_it_left_out() -> None:
    with pytest.warns(TraceWarning, match="no kernel was built inside the block; those compiled before"):
        with trace.auto():
            pass
    if torch.cuda.is_available():
        return
    with pytest.warns(TraceWarning, match="kernel 'double_kernel' is left as it is: there is no GPU here"):
        with trace.auto():
            assert "tileops" not in tilelang.compile(kernels.doubled(), **PLAIN).get_kernel_source()


@pytest.mark.usefixtures("uncompiled")
def test_kernels_that_were_not_asked_for_are_named(gpu: list[int]) -> None:
    with pytest.warns(TraceWarning, match="whose name 'none' is found in; double_kernel were passed over"):
        with trace.auto(kernel="none") as block:
            lowered(kernels.doubled())
    assert (block.builds, block.left, block.passed) == ([], {}, ["double_kernel"])


def test_kernels_for_other_targets_are_named() -> None:
    @T.prim_func
    def main(a: T.Tensor((8,), "float32"), b: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            for i in T.serial(8):
                b[i] = a[i] + 2.0

    with pytest.warns(TraceWarning, match="'main_kernel' is left as it is: only CUDA .* its target is c") as told:
        with trace.auto() as block:
            tilelang.compile(main, target="c", execution_backend="cython")
    assert [Path(one.filename) for one in told] == [Path(__file__)]
    assert (block.builds, [*block.left]) == ([], ["main_kernel"])


@pytest.mark.nvcc
def test_a_user_s_own_markers_stay(gpu: list[int]) -> None:
    from ..building import target_of

    @T.prim_func
    def main(a: T.Tensor((64,), "float32"), b: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=16) as bx:
            with trace.range("mine"):
                b[bx] = a[bx]

    with target_of("sm_90a"):
        func = trace.lower(main)
    with trace.auto() as block:
        source = tilelang.compile(func, **PLAIN).get_kernel_source()
    (build,) = block.builds
    names = [one.name for one in build.recorders[0].table.ranges]
    assert (names[0], names[1:]) == ("mine", ["store b"])
    assert block.left == {}
    assert re.findall(r"^  tileops_open\((\d)", source, re.M) == ["1", "0"]


def test_mistakes_are_told() -> None:
    for arguments, message in (
        ({"kernel": "("}, r"auto: kernel must be a regular expression, got '\('"),
        ({"kernel": 3}, "auto: kernel must be a regular expression, got 3"),
        ({"launch": 0}, "auto: launch must be a number of at least 1, got 0"),
        ({"launch": True}, "auto: launch must be a number of at least 1, got True"),
        ({"launch": None}, "auto: launch must be a number of at least 1, got None"),
        ({"level": "some"}, "auto: level must be one of 'roles', 'ops', 'all', got 'some'"),
        ({"max_events": 0}, "auto: max_events must be a number of at least 1, or None, got 0"),
    ):
        with pytest.raises(TraceError, match=message):
            with trace.auto(**arguments):  # type: ignore[arg-type]
                pass


# Host code ----------------------------------------------------------------------------------------------------------


@pytest.mark.nvcc
def test_host_code_launches_what_it_is_given_and_ends_where_a_hook_fails() -> None:
    """The C code runs: what is ahead of a launch, the launch itself and what is behind it are functions from here."""
    told: list[Any] = []

    def callback(source: Any, _: Any) -> str:
        return host.hooked(str(source), "double_kernel", "tests.block")

    def launch(*given: Any) -> None:
        told.append(("launch", given[1:]))

    ahead: list[Any] = [launch]
    interrupted: list[str] = []

    def before(*given: Any) -> Any:
        if "before" in interrupted:
            raise KeyboardInterrupt
        told.append(given[1:])
        return ahead[0]

    def after(*given: Any) -> None:
        if "after" in interrupted:
            raise KeyboardInterrupt
        told.append(("after", given))

    tvm_ffi.register_global_func("tests.block.before", f=before)
    tvm_ffi.register_global_func("tests.block.after", f=after)
    tilelang.register_c_postproc(callback)
    tilelang.disable_cache()
    try:
        kernel = tilelang.compile(kernels.doubled(), **PLAIN)
    finally:
        tilelang.enable_cache()
    values = OnGpu(np.ones(4096))
    with any_device():
        run = kernel.adapter._get_executable()
        run(tvm_ffi.from_dlpack(values))
        assert told == [(16, 256, 1, 1), ("launch", (16, 256, 1, 1)), ("after", ())]
        tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
        for hook, others in (("before", []), ("after", [(16, 256, 1, 1), ("launch", (16, 256, 1, 1))])):
            told.clear()
            interrupted.append(hook)
            with pytest.raises(KeyboardInterrupt):
                run(tvm_ffi.from_dlpack(values))
            interrupted.clear()
            assert told == others
        told.clear()
        run(tvm_ffi.from_dlpack(values))
        assert told[1][0] == "launch"
        if torch.cuda.is_available():
            return
        for given in (None, 3):  # anything else than a function: the kernel itself, which there is no GPU for
            told.clear()
            ahead[0] = given
            with pytest.raises(Exception, match="CUDA"):
                run(tvm_ffi.from_dlpack(values))
            assert told == [(16, 256, 1, 1)]


def test_the_grid_is_found_among_a_launch_s_parameters() -> None:
    assert host.ctas((32, 128, 128, 1, 1, 32768), ("blockIdx.x", "blockIdx.y", *BLOCK, DYNAMIC)) == 32 * 128
    assert host.ctas((7, 256, 1, 1), ("blockIdx.x", *BLOCK)) == 7
    assert host.ctas((2, 3, 4, 64, 2, 1), ("blockIdx.x", "blockIdx.y", "blockIdx.z", *BLOCK)) == 24
    clusters = tuple(f"tir.cluster_dim_{axis}" for axis in "xyz")
    assert host.ctas((2, 1, 1, 8, 2, 64, 1, 1), (*clusters, "blockIdx.x", "blockIdx.y", *BLOCK)) == 16
    assert host.ctas((7, 256, 1, 1, 256), ("blockIdx.x", *BLOCK, "threadIdx.x")) == 7
    with pytest.raises(TraceError, match=r"other parameters than blockIdx\.x, threadIdx\.x"):
        host.ctas((256, 1, 1), ("blockIdx.x", *BLOCK))


def bound_again(threads: tuple[int, ...]) -> Any:
    """B = A, by threads that the author binds, as well as T.Kernel does."""
    width = threads[0]

    @T.prim_func
    def bound(A: T.Tensor((4096,), "float32"), B: T.Tensor((4096,), "float32")):
        with T.Kernel(4, 8, threads=threads) as (bx, by):
            tx = T.thread_binding(0, width, thread="threadIdx.x")
            ty = T.thread_binding(0, 128 // width, thread="threadIdx.y")
            B[(bx * 8 + by) * 128 + ty * width + tx] = A[(bx * 8 + by) * 128 + ty * width + tx]

    return bound


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("make", "launch", "ctas"),
    [
        (lambda: bound_again((128,)), (0, 0, 4, 8, 128, 1, 1, 128, 1), 32),
        (lambda: bound_again((32, 4)), (0, 0, 4, 8, 32, 4, 1, 32, 4), 32),
        (kernels.clustered, (0, 0, 2, 1, 1, 8, 2, 64, 1, 1), 16),
    ],
    ids=["a thread of its own", "two", "clusters"],
)
def test_launches_are_given_what_tvm_says(
    make: Callable[[], Any], launch: tuple[int, ...], ctas: int, gpu: list[int], output: Path
) -> None:
    with trace.auto(launch=1) as block:
        kernel = tilelang.compile(make(), **PLAIN)
    before, _ = hooks(kernel)
    assert before(*launch) is None
    (build,) = block.builds
    assert build.recording is not None
    assert len(build.recording.slots) == ctas
    (given, _) = re.findall(r"tileops_hook, \(TVMFFIAny\*\) \w+, (\d+),", kernel.get_host_source())
    assert int(given) == len(launch)


def test_a_hook_that_fails_does_not_stop_the_launch(gpu: list[int]) -> None:
    table = instrument(corpus.text("doubled", "sm_90a", "0.1.15"), "slots").table
    recorder = Recorder(table, 1, ("blockIdx.x", *BLOCK), torch.zeros(2, dtype=torch.int64), launch="the recorder")
    build = Build("k", Compilation(), recorders={0: recorder})
    block = Block(trace, launch=1)
    with pytest.warns(TraceWarning, match="kernel 'k': no timeline: its launch has other parameters than blockIdx.x"):
        assert block._guarded(block._before, build)(0, 1) == "the recorder"
    assert build.recording is None


# Launches that end early, and those of other threads ------------------------------------------------------------------


@pytest.fixture
def launched(gpu: list[int]) -> tuple[Block, Build, Recorder]:
    """A block, a kernel in it, and what records that."""
    table = instrument(corpus.text("doubled", "sm_90a", "0.1.15"), "slots").table
    recorder = Recorder(table, 1, ("blockIdx.x", *BLOCK), torch.zeros(2, dtype=torch.int64))
    return Block(trace, launch=1), Build("k", Compilation(), recorders={0: recorder}, home=0), recorder


DOUBLED = (0, 16, 256, 1, 1)  # a parameter, the grid and the block


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_nothing_records_to_slots_that_are_given_up(
    error: type[BaseException], at: int, launched: tuple[Block, Build, Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever wait for the GPU ends with an error: when slots are freed there is no room, and the error is told."""
    block, build, recorder = launched
    waits = iter(range(100))

    def wait(*_: Any) -> None:
        if next(waits) == at:
            raise error("while waiting")

    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    before, after = block._guarded(block._before, build), block._guarded(block._after, build)
    monkeypatch.setattr(block_module.recording, "fetch", lambda *_: None)
    monkeypatch.setattr(block, "_write", lambda *_: None)

    def launch() -> None:
        before(*DOUBLED)
        after()

    if error is RuntimeError:
        with pytest.warns(TraceWarning, match="while waiting"):
            launch()
    else:
        with pytest.raises(error):
            launch()
    assert build.recording is None
    assert recorder.control[1] == 0


def test_slots_of_a_launch_that_failed_are_given_up(launched: tuple[Block, Build, Recorder]) -> None:
    block, build, recorder = launched
    before = block._guarded(block._before, build)
    before(*DOUBLED)
    assert build.recording is not None
    assert recorder.control.tolist() == [build.recording.slots.data_ptr(), 16]
    before(*DOUBLED)  # nothing came behind the first
    assert build.recording is None
    assert recorder.control[1] == 0


def test_a_launch_of_another_thread_leaves_the_one_that_records_alone(
    launched: tuple[Block, Build, Recorder],
) -> None:
    block, build, recorder = launched
    block.launch = 3
    before, after = block._guarded(block._before, build), block._guarded(block._after, build)
    before(*DOUBLED)
    recording = build.recording

    def other() -> None:
        before(*DOUBLED)
        after()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert build.recording is recording is not None
    assert recorder.control.tolist() == [recording.slots.data_ptr(), 16]


@pytest.mark.usefixtures("gpu", "uncompiled")
def test_the_probe_s_own_kernel_is_left_alone(output: Path) -> None:
    with trace.auto() as block:
        with tilelang.tvm.target.Target(HOPPER):  # which a GPU would tell
            probe._kernel("cuda")
        probe._kernel("c")
        tilelang.compile(kernels.doubled(), **PLAIN)
    assert ([build.name for build in block.builds], block.left, block.passed) == (["double_kernel"], {}, [])
