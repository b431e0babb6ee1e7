"""What only a GPU can show: outputs stay the same bit for bit, and timelines tell what happened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileops.trace import Timeline, trace
from tileops.trace.recording import Recording

from . import kernels

pytestmark = pytest.mark.gpu(capability=(9, 0))

HALF, FLOAT = "float16", "float32"
# What makes a kernel, its outputs, its inputs.
CASES: dict[str, tuple[Any, list[int], list[tuple[tuple[int, ...], str]]]] = {
    "gemm": (kernels.gemm, [2], [((1024, 1024), HALF)] * 2),
    "gemm_two_warpgroups": (lambda: kernels.gemm(threads=256), [2], [((1024, 1024), HALF)] * 2),
    "gemm_tn": (lambda: kernels.gemm(trans_a=True, threads=256), [2], [((1024, 1024), HALF)] * 2),
    "gemm_swizzled": (lambda: kernels.gemm(swizzle=10, staged=True, threads=256), [2], [((1024, 1024), HALF)] * 2),
    "gemm_one_stage": (lambda: kernels.gemm(stages=0), [2], [((1024, 1024), HALF)] * 2),
    "gemm_dynamic": (kernels.gemm_dynamic, [2], [((1000, 1024), HALF), ((1024, 1024), HALF)]),
    "gemm_persistent": (kernels.gemm_persistent, [2], [((1024, 1024), HALF)] * 2),
    "gemm_by_hand": (lambda: kernels.by_hand(1024, 1024, 1024), [2], [((1024, 1024), HALF)] * 2),
    "attention": (kernels.attention, [3], [((1, 1024, 8, 64), HALF)] * 3),
    "elementwise": (lambda: kernels.elementwise(1024), [2], [((1024, 1024), FLOAT)] * 2),
    "softmax": (kernels.softmax, [1], [((1024, 1024), FLOAT)]),
    "layernorm": (kernels.layernorm, [1, 2, 3], [((1024, 2048), FLOAT)]),
}


def randoms(shapes: list[tuple[tuple[int, ...], str]]) -> list[Any]:
    import torch

    torch.manual_seed(1)
    return [torch.randn(shape, device="cuda", dtype=getattr(torch, dtype)) for shape, dtype in shapes]


def as_list(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (list, tuple)) else [made]


def check_sane(timeline: Timeline) -> None:
    assert timeline.dropped == 0
    assert not len(timeline.unfinished)
    assert timeline.never_fired == ()
    assert len(timeline.slices) > 0
    assert (timeline.slices["duration"] >= 0).all()


@pytest.fixture
def output(tmp_path: Path) -> Any:
    trace.enable(str(tmp_path), plotlyjs="cdn")
    trace.disable()
    yield tmp_path
    trace.enable()
    trace.disable()


@pytest.mark.parametrize("level", ["roles", "ops", "all"])
@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_the_unmodified_kernel(name: str, level: str) -> None:
    import tilelang
    import torch

    make, out_idx, shapes = CASES[name]
    plain = tilelang.compile(make(), out_idx=out_idx)
    twin = trace.instrument(plain, level=level)
    assert twin.reason == ""
    inputs = randoms(shapes)
    expected = as_list(plain(*inputs))
    for _ in range(3):
        made, slots = twin.record(*inputs)
        assert all(torch.equal(a, b) for a, b in zip(expected, as_list(made), strict=True))
    check_sane(trace.decode(twin.compiled, slots))


def test_a_pipelined_gemm_s_timeline_is_true() -> None:
    twin = trace.instrument(kernels.gemm(), out_idx=[2])
    _, slots = twin.record(*randoms([((1024, 1024), HALF)] * 2))
    timeline = trace.decode(twin.compiled, slots)
    check_sane(timeline)
    assert timeline.groups == ("producer", "consumer")
    assert len(timeline.ctas) == 64
    slices, flows = timeline.slices, timeline.flows
    for name in ("acquire As, Bs", "load As, Bs", "wait As, Bs", "gemm Cl"):
        of_name = slices[slices["name"] == name]
        assert len(of_name) == 64 * 16
        assert (of_name["payload"].reshape(64, 16) == np.arange(16)).all()
    assert len(flows) == 64 * (16 + 13)
    # Nothing is waited for that was not there: a wait ends behind the issue of what it waits for.
    src, dst = flows["src_slice"], flows["dst_slice"]
    loads = slices["name"][src] == "load As, Bs"
    ends = slices["start"] + slices["duration"]
    assert (ends[dst][loads] > slices["start"][src][loads]).all()
    assert (ends[dst][~loads] > ends[src][~loads] - 200).all()  # an arrival's record comes behind the arrival itself


def test_in_place_kernels_and_twins_of_functions(output: Path) -> None:
    import tilelang
    import tilelang.language as T
    import torch

    values = torch.randn(4096, device="cuda")
    expected = values * 2
    trace.instrument(kernels.doubled())(values)
    assert torch.equal(values, expected)

    @tilelang.jit(out_idx=[-1])
    def lazy(n: int) -> Any:
        @T.prim_func
        def copied(A: T.Tensor((n,), FLOAT), B: T.Tensor((n,), FLOAT)):
            with T.Kernel(n // 128, threads=128) as bx:
                for i in T.Parallel(128):
                    B[bx * 128 + i] = A[bx * 128 + i]

        return copied

    twin = trace.instrument(lazy)
    assert torch.equal(twin(4096)(values), values)
    assert torch.equal(lazy(4096)(values), values)

    @tilelang.jit
    def eager(A, B):
        N = T.const("N")
        A: T.Tensor[[N], FLOAT]
        B: T.Tensor[[N], FLOAT]
        C = T.empty((N,), FLOAT)
        with T.Kernel(N // 128, threads=128) as bx:
            for i in T.Parallel(128):
                C[bx * 128 + i] = A[bx * 128 + i] + B[bx * 128 + i]
        return C

    assert torch.equal(trace.instrument(eager)(values, values), values + values)
    written = sorted(path.name for path in output.glob("*.tltrace"))
    assert len(written) == 3
    for path in output.glob("*.tltrace"):
        check_sane(Recording.load(path).decode())


def test_the_kernel_s_own_build_stays_what_it_was() -> None:
    import tilelang

    before = tilelang.compile(kernels.gemm(), out_idx=[2])
    source = before.get_kernel_source()
    twin = trace.instrument(before)
    assert "tileops" in twin.compiled.get_kernel_source()
    assert "tileops" not in tilelang.compile(kernels.gemm(), out_idx=[2]).get_kernel_source()
    assert before.get_kernel_source() == source


def test_auto_traces_the_launch_asked_for(output: Path) -> None:
    import tilelang
    import torch

    inputs = randoms([((1024, 1024), HALF)] * 2)
    expected = tilelang.compile(kernels.gemm(), out_idx=[2])(*inputs)
    with trace.auto(launch=2) as block:
        kernel = tilelang.compile(kernels.gemm(), out_idx=[2])
        first = kernel(*inputs)
        assert block.written == []
        second = kernel(*inputs)
        assert block.written == ["matmul_kernel"]
    third = kernel(*inputs)
    assert all(torch.equal(expected, made) for made in (first, second, third))
    (path,) = output.glob("*.tltrace")
    recording = Recording.load(path)
    timeline = recording.decode()
    check_sane(timeline)
    assert recording.meta["launch"] == 1  # counted from 0
    assert len(timeline.ctas) == 64
    assert timeline.groups == ("producer", "consumer")


def test_auto_covers_clusters_and_dynamic_shapes(output: Path) -> None:
    import tilelang
    import torch

    with trace.auto(launch=1) as block:
        copy = tilelang.compile(kernels.clustered(), out_idx=[1])
        matmul = tilelang.compile(kernels.gemm_dynamic(), out_idx=[2])
        (values,) = randoms([((8, 64), FLOAT)])
        assert torch.equal(copy(values), values)
        matmul(*randoms([((1000, 1024), HALF), ((1024, 1024), HALF)]))
    assert block.left == {}
    sizes = {path.name: len(Recording.load(path).decode().ctas) for path in output.glob("*.tltrace")}
    assert sizes == {"copy_kernel.tltrace": 16, "matmul_kernel.tltrace": 64}


def test_auto_records_what_an_autotuner_chose_and_leaves_its_candidates_alone(output: Path) -> None:
    import tilelang
    import torch

    @tilelang.autotune(configs=[{"block_k": 32}, {"block_k": 64}], warmup=1, rep=2)
    @tilelang.jit(out_idx=[2])
    def tuned(block_k: int = 32) -> Any:
        return kernels.gemm(block_k=block_k)

    inputs = randoms([((1024, 1024), HALF)] * 2)
    with trace.auto(launch=2) as block:
        kernel = tuned()
        assert [*output.glob("*.tltrace")] == []
        made = [kernel(*inputs) for _ in range(3)]
    assert "tileops" not in kernel.get_kernel_source()
    assert [build.launches for build in block.builds if build.launches] == [3]
    assert block.left == {}
    assert torch.equal(made[0], made[1])
    assert torch.equal(made[0], made[2])
    (path,) = output.glob("*.tltrace")
    recording = Recording.load(path)
    check_sane(recording.decode())
    assert recording.meta["launch"] == 1
    assert recording.meta["arguments"].startswith("A float16[1024, 1024], B float16[1024, 1024]")
    assert trace.instrument(tuned)().reason == ""


def test_auto_records_each_kernel_of_a_function(output: Path) -> None:
    import tilelang
    import torch

    from .test_block import two_kernels

    with trace.auto(launch=3) as block:
        kernel = tilelang.compile(two_kernels(), out_idx=[1, 2])
        (values,) = randoms([((4096,), FLOAT)])
        doubled, more = kernel(values)
    assert torch.equal(doubled, values * 2)
    assert torch.equal(more, values * 2 + 1)
    assert block.left == {}
    assert len(block.written) == 2  # in the end, since there was one launch
    sizes = [len(Recording.load(path).decode().ctas) for path in sorted(output.glob("*.tltrace"))]
    assert sizes == [16, 32]


def test_several_kernels_have_a_timeline_each(output: Path) -> None:
    import tilelang
    import torch

    twin = trace.instrument(kernels.two_steps(), out_idx=[1, 2])
    assert (twin.reason, twin.left) == ("", {})
    (a,) = randoms([((1024,), FLOAT)])
    (b, c), recorded = twin.record(a)
    assert torch.equal(b, a * 2)
    assert torch.equal(c, a * 2 + 1)
    sizes = {"steps_kernel": 8, "steps_kernel_1": 4}
    for name, slots in recorded.items():
        timeline = trace.decode(twin.compiled, slots, kernel=name)
        check_sane(timeline)
        assert (timeline.meta["kernel"], len(timeline.ctas)) == (name, sizes[name])
    with trace.auto(launch=1) as block:
        kernel = tilelang.compile(kernels.two_steps(), out_idx=[1, 2])
        b, c = kernel(a)
    assert torch.equal(c, a * 2 + 1)
    assert sorted(block.written) == [*sizes]
    assert sorted(path.stem for path in output.glob("*.tltrace")) == [*sizes]


def test_markers_and_what_is_found_are_in_one_timeline(output: Path) -> None:
    import tilelang
    import torch

    from .test_mixed import gemm as marked

    inputs = randoms([((1024, 1024), HALF)] * 2)
    expected = tilelang.compile(trace.strip(marked()), out_idx=[2])(*inputs)
    twin = trace.instrument(marked(), out_idx=[2])
    assert twin.reason == ""
    made, slots = twin.record(*inputs)
    assert torch.equal(made, expected)
    check_both(trace.decode(twin.compiled, slots))
    with trace.auto(launch=1) as block:
        kernel = tilelang.compile(trace.lower(marked()), out_idx=[2, 3])
        assert torch.equal(trace.run(kernel, inputs, stem="own"), expected)
    assert block.left == {}
    found = {path.stem: Recording.load(path).decode() for path in output.glob("*.tltrace")}
    assert found.keys() == {"own", "matmul_kernel"}
    check_both(found["matmul_kernel"])
    assert found["own"].groups == ("main",)
    own, both = found["own"].slices, found["matmul_kernel"].slices
    assert (own["duration"] == both[both["group"] == "main"]["duration"]).all()  # the same rows


def check_both(timeline: Timeline) -> None:
    check_sane(timeline)
    assert timeline.groups == ("main", "producer", "consumer")
    assert len(timeline.ctas) == 64
    slices = timeline.slices
    for group, name in (("main", "gemm Cl"), ("consumer", "gemm Cl (auto)"), ("producer", "load As, Bs")):
        of_name = slices[(slices["group"] == group) & (slices["name"] == name)]
        assert (of_name["payload"].reshape(64, 16) == np.arange(16)).all()
    # One thread records both: what was found lies inside the author's range.
    mine = slices[(slices["group"] == "main") & (slices["name"] == "gemm Cl")]
    found = slices[(slices["group"] == "consumer") & (slices["name"] == "gemm Cl (auto)")]
    assert (mine["start"] <= found["start"]).all()
    assert (found["start"] + found["duration"] <= mine["start"] + mine["duration"]).all()


def test_ctas_can_be_chosen(output: Path) -> None:
    import tilelang
    import torch

    inputs = randoms([((1024, 1024), HALF)] * 2)
    expected = tilelang.compile(kernels.gemm(), out_idx=[2])(*inputs)
    twin = trace.instrument(kernels.gemm(), out_idx=[2], ctas=slice(None, None, 8))
    made, slots = twin.record(*inputs)
    assert torch.equal(made, expected)
    timeline = trace.decode(twin.compiled, slots)
    check_sane(timeline)
    assert timeline.ctas["cta"].tolist() == [*range(0, 64, 8)]
    with trace.auto(launch=1, ctas=[3, 60]):
        kernel = tilelang.compile(kernels.gemm(), out_idx=[2])
    assert torch.equal(kernel(*inputs), expected)
    (path,) = output.glob("*.tltrace")
    assert Recording.load(path).decode().ctas["cta"].tolist() == [3, 60]


SCRIPT = """
import sys
import tilelang, torch
sys.path.insert(0, {folder!r})
import kernels
kernel = tilelang.compile(kernels.gemm(), out_idx=[2])
a, b = (torch.randn(1024, 1024, device="cuda", dtype=torch.float16) for _ in range(2))
for _ in range(4):
    c = kernel(a, b)
print(sys.argv[1:], torch.allclose(c, a @ b, atol=0.5, rtol=0.05))
sys.exit(5)
"""


def test_the_command_traces_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folder=str(Path(kernels.__file__).parent)))
    code = (
        "import argparse; from tileops.cli.trace import run as r; p = argparse.ArgumentParser(); r.add_arguments(p)\n"
    )
    code += "import sys; sys.exit(r.run(p.parse_args(sys.argv[1:])))"
    done = subprocess.run(
        [sys.executable, "-c", code, "--output", str(tmp_path / "out"), str(script), "--flag", "x"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert "['--flag', 'x'] True" in done.stdout
    (path,) = (tmp_path / "out").glob("*.tltrace")
    recording = Recording.load(path)
    assert recording.meta["launch"] == 2
    check_sane(recording.decode())


def test_the_program_s_memory_is_where_it_would_be_untraced(output: Path) -> None:
    """What was freed of a recorder's memory is not handed to the program, and the reverse."""
    import tilelang
    import torch

    def reserved() -> int:
        """What PyTorch holds for tensors that ask for no pool."""
        return sum(one["total_size"] for one in torch.cuda.memory_snapshot() if one["segment_pool_id"] == (0, 0))

    (a,) = randoms([((4096, 1024), FLOAT)])
    torch.cuda.synchronize()
    before = reserved()
    with trace.auto(launch=1) as block:
        kernel = tilelang.compile(kernels.softmax(4096, 1024))
        b = torch.empty_like(a)
        held = reserved()
        kernel(a, b)
        assert block.written
        assert reserved() == held >= before
    addresses = [torch.empty(1 << 16, device="cuda", dtype=torch.int64).data_ptr() for _ in range(64)]
    control = next(iter(block.builds[0].recorders.values())).control
    pools = {one["segment_pool_id"] for one in torch.cuda.memory_snapshot()
             if one["address"] <= control.data_ptr() < one["address"] + one["total_size"]}  # fmt: skip
    assert pools.isdisjoint({(0, 0)})
    assert control.data_ptr() not in addresses


def test_where_the_program_keeps_all_memory_the_recorder_takes_of_that() -> None:
    import torch

    from tileops.trace.own_memory import in_own_memory

    device = torch.device("cuda", torch.cuda.current_device())
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(device).total_memory
    room = torch.cuda.memory_reserved() + (3 << 30)
    torch.cuda.set_per_process_memory_fraction(room / total)
    try:
        kept = torch.empty(2 << 30, dtype=torch.uint8, device=device)
        del kept  # PyTorch keeps it cached
        made = in_own_memory(device, lambda: torch.empty(2 << 30, dtype=torch.uint8, device=device))
        assert made.numel() == 2 << 30
        again = in_own_memory(device, lambda: torch.empty(1 << 20, dtype=torch.uint8, device=device))
        assert again.numel() == 1 << 20
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
