"""Live profiles on the CPU, and what they would say of a GPU, from made traces."""

from __future__ import annotations

import contextlib
import functools
import itertools
import subprocess
import sys
import sysconfig
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.profile import ProfiledLoop, ProfileError, profile, read_trace, report_on
from tileops.profile.facts import Times
from tileops.profile.live import candidates, ceilings, failures, sources
from tileops.profile.live.counting import count_flops
from tileops.profile.live.device import Device, this_device
from tileops.profile.live.recording import no_cuda_activity
from tileops.profile.live.warmup import Warmup, has_settled, warm_up
from tileops.profile.memory import memory
from tileops.profile.peaks import Ceilings

from .kineto import Maker

pytestmark = pytest.mark.filterwarnings("ignore")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
CPU = Device("cpu", False)


@pytest.fixture(scope="module")
def compared():
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    work = {"mm": lambda: a @ b, "three": lambda: (a @ b) @ (a @ b)}
    return profile(work, bytes_moved={"mm": 3 * 64 * 64 * 4}, dtype="float32", repeats=8, memory=True)


def test_candidates_beside_each_other(compared):
    mm, three = compared.candidates
    assert (mm.name, three.name) == ("mm", "three")
    assert mm.warmups >= 10
    assert mm.first_ns > 0
    assert mm.call.count == 20
    # PyTorch's counter: two operations for each of the n^3 products.
    assert (mm.flops, three.flops) == (2 * 64**3, 6 * 64**3)
    assert mm.counted == ["flops"]
    assert (mm.bytes_moved, three.bytes_moved) == (49152, None)
    assert {mm.rank, three.rank} == {1, 2}
    rows = {row.name: row for row in compared.structure.table}
    assert rows["aten::mm"].calls == 8 * 4
    assert rows["mm"].calls == rows["three"].calls == 8
    assert not any(row.name.startswith("tileops: ") for row in compared.structure.table)


@without_gpu
def test_without_a_gpu_it_says_what_is_unknown(compared):
    assert "There is no GPU here" in compared.missing[0]
    for candidate, verdict in zip(compared.candidates, compared.verdicts):
        assert (candidate.gpu, candidate.kernels, candidate.launch_ns) == (None, None, None)
        assert (verdict.bound, verdict.strength, verdict.rates.tflops) == ("no verdict", "none", None)
        assert "There is no GPU here" in verdict.evidence[0]
    assert "unknown" in str(compared)
    assert "mm: no verdict is possible" in str(compared)
    assert "inconclusive" not in str(compared)


def test_memory_of_candidates(compared):
    (found,) = [entry for entry in compared.memory if entry.device == "CPU"]
    assert found.allocations == 8 * 4
    assert found.churn_bytes == 8 * 4 * 64 * 64 * 4
    assert found.by_operator[0].name == "aten::mm"
    assert any("test_live.py" in holder.name for holder in found.by_line)


def test_saving(compared, tmp_path):
    written = compared.save(str(tmp_path))
    assert len(written) == 4
    assert report_on(read_trace(written[0])).structure.labels


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ({}, {}, "one at least"),
        ({"a": 3}, {}, "no callable"),
        ({"": print}, {}, "cannot be the name"),
        ({"tileops: wait": print}, {}, "cannot be the name"),
        ({"a": int}, {"repeats": 0}, "1 at least"),
        ({"a": int}, {"flops": -1}, "above 0"),
        ({"a": int}, {"flops": {"b": 1}}, "no candidate"),
        ({"a": int}, {"bytes_moved": float("nan")}, "above 0"),
        ({"a": int}, {"flops": "many"}, "flops of 'a' is 'many': it must be a number"),
        ({"a": int}, {"flops": {"a": [1]}}, "must be a number"),
        ({"a": int}, {"flops": 10**400}, "must be a number"),
        ({"a": int}, {"flops": {1: 2, "b": 3}}, "'b', 1, which is no candidate"),
        ({"a": int}, {"repeats": 2.5}, "repeats is 2.5: it must be a whole number"),
        ({"a": int}, {"warmup": "3"}, "warmup is '3'"),
        ({"a": int}, {"dtype": "float17"}, "dtype is 'float17', which is no type"),
        ({"a": int}, {"dtype": 16}, "which is no type"),
        ({"\ud800": int}, {}, "no UTF-8"),
        ({"a": lambda: 1 / 0}, {}, "candidate 'a' failed: ZeroDivisionError"),
    ],
)
def test_mistakes(given, options, said):
    with pytest.raises(ProfileError, match=said):
        profile(given, **options)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(3), "ended with exit status 3"),
        (SystemExit(), "ended with exit status 0"),
        (SystemExit("no data\nat all"), "ended with exit status 1: no data"),
        (RuntimeError("boom"), "failed: RuntimeError: boom"),
        (ValueError("\nfirst\nsecond"), "failed: ValueError: first"),
        (AssertionError(), "failed: AssertionError"),
    ],
)
@pytest.mark.parametrize("phase", ["warm_up", "count_flops", "_back_to_back", "_profiled"])
def test_a_failing_candidate_is_told_on_one_line(error, said, phase, monkeypatch):
    """Whenever it is called: from the phase on."""
    phases: list[str] = []

    def work() -> None:
        if phases:
            raise error

    before = getattr(candidates, phase)
    monkeypatch.setattr(candidates, phase, lambda *given: phases.append(phase) or before(*given))
    monkeypatch.setattr(candidates, "_ROUND_NS", 1.0)
    with pytest.raises(ProfileError) as raised:
        profile({"b": work}, warmup=1, repeats=1)
    assert str(raised.value) == f"candidate 'b' {said} (test_live.py, line {work.__code__.co_firstlineno + 2})"
    assert raised.value.__cause__ is error


def test_a_candidate_that_ends_while_it_is_captured(monkeypatch):
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph: contextlib.nullcontext())
    with pytest.raises(ProfileError, match=r"candidate 'a' ended with exit status 3 \(test_live.py, line \d+\)"):
        candidates._replayed({"a": lambda: sys.exit(3)}, {}, GPU, [])


def test_the_place_of_a_failure_is_the_users_innermost_line(tmp_path):
    def of(file: str, text: str, call, module: str = "work") -> None:
        """Runs code as that of a file, with something to call."""
        exec(compile(text, file, "exec"), {"__name__": module, "call": call} if module else {"call": call})

    def fail() -> None:
        raise ValueError("no")

    def told(call) -> str:
        try:
            call()
        except ValueError as error:
            # Without this file's own lines: each is of the user's, too.
            traceback = error.__traceback__
            kept = [frame for frame in walk(traceback) if frame.tb_frame.f_code.co_filename != __file__]
            for before, after in itertools.pairwise([*kept, None]):
                before.tb_next = after
            return failures.told(error.with_traceback(kept[0] if kept else None)).partition("ValueError: no")[2]
        raise AssertionError

    def walk(traceback):
        while traceback is not None:
            yield traceback
            traceback = traceback.tb_next

    stdlib = sysconfig.get_path("stdlib")
    layers = {
        "user": ("/home/me/boom.py", "\n\ncall()", "boom"),
        "helper": ("/home/me/helper.py", "\ncall()", "helper"),
        "python": (f"{stdlib}/json/decoder.py", "call()", "json.decoder"),
        "frozen": ("<frozen importlib._bootstrap>", "call()", "importlib._bootstrap"),
        "installed": (f"{stdlib}/site-packages/some/thing.py", "\n\n\n\ncall()", "some.thing"),
        "torch": ("/home/me/src/torch/functional.py", "call()", "torch.functional"),
        "tilelang": ("/home/me/src/tilelang/jit.py", "call()", "tilelang.jit"),
        "tileops": ("/home/me/src/tileops/cli/profile.py", "call()", "tileops.cli.profile"),
        "made up": ("/build/tvm/binder.cc", "call()", ""),
    }
    for stack, place in (
        ("user", " (boom.py, line 3)"),
        ("tileops user helper", " (helper.py, line 2)"),
        ("tileops user torch tilelang", " (boom.py, line 3)"),
        ("user python", " (boom.py, line 3)"),
        ("user installed torch made up", " (boom.py, line 3)"),
        ("frozen user", " (boom.py, line 3)"),
        ("tileops installed torch", " (thing.py, line 5)"),
        ("tileops torch python", ""),
        ("", ""),
    ):
        call = fail
        for layer in reversed(stack.replace("made up", "made_up").split()):
            file, text, module = layers[layer.replace("_", " ")]
            call = functools.partial(of, file, text, call, module)
        assert told(call) == place, stack


async def coroutine() -> None:
    torch.ones(3)


def generator():
    yield torch.ones(3)


async def asynchronous_generator():
    yield torch.ones(3)


@pytest.mark.parametrize("work", [coroutine, lambda: coroutine(), generator, asynchronous_generator])
@pytest.mark.filterwarnings("error")
def test_work_that_a_call_only_prepares_is_refused(work):
    with pytest.raises(ProfileError, match=r"candidate 'a': it returns an? .* leaves the work to be done"):
        profile({"a": work})


def test_a_type_that_nobody_gave_is_said_to_be_assumed():
    setup = dict(profile({"a": int}, repeats=1, warmup=1).setup)
    assert setup["type"].startswith("float16, assumed")
    assert dict(profile({"a": int}, repeats=1, warmup=1, dtype=torch.bfloat16).setup)["type"] == "bfloat16"


def test_a_label_of_the_candidates_own_name_inside_it_is_no_further_call():
    def forward_pass() -> None:
        with torch.profiler.record_function("forward_pass"):
            torch.ones(3)

    def both() -> None:
        forward_pass()

    report = profile({"forward_pass": forward_pass, "both": both}, repeats=6)
    assert [candidate.cpu.count for candidate in report.candidates] in ([6, 6], [5, 6], [6, 5], [5, 5])


def test_running_out_of_memory_is_a_finding():
    def greedy() -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 TiB.\nmore")

    report = profile({"greedy": greedy, "modest": lambda: torch.ones(3)}, repeats=5)
    assert [candidate.name for candidate in report.candidates] == ["modest"]
    assert (
        report.missing[0] == "greedy ran out of memory and has no figures: CUDA out of memory. Tried to allocate 2 TiB."
    )
    with pytest.raises(ProfileError, match="No candidate is left"):
        profile(greedy)


def test_running_out_of_memory_later():
    from torch.autograd import profiler

    def while_profiled() -> None:
        if profiler._is_profiler_enabled:
            raise torch.cuda.OutOfMemoryError("full")

    calls = 0

    def while_timed() -> None:
        nonlocal calls
        calls += 1
        if calls > 205:  # more than a warm-up makes
            raise torch.cuda.OutOfMemoryError("full")

    report = profile({"first": while_profiled, "second": while_timed, "third": lambda: None}, repeats=5, warmup=10)
    assert [candidate.name for candidate in report.candidates] == ["first", "third"]
    assert [text.split()[0] for text in report.missing[:2]] == ["second", "first"]
    assert sum("ran out" in text for text in report.missing) == 2


def test_one_callable_has_its_name():
    def scale() -> None:
        torch.ones(3) * 2

    assert profile(scale, repeats=5).candidates[0].name == "scale"
    assert profile(lambda: None, repeats=5).candidates[0].name == "candidate"


@given(st.lists(st.floats(1, 1e6), min_size=10, max_size=30))
def test_settling(taken):
    before, last = np.median(taken[-10:-5]), np.median(taken[-5:])
    assert has_settled(taken) == (abs(last - before) <= 0.05 * before)
    assert not has_settled(taken[:9])


def test_warming_up_goes_on_until_times_settle():
    import time

    waits = iter([0.02, *(0.004 * 0.7**n for n in range(12))])
    found = warm_up(lambda: time.sleep(next(waits, 0.001)), CPU, 3)
    assert found.count > 10
    assert found.first_ns >= 20e6
    calls = []
    assert warm_up(lambda: calls.append(0), CPU, 25).count >= 25


def test_flops_that_nobody_can_count():
    assert count_flops(lambda: torch.ones(4) + 1) == (None, "")
    found, said = count_flops(lambda: torch.ones(4, 5) @ torch.ones(5, 6))
    assert found == 2 * 4 * 5 * 6
    assert said.startswith("PyTorch's flop counter counted 240 operations")


def test_tilelangs_analyzer_counts_gemms():
    import tilelang.language as T

    m, n, k = 256, 512, 128

    @T.prim_func
    def gemm(
        a: T.Tensor((m, k), "float16"), b: T.Tensor((k, n), "float16"), c: T.Tensor((m, n), "float32")
    ):  # fmt: skip
        with T.Kernel(n // 128, m // 128, threads=128) as (bx, by):
            a_tile = T.alloc_shared((128, 32), "float16")
            b_tile = T.alloc_shared((32, 128), "float16")
            c_tile = T.alloc_fragment((128, 128), "float32")
            T.clear(c_tile)
            for ki in T.serial(k // 32):
                T.copy(a[by * 128, ki * 32], a_tile)
                T.copy(b[ki * 32, bx * 128], b_tile)
                T.gemm(a_tile, b_tile, c_tile)
            T.copy(c_tile, c[by * 128, bx * 128])

    kernel = Kernel("")
    kernel.prim_func = gemm
    found, said = count_flops(lambda: kernel())
    assert found == 2 * m * n * k
    assert "one launch of each kernel" in said
    # What it cannot read, it does not count.
    kernel.prim_func = "no function"
    assert count_flops(lambda: kernel()) == (None, "")


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_turns_are_fair(names):
    turns = candidates._turns(names, 6)
    assert all(sorted(turn) == names for turn in turns)
    firsts = [turn[0] for turn in turns]
    assert all(firsts.count(name) == 6 // len(names) for name in names)


class Kernel:
    """What a compiled TileLang kernel has."""

    prim_func = None

    def __init__(self, source: str):
        self.source = source

    def __call__(self) -> None:
        torch.ones(2)

    def get_kernel_source(self) -> str:
        return self.source


HOPPER = """extern "C" __global__ void __launch_bounds__(384, 1) gemm_kernel(const CUtensorMap a) {
  tl::tma_load(a, full[0]); tl::wgmma_ss<float>(a, b); }"""
SCALAR = """extern "C" __global__ void __launch_bounds__(256, 1) fma_kernel(const float* a) { c = a * b + c; }"""
GLOBAL_KERNEL = Kernel(SCALAR)


def test_generated_sources_are_found():
    kernel = Kernel(HOPPER)
    assert sources.generated_sources(lambda: kernel()) == {"gemm_kernel": HOPPER}
    assert sources.generated_sources(lambda: GLOBAL_KERNEL()) == {"fma_kernel": SCALAR}
    assert sources.generated_sources(kernel) == {"gemm_kernel": HOPPER}
    assert sources.generated_sources(print) == sources.generated_sources(lambda: torch.ones(3)) == {}
    assert sources.tensor_path(HOPPER)
    assert not sources.tensor_path(SCALAR)
    assert "(WGMMA), with TMA" in sources.told("gemm_kernel", HOPPER)
    assert "no instruction of tensor cores" in sources.told("fma_kernel", SCALAR)


def test_sources_that_tilelang_lowers_for_hopper(cuda_target):
    """The headers that every source includes must not count."""
    import tilelang
    import tilelang.language as T

    from tileops.kernels.gemm.dense import PASS_CONFIGS, build_gemm, default_config

    @T.prim_func
    def scale(a: T.Tensor((1024,), "float32"), b: T.Tensor((1024,), "float32")):
        with T.Kernel(8, threads=128) as block:
            thread = T.get_thread_binding(0)
            b[block * 128 + thread] = a[block * 128 + thread] * T.float32(2)

    gemm = build_gemm(256, 256, 256).get_tir(**default_config(256, 256, 256))
    with cuda_target, tilelang.transform.PassContext(config=PASS_CONFIGS):
        plain, tensor = (str(tilelang.lower(f, target=cuda_target).kernel_source) for f in (scale, gemm))
    assert not sources.tensor_path(plain)
    assert sources.told("scale", plain).startswith(
        "The generated source of scale shows no instruction of tensor cores. The source alone"
    )
    assert sources.tensor_path(tensor)
    said = sources.told("gemm", tensor)
    for part in ("WGMMA", "TMA", "mbarriers"):
        assert part in said


def test_a_source_decides_where_a_name_does_not():
    assert candidates._tensor_cores(None, {"k": HOPPER, "l": SCALAR}) is True
    assert candidates._tensor_cores(None, {"l": SCALAR}) is False
    assert candidates._tensor_cores(None, {}) is None
    assert candidates._tensor_cores(True, {"l": SCALAR}) is True
    report = profile({"made": Kernel(HOPPER)}, repeats=5)
    assert "proves nothing" in report.candidates[0].evidence[0]
    assert "takes the tensor cores' path" in str(report)


GPU = Device("NVIDIA H200", True, 0, 150e9, 50e6)


def measured(maker: Maker, folder, **figures):
    """A candidate's figures as a live profile takes them from a trace."""
    trace = maker.trace(folder)
    call = Times.of([figures.pop("call", 110e3)])
    top = Ceilings("H200 SXM", "float16", 4800.0, 989.5, 67.0)
    return candidates._measured(
        "work", trace, Warmup(1e9, 12, True, 1e5), call, figures.pop("graph", None), figures.pop("flops", None),
        figures.pop("bytes", None), top, set(), GPU, False, "python x.py",
    )  # fmt: skip


def calls(count: int = 10, gpu: float = 100.0, kernels: int = 1) -> Maker:
    """Calls of a candidate, as a live profile records them on a GPU."""
    maker = Maker()
    for number in range(count):
        begin = 1000.0 * number
        maker.label("work", begin, 10 + 8 * kernels)
        for kernel in range(kernels):
            maker.launch(begin + 5 + 8 * kernel, 6, begin + 20 + (gpu + 9) * kernel, gpu, "void ns::gemm<1>(int)")
        maker.label("tileops: wait", begin + 500, 300)
        maker.call("cudaDeviceSynchronize", begin + 501, 290)
    return maker


def test_figures_of_a_gpu(tmp_path):
    candidate, figures = measured(calls(), tmp_path, flops=6e10)
    assert (candidate.gpu.median_ns, candidate.kernels, candidate.launch_ns) == (100e3, 1, 6e3)
    assert (figures.gpu_ns, figures.host_ns, figures.repeats) == (100e3, 18e3, 10)
    assert figures.kernel == "void ns::gemm<1>(int)"
    from tileops.profile.diagnosis import diagnose

    verdict = diagnose(figures)
    assert verdict.bound == "tensor-core bound"
    assert verdict.rates.tflops == pytest.approx(600)
    many, figures = measured(calls(gpu=2, kernels=40), tmp_path, call=500e3)
    assert (many.kernels, many.gpu.median_ns) == (40, 80e3)
    assert diagnose(figures).bound == "launch-overhead bound"


@pytest.mark.parametrize(("call", "longer"), [(100e3, ""), (96e3, ""), (80e3, "25% longer"), (20e3, "400% longer")])
def test_kernels_that_ran_slower_while_profiled_are_told(tmp_path, call, longer):
    candidate, _ = measured(calls(), tmp_path, call=call)
    told = [note for note in candidate.notes if "follow each other" in note]
    assert len(told) == bool(longer)
    assert all(longer in note and "100 µs against" in note for note in told)
    # Several kernels can run side by side.
    assert not any("longer" in note for note in measured(calls(kernels=2), tmp_path, call=call)[0].notes)


def test_without_cupti_the_events_are_what_there_is(tmp_path):
    maker = Maker()
    for number in range(6):
        maker.label("work", 1000 * number, 50)
    candidate, figures = measured(maker, tmp_path, flops=6e10, call=100e3)
    assert (candidate.gpu, candidate.kernels) == (None, None)
    from tileops.profile.diagnosis import diagnose

    verdict = diagnose(figures)
    assert (verdict.bound, verdict.strength) == ("tensor-core bound", "provisional")
    assert any("or higher" in text for text in verdict.evidence)
    # Where waits were recorded, launches would have been.
    maker.call("cudaDeviceSynchronize", 7000, 5)
    assert measured(maker, tmp_path)[1].gpu_ns is None


def test_a_first_call_that_stands_out_is_left_out(tmp_path):
    maker = calls()
    maker.events[2]["dur"] = 900.0
    candidate, figures = measured(maker, tmp_path)
    assert figures.repeats == 9
    assert candidate.gpu.longest_ns == 100e3
    assert "left out" in candidate.notes[0]
    assert candidate.rank is not None


def test_a_module_load_inside_is_not_ranked(tmp_path):
    maker = calls()
    maker.call("cuModuleLoadData", 3005, 4)
    maker.call("cuModuleLoadData", 3600, 4)  # between the calls: none of the work's business
    candidate, figures = measured(maker, tmp_path)
    assert figures.doubts == ("module load fell inside the measured calls: cuModuleLoadData, once.",)
    assert figures.cold
    assert candidate.rank is None
    ranked = candidates._ranked([candidate, replace(measured(calls(), tmp_path)[0], name="other")])
    assert [entry.rank for entry in ranked] == [None, 1]


def test_own_waits_are_not_the_works(tmp_path):
    from tileops.profile.structure import analyze
    from tileops.profile.structure.own import without_own

    trace = calls().trace(tmp_path)
    # A live report and one on its trace later leave out the same.
    assert "tileops: " not in str(report_on(trace))
    found = without_own(analyze(trace))
    assert found.syncs == []
    assert [label.path for label in found.labels] == [("work",)]


def profiler_has_cuda() -> bool:
    return torch.profiler.ProfilerActivity.CUDA in torch.profiler.supported_activities()


def test_what_no_activity_means(monkeypatch, tmp_path):
    host = Maker()
    host.op("aten::mm", 0, 5)
    nothing = host.trace(tmp_path)
    assert no_cuda_activity(GPU, calls().trace(tmp_path)) == ""
    assert "There is no GPU here" in no_cuda_activity(CPU, nothing)
    host.call("cudaDeviceSynchronize", 10, 5)
    assert "Nothing was launched" in no_cuda_activity(GPU, host.trace(tmp_path))
    host.call("cudaLaunchKernel", 2, 1)
    assert "taken by another profiler" in no_cuda_activity(GPU, host.trace(tmp_path)) or not profiler_has_cuda()
    import torch.profiler as profiler

    monkeypatch.setattr(profiler, "supported_activities", lambda: {profiler.ProfilerActivity.CPU})
    assert "no CUPTI or ROCTracer" in no_cuda_activity(GPU, nothing)
    monkeypatch.setattr(profiler, "supported_activities", lambda: set(profiler.ProfilerActivity.__members__.values()))
    assert "taken by another profiler" in no_cuda_activity(GPU, nothing)


@without_gpu
def test_ceilings_need_a_gpu():
    with pytest.raises(ProfileError, match="needs a GPU"):
        ceilings.measure(this_device())


def test_ceilings_from_times(monkeypatch):
    """1 ms for everything: a copy of 1 GiB reads and writes it, a product has 2·8192³ operations."""
    monkeypatch.setattr(ceilings, "_copy", lambda: None)
    monkeypatch.setattr(ceilings, "_best", lambda device, work: 1e6)

    def product(name: str) -> None:
        if name == "float8_e4m3fn":
            raise RuntimeError("this GPU has none")

    monkeypatch.setattr(ceilings, "_product", product)
    found = ceilings.measure(GPU)
    assert found["bandwidth"] == pytest.approx(2 * 2**30 / 1e-3 / 1e9)
    assert found["matrix:float16"] == found["vector:float32"] == pytest.approx(2 * 8192**3 / 1e-3 / 1e12)
    assert set(found) == {"bandwidth", "matrix:float16", "matrix:bfloat16", "vector:float32"}


def test_the_l2_cache_is_emptied_before_each_call(monkeypatch):
    done: list[str] = []
    monkeypatch.setattr(candidates, "_flusher", lambda device: lambda: done.append("flush"))
    monkeypatch.setattr(Device, "wait", lambda self: None)
    work = {"a": lambda: done.append("a"), "b": lambda: done.append("b")}
    candidates._profiled(work, GPU, 2, True, False, False, [])
    assert done == ["flush", "a", "flush", "b", "flush", "b", "flush", "a"]
    done.clear()
    candidates._profiled(work, GPU, 1, False, False, False, [])
    assert done == ["a", "b"]


def test_a_replays_time_is_the_median_of_its_rounds(monkeypatch):
    class Graph:
        def replay(self) -> None:
            pass

    rounds = iter([100.0] * 9 + [200.0] * 9 + [150.0, 9e9])
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph: contextlib.nullcontext())
    monkeypatch.setattr(Device, "wait", lambda self: None)
    monkeypatch.setattr(Device, "time", lambda self, work, calls: next(rounds))

    def uncapturable() -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    missing: list[str] = []
    warmed = dict.fromkeys(("a", "b"), Warmup(1e9, 12, True, 1e5))
    assert candidates._replayed({"b": uncapturable, "a": int}, warmed, GPU, missing) == {"a": 175.0}
    assert missing == [
        "b cannot be captured in a CUDA graph: operation not permitted when stream is capturing",
    ]


def test_ceilings_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ceilings.load(GPU) == {}
    path = ceilings.store(GPU, {"bandwidth": 4300.5, "matrix:float16": 750.0})
    assert path.name == "nvidia-h200.json"
    assert ceilings.load(GPU) == {"bandwidth": 4300.5, "matrix:float16": 750.0}
    for broken in ("", "[]", '{"a": "b"}', "{"):
        path.write_text(broken)
        assert ceilings.load(GPU) == {}


def test_a_loop(tmp_path):
    a = torch.randn(32, 32)
    with ProfiledLoop(str(tmp_path / "out"), wait=1, warmup=1, active=3, repeat=2) as loop:
        for _ in range(12):
            torch.mm(a, a)
            loop.step()
    assert [path.rsplit("/", 1)[1] for path in loop.traces] == ["steps_0.json.gz", "steps_1.json.gz"]
    report = loop.report()
    assert report.steps.count == 6
    assert ("schedule", "1 wait, 1 warmup, 3 active, 2 repeat") in report.setup
    (label,) = report.structure.labels
    assert (label.path, label.calls) == (("ProfilerStep",), 3)
    assert not [text for text in report.missing if "ended" in text]


def test_a_loop_that_ends_early_or_fails(tmp_path):
    with ProfiledLoop(str(tmp_path), wait=5) as loop:
        for _ in range(3):
            loop.step()
    with pytest.raises(ProfileError, match="no step was recorded: the loop made 3 steps, and 12 are needed"):
        loop.report()
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        with ProfiledLoop(str(tmp_path / "b"), wait=0, warmup=1, active=5, memory=True) as loop:
            for number in range(5):
                torch.ones(100 * (number + 1))
                if number == 3:
                    raise torch.cuda.OutOfMemoryError("no more\nat all")
                loop.step()
    report = loop.report()
    assert report.missing[0] == "The loop ran out of memory in step 3: no more"
    assert report.steps.count >= 2
    assert report.memory
    with pytest.raises(ProfileError, match="0 at least"):
        ProfiledLoop("x", active=0)


def test_a_file_where_a_folder_is_wanted(compared, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for path in (str(file), str(file / "below")):
        for what, write in (
            ("report", compared.save),
            ("trace", compared.save_for_tensorboard),
            ("traces", lambda folder: ProfiledLoop(folder).__enter__()),
        ):
            with pytest.raises(ProfileError) as raised:
                write(path)
            reason = f"{file} is a file, and a folder is wanted"
            assert str(raised.value) == f"{path}: the {what} cannot be written: {reason}"


def test_tensorboards_names(tmp_path):
    with ProfiledLoop(str(tmp_path), wait=0, warmup=1, active=1, tensorboard=True) as loop:
        for _ in range(3):
            torch.ones(3)
            loop.step()
    assert loop.traces[0].endswith(".pt.trace.json.gz")


def test_a_snapshot_is_left_after_running_out_of_memory(monkeypatch, tmp_path):
    """The calls that PyTorch would get on a GPU."""
    from pathlib import Path

    from tileops.profile.live import recording

    class Allocator:
        history: ClassVar[list] = []

        def _record_memory_history(self, **options):
            self.history.append(options)

        def _dump_snapshot(self, path):
            Path(path).write_bytes(b"snapshot")

    monkeypatch.setattr(recording, "_allocator", Allocator)
    monkeypatch.setattr(Device, "wait", lambda self: None)
    paths: list = []
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        with recording.recorded(GPU, True, False) as paths:
            torch.ones(4)
            raise torch.cuda.OutOfMemoryError("full")
    assert [path.name for path in paths] == ["trace.json.gz", "memory_snapshot.pickle"]
    assert Allocator.history == [{"max_entries": 100_000}, {"enabled": None}]
    report = replace(report_on(read_trace(paths[0])), files=[str(paths[1])])
    assert "memory_snapshot.pickle" in {Path(path).name for path in report.save(str(tmp_path / "out"))}


def test_a_loop_leaves_a_snapshot_after_running_out_of_memory(monkeypatch, tmp_path):
    from pathlib import Path

    from tileops.profile.live import loops, recording

    class Allocator:
        def _record_memory_history(self, **options):
            pass

        def _dump_snapshot(self, path):
            Path(path).write_bytes(b"snapshot")

    monkeypatch.setattr(recording, "_allocator", Allocator)
    monkeypatch.setattr(loops, "this_device", lambda: GPU)
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        with ProfiledLoop(str(tmp_path), wait=0, warmup=1, active=5, memory=True) as loop:
            for number in range(5):
                if number == 3:
                    raise torch.cuda.OutOfMemoryError("no more")
                torch.ones(100)
                loop.step()
    assert (tmp_path / "memory_snapshot.pickle").read_bytes() == b"snapshot"
    assert str(tmp_path / "memory_snapshot.pickle") in loop.report().files


def allocations(maker: Maker, sizes: list[tuple[float, int, int]], **arguments) -> None:
    for at, size, address in sizes:
        maker.events.append(
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 101, "ts": at,
             "args": {"Bytes": size, "Addr": address, "Device Id": 0, "Device Type": 1} | arguments}
        )  # fmt: skip


def test_memory_by_hand(tmp_path):
    maker = Maker()
    maker.op("aten::a", 0, 100)
    maker.op("aten::b", 200, 100)
    for number in range(4):
        maker.label("step", 100 * number, 90)
    maker.add("python_function", "train.py(7): step", 0, 350)
    maker.add("python_function", "torch/nn/linear.py(3): forward", 5, 300)
    allocations(maker, [(10, 100, 1), (20, 50, 2), (30, -100, 1), (210, 400, 1), (220, 10, 3), (320, -400, 1)])
    (found,) = memory(maker.trace(tmp_path))
    assert (found.device, found.allocations, found.frees, found.churn_bytes) == ("GPU 0", 4, 2, 560)
    assert (found.begin_bytes, found.peak_bytes, found.end_bytes, found.peak_ns) == (0, 460, 60, 220_000)
    assert [(holder.name, holder.bytes) for holder in found.holders] == [("aten::b", 410), ("aten::a", 50)]
    assert [(holder.name, holder.count, holder.bytes) for holder in found.by_operator] == [
        ("aten::b", 2, 410),
        ("aten::a", 2, 150),
    ]
    assert [(holder.name, holder.bytes) for holder in found.by_line] == [("train.py(7): step", 560)]
    (growth,) = found.growth
    assert (growth.label, growth.at_end, growth.grows) == ("step", [50, 50, 460, 60], False)


def test_memory_that_grows(tmp_path):
    maker = Maker()
    for number in range(5):
        maker.label(f"ProfilerStep#{number}", 100 * number, 90)
        allocations(maker, [(100 * number + 10, 64, number)])
    (found,) = memory(maker.trace(tmp_path))
    (growth,) = found.growth
    assert growth.grows
    assert growth.per_passage == pytest.approx(64)
    assert growth.label == "ProfilerStep"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), min_size=1, max_size=40))
def test_what_is_held_at_the_peak_adds_up(tmp_path_factory, wanted):
    live: dict[int, int] = {}
    sizes, running, totals = [], 0, []
    for number, (address, size) in enumerate(wanted):
        change = -live.pop(address) if address in live else live.setdefault(address, size)
        running += change
        sizes.append((float(number), change, address))
        totals.append(running)
    maker = Maker()
    maker.op("aten::a", -1, 100)
    allocations(maker, sizes)
    (found,) = memory(maker.trace(tmp_path_factory.mktemp("trace")))
    assert found.peak_bytes == max(totals) == sum(holder.bytes for holder in found.holders)
    assert found.end_bytes == totals[-1]


def test_importing_is_cheap():
    code = "import sys, tileops.profile; assert 'torch' not in sys.modules and 'tilelang' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
