"""The GEMM kernel and its operator: generated code without a GPU, results and recordings with one."""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

tilelang = pytest.importorskip("tilelang")

from tileops.kernels.gemm import build_gemm, build_gemm_unaligned, default_config, is_aligned  # noqa: E402
from tileops.kernels.gemm.dense import PASS_CONFIGS, SHARED_BYTES, checked_store_columns  # noqa: E402
from tileops.ops import GemmOp  # noqa: E402
from tileops.trace import trace  # noqa: E402

from ..trace.building import joined  # noqa: E402
from ..trace.sass import find_nvdisasm  # noqa: E402

LAYOUTS = {"NN": (False, False), "NT": (False, True), "TN": (True, False), "TT": (True, True)}
DTYPES = ("float16", "bfloat16")
TWO_CONSUMERS = {"block_m": 128, "block_n": 256, "block_k": 64, "stages": 4, "consumers": 2, "panel": 8}
ONE_CONSUMER = {"block_m": 64, "block_n": 64, "block_k": 128, "stages": 3, "consumers": 1, "panel": 0}
# No dimension is a multiple of a tile, and all rows are aligned in every layout.
TAILS = (392, 520, 328)

layouts = pytest.mark.parametrize("layout", LAYOUTS)
dtypes = pytest.mark.parametrize("dtype", DTYPES)


# ---------------------------------------------------------------------------------------------------------------------
# Without a GPU


@pytest.fixture(scope="module")
def lowered(cuda_target: Any) -> Callable[..., str]:
    """CUDA source of what a builder's factory makes of a configuration."""

    def lower(factory: Any, config: dict[str, int]) -> str:
        func = factory.get_tir(**config)
        with cuda_target, tilelang.transform.PassContext(config=PASS_CONFIGS):
            return str(tilelang.lower(func, target=cuda_target).kernel_source)

    return lower


@pytest.fixture(scope="module")
def dense(lowered: Callable[..., str]) -> Callable[..., str]:
    """CUDA source of the GEMM of TAILS, which several tests look at: made once for each way to build it."""

    @functools.cache
    def made(layout: str, dtype: str, config: tuple[tuple[str, int], ...], traced: bool) -> str:
        return lowered(build_gemm(*TAILS, dtype, *LAYOUTS[layout], traced=traced), dict(config))

    return lambda layout, dtype, config, traced=False: made(layout, dtype, tuple(config.items()), traced)


def pieces(k: int, config: dict[str, int]) -> int:
    """In how many pieces the code goes through K: whole turns around the ring, and what is left of one."""
    turns, rest = divmod(-(-k // config["block_k"]), config["stages"])
    return bool(turns) + bool(rest)


@layouts
@dtypes
@pytest.mark.parametrize("config", [TWO_CONSUMERS, ONE_CONSUMER], ids=["two", "one"])
def test_every_layout_lowers_to_tma_and_wgmma(
    dense: Callable[..., str], layout: str, dtype: str, config: dict[str, int]
) -> None:
    trans_a, trans_b = LAYOUTS[layout]
    source = dense(layout, dtype, config)
    consumers, stages = config["consumers"], config["stages"]
    assert "tileops" not in source
    operands = re.findall(r"wgmma_ss<(.*?)>\(", source)
    assert len(operands) == consumers * pieces(TAILS[2], config)
    kind = {"float16": "kFloat16", "bfloat16": "kBFloat16"}[dtype]
    wanted = [f"tl::DataType::{kind}"] * 2 + ["tl::DataType::kFloat32", "64", str(config["block_n"]), "16"]
    wanted += [str(trans_a).lower(), str(not trans_b).lower(), "1", "1"]
    assert all(found.split(", ") == wanted for found in operands)
    assert {name for name in "abc" if f"CUtensorMap {name}_desc" in source} == set("abc")
    loads = [source.count(f"tl::tma_load({name}_desc") for name in "ab"]
    assert loads == [pieces(TAILS[2], config)] * 2
    for barrier, arrivals in (("full", 1), ("empty", 4 * consumers)):
        assert re.findall(rf"{barrier}\[(\d+)\]\.init\({arrivals}\)", source) == [str(s) for s in range(stages)]


@pytest.mark.parametrize("config", [TWO_CONSUMERS, ONE_CONSUMER], ids=["two", "one"])
def test_stage_is_released_only_behind_the_wait_for_its_wgmma(
    lowered: Callable[..., str], config: dict[str, int]
) -> None:
    source = lowered(build_gemm(392, 520, 1000), config)
    steps = re.findall(
        r"full\[[^;]*\]\.wait|wgmma_ss|warpgroup_commit_batch|wait_wgmma<\d>|empty\[[^;]*\]\.arrive|"
        r"warpgroup_fence_operand",
        source,
    )
    step = re.compile(r"(full|empty)\[.*\]\.(\w+)")
    steps = [step.sub(r"\1.\2", s) for s in steps]
    stages = config["stages"]
    piece = [
        "full.wait", "warpgroup_fence_operand", "wgmma_ss", "warpgroup_commit_batch", "warpgroup_fence_operand",
        "wait_wgmma<1>", "empty.arrive",
    ]  # fmt: skip
    count = pieces(1000, config)
    assert steps == [*piece * count, "wait_wgmma<0>", "warpgroup_fence_operand"] * config["consumers"]
    # What is given back is the stage before: (stage - 1) mod stages.
    back = {4: r"empty\[\(\(stage\w* \+ 3\) & 3\)\]\.arrive", 3: r"empty\[\(\(stage\w* \+ 2\) % 3\)\]\.arrive"}
    assert len(re.findall(back[stages], source)) == count * config["consumers"]


def test_c_is_staged_apart_from_the_stages(dense: Callable[..., str]) -> None:
    source = dense("NT", "float16", TWO_CONSUMERS)
    places = {n: int(at) for n, at in re.findall(r"(\w)_smem = \(\(void\*\)\(\(char\*\)buf_dyn_shmem \+ (\d+)", source)}
    sizes = {"a": 4 * 128 * 64 * 2, "b": 4 * 256 * 64 * 2, "c": 128 * 128 * 2}
    spans = sorted((places[name], places[name] + size) for name, size in sizes.items())
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    assert spans[-1][1] <= SHARED_BYTES


@layouts
@pytest.mark.parametrize("config", [TWO_CONSUMERS, ONE_CONSUMER], ids=["two", "one"])
def test_traced_kernel_differs_by_its_markers_alone(
    dense: Callable[..., str], layout: str, config: dict[str, int]
) -> None:
    traced = dense(layout, "float16", config, traced=True)
    groups = 1 + config["consumers"]
    body = traced[traced.index("gemm_kernel(") :]
    assert body.count("tileops_open(") == groups
    assert {int(g) for g in re.findall(r"tileops_mark\((\d+),", body)} == set(range(groups))
    unmarked = re.sub(r"\n *tileops_\w+\([^\n]*\);", "", body)
    unmarked = re.sub(r", long\* __restrict__ slots|, int64_t\* __restrict__ slots", "", unmarked)
    stripped = dense(layout, "float16", config)
    stripped = stripped[stripped.index("gemm_kernel(") :]
    assert "arrive_and_expect_tx" in stripped
    assert unmarked == stripped


@pytest.mark.nvcc
def test_machine_code(
    dense: Callable[..., str], lowered: Callable[..., str], compile_cubin: Callable[..., Path]
) -> None:
    builds = {
        "two": ("NT", "float16", TWO_CONSUMERS, False),
        "two_traced": ("NN", "bfloat16", TWO_CONSUMERS, True),
        "one": ("TN", "float16", ONE_CONSUMER, False),
        "one_traced": ("TT", "bfloat16", ONE_CONSUMER, True),
    }
    sources = {name: dense(*build) for name, build in builds.items()}
    # Of the kernel for rows that are not aligned it is enough that it compiles.
    for name, traced in {"unaligned": False, "unaligned_traced": True}.items():
        source = lowered(build_gemm_unaligned(67, 45, 33, traced=traced), {})
        assert "tma_load" not in source
        assert ("tileops_open" in source) == traced
        sources[name] = source
    found = _disassembled(compile_cubin(joined(sources)))
    assert found.keys() == sources.keys()
    for name, (*_, config, _) in builds.items():
        operations = [line.split()[0] for line in found[name]]
        spilled = {"LDL", "STL"} & {operation.split(".")[0] for operation in operations}
        assert not spilled, f"{name}: registers were spilled"
        matrix = [at for at, operation in enumerate(operations) if operation.startswith("HGMMA")]
        assert len(matrix) >= config["consumers"] * config["block_k"] // 16
        # From every group's last instruction on: first a wait for groups, then the arrival at the empty barrier.
        committed = [at for at in matrix if "gsb0" in found[name][at]]
        assert committed
        awaited = ("WARPGROUP.DEPBAR", "SYNCS.ARRIVE", "HGMMA")
        for at in committed:
            following = [op for op in operations[at + 1 :] if op.startswith(awaited)]
            assert following[0].startswith("WARPGROUP.DEPBAR")


@layouts
@dtypes
def test_unaligned_rows_lower_in_every_layout(lowered: Callable[..., str], layout: str, dtype: str) -> None:
    source = lowered(build_gemm_unaligned(67, 45, 33, dtype, *LAYOUTS[layout]), {})
    assert "tileops" not in source
    # Writers make their shared memory visible to the tensor cores before the block's barrier.
    copied = source[: source.index("wgmma_ss")]
    assert copied.rindex("fence_proxy_async", 0, copied.rindex("__syncthreads")) > copied.index("a_smem)[")


def test_odd_columns_are_stored_without_tma(lowered: Callable[..., str]) -> None:
    source = lowered(build_gemm(77, 1003, 72), TWO_CONSUMERS)
    assert "tma_store" not in source
    assert "< 1003" in source


def test_alignment_is_that_of_the_rows() -> None:
    assert is_aligned(1, 1, 8)
    assert not is_aligned(8, 8, 4)
    assert is_aligned(1, 8, 1000, False, False)
    assert not is_aligned(8, 1, 8, False, False)
    assert is_aligned(8, 8, 3, True, False)
    assert not is_aligned(1, 8, 8, True, False)
    assert is_aligned(8, 3, 8, True, True)
    assert not is_aligned(8, 8, 1, True, True)


def test_default_configurations_are_valid_and_fill_the_gpu() -> None:
    for m, n in itertools.product((1, 64, 128, 1024, 4096, 16384), repeat=2):
        config = default_config(m, n, 4096)
        blocks = -(-m // config["block_m"]) * -(-n // config["block_n"])
        assert blocks >= 99 or (blocks >= 44 and config["block_m"] == 64) or config["block_n"] == 64
        checked_store_columns(n, **{name: config[name] for name in config if name != "panel"}, wanted=None)


@pytest.mark.parametrize("build", [build_gemm, build_gemm_unaligned])
def test_builders_refuse_what_they_cannot_build(build: Any) -> None:
    with pytest.raises(ValueError, match="at least 1, got m=0"):
        build(0, 8, 8)
    with pytest.raises(ValueError, match="float16, bfloat16, got 'float32'"):
        build(8, 8, 8, "float32")


def test_unaligned_rows_are_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"k=500.*pad both to multiples of 8, or use build_gemm_unaligned"):
        build_gemm(64, 64, 500)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"consumers": 3}, "consumers must be 1 or 2"),
        ({"block_m": 64}, "block_m must be a multiple of 128"),
        ({"block_m": 512}, "up to 256"),
        ({"block_n": 40}, "block_n must be a multiple of 16"),
        ({"block_k": 48}, "block_k must be 32, 64 or 128"),
        ({"stages": 0}, "stages must be at least 1"),
        ({"stages": 5}, "exceed shared memory by"),
        ({"consumers": 1}, "256 registers a thread"),
        ({"store_columns": 96}, "store_columns must divide block_n=256"),
        ({"store_columns": 256}, "fit into the 34816 bytes"),
    ],
)
def test_configurations_that_cannot_work_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_gemm(256, 256, 256).get_tir(**{**TWO_CONSUMERS, **change})


def test_operator_checks_its_problem() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        GemmOp(8, 8, 0)
    with pytest.raises(ValueError, match=r"torch\.float16 or torch\.bfloat16, got torch\.float32"):
        GemmOp(8, 8, 8, torch.float32)


def test_operator_checks_its_operands() -> None:
    op = GemmOp(16, 24, 32, torch.float16, trans_a=True, trans_b=True)
    a, b = torch.zeros(32, 16, dtype=torch.float16), torch.zeros(24, 32, dtype=torch.float16)
    with pytest.raises(ValueError, match=r"a must have shape \(32, 16\), got \(16, 32\)"):
        op.forward(a.T.contiguous(), b)
    with pytest.raises(ValueError, match=r"b must be of type torch\.float16, got torch\.bfloat16"):
        op.forward(a, b.bfloat16())
    with pytest.raises(ValueError, match=r"a must be contiguous, got strides \(1, 32\)"):
        op.forward(torch.zeros(16, 32, dtype=torch.float16).T, b)
    with pytest.raises(ValueError, match=r"a must be on a GPU, got cpu"):
        op.forward(a, b)


def _disassembled(cubin: Path) -> dict[str, list[str]]:
    """The instructions of a cubin's kernels in order, without predicates."""
    tool = find_nvdisasm()
    if tool is None:
        pytest.skip("needs nvdisasm")
    text = subprocess.run([tool, "-c", cubin], capture_output=True, text=True, check=True).stdout
    _, *sections = re.split(r"^\s*\.section\s+", text, flags=re.MULTILINE)
    instruction = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?(\S.*?)\s*;", re.MULTILINE)
    named = ((re.match(r"\.text\.(\w+)", section), section) for section in sections)
    return {name[1]: instruction.findall(section) for name, section in named if name}


# ---------------------------------------------------------------------------------------------------------------------
# On a Hopper GPU

hopper = pytest.mark.gpu(capability=(9, 0))
# Half a unit in the last place, relative to a number's magnitude, bounds the rounding of C's elements; the float32 sums
# add little to that.
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
SMALL = ((8, 8, 8), (200, 328, 136))


def _operands(shape: tuple[int, int, int], dtype: str, layout: str, integers: bool = False) -> tuple[Any, Any]:
    m, n, k = shape
    trans_a, trans_b = LAYOUTS[layout]
    generator = torch.Generator().manual_seed(m + n + k)
    sizes = ((k, m) if trans_a else (m, k)), ((n, k) if trans_b else (k, n))
    make = (lambda s: torch.randint(-3, 4, s, generator=generator)) if integers else (
        lambda s: torch.randn(s, generator=generator)
    )  # fmt: skip
    a, b = (make(size).to(getattr(torch, dtype)).cuda() for size in sizes)
    return a, b


def _exact(a: Any, b: Any, layout: str) -> Any:
    trans_a, trans_b = LAYOUTS[layout]
    return (a.T if trans_a else a).double() @ (b.T if trans_b else b).double()


def _error(got: Any, exact: Any) -> float:
    return float((got.double() - exact).norm() / exact.norm())


@hopper
@layouts
@dtypes
@pytest.mark.parametrize("config", [TWO_CONSUMERS, ONE_CONSUMER], ids=["two", "one"])
def test_products_match_float64(layout: str, dtype: str, config: dict[str, int]) -> None:
    op = GemmOp(*TAILS, getattr(torch, dtype), *LAYOUTS[layout], config=config)
    a, b = _operands(TAILS, dtype, layout)
    assert _error(op.forward(a, b), _exact(a, b, layout)) < 1.05 * ROUNDING[dtype]
    # Small integers: every sum is exact, so that one lost or doubled tile of K shows in full.
    a, b = _operands(TAILS, dtype, layout, integers=True)
    assert torch.equal(op.forward(a, b), _exact(a, b, layout).to(a.dtype))


@hopper
@layouts
@pytest.mark.parametrize("shape", SMALL)
def test_small_problems_match_float64(layout: str, shape: tuple[int, int, int]) -> None:
    a, b = _operands(shape, "float16", layout, integers=True)
    got = GemmOp(*shape, torch.float16, *LAYOUTS[layout])(a, b)
    assert torch.equal(got, _exact(a, b, layout).to(a.dtype))


@hopper
@layouts
@dtypes
def test_unaligned_rows_match_float64(layout: str, dtype: str) -> None:
    shape = (131, 67, 77)
    op = GemmOp(*shape, getattr(torch, dtype), *LAYOUTS[layout])
    a, b = _operands(shape, dtype, layout)
    assert _error(op.forward(a, b), _exact(a, b, layout)) < 1.05 * ROUNDING[dtype]


@hopper
@pytest.mark.parametrize("shape", [(1, 1, 8), (77, 1003, 72)])
def test_odd_columns_match_float64(shape: tuple[int, int, int]) -> None:
    a, b = _operands(shape, "float16", "NT", integers=True)
    assert torch.equal(GemmOp(*shape)(a, b), _exact(a, b, "NT").to(a.dtype))


@hopper
@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (128, 2112, 7168)])
def test_large_problems_give_the_same_bits_every_time(shape: tuple[int, int, int]) -> None:
    op = GemmOp(*shape)
    a, b = _operands(shape, "float16", "NT", integers=True)
    exact = _exact(a, b, "NT").to(a.dtype)
    assert all(torch.equal(op.forward(a, b), exact) for _ in range(20))


@hopper
@layouts
@pytest.mark.parametrize("config", [TWO_CONSUMERS, ONE_CONSUMER], ids=["two", "one"])
def test_traced_bits_and_events(layout: str, config: dict[str, int]) -> None:
    problem = (*TAILS, "float16", *LAYOUTS[layout])
    a, b = _operands(TAILS, "float16", layout)
    kernel = build_gemm(*problem, traced=True)(**config)
    got, slots = kernel(a, b)
    assert torch.equal(got, build_gemm(*problem, traced=False)(**config)(a, b))

    timeline = trace.decode(kernel, slots)
    m, n, k = TAILS
    ctas = -(-m // config["block_m"]) * -(-n // config["block_n"])
    tiles = -(-k // config["block_k"])
    names = ["consumer"] if config["consumers"] == 1 else ["consumer0", "consumer1"]
    assert len(timeline.ctas) == ctas
    assert timeline.dropped == 0
    assert timeline.never_fired == ()
    expected = {("producer", "barrier", "acquire"): tiles, ("producer", "tma", "tma"): tiles,
                ("producer", "barrier", "arrive"): tiles}  # fmt: skip
    for name in names:
        expected |= {(name, "barrier", "wait"): tiles, (name, "wgmma", "mma"): tiles,
                     (name, "wgmma", "drain"): 1, (name, "main", "epilogue"): 1}  # fmt: skip
    for cta in range(ctas):
        rows = timeline.slices.where(cta=cta)
        found = list(zip(rows.group, rows.lane, rows.name))
        assert {key: found.count(key) for key in set(found)} == expected

        def times(group: str, name: str, rows: Any = rows) -> tuple[Any, Any]:
            own = rows.where(group=group, name=name)
            return own.start, own.start + own.duration

        arrive_begin, _ = times("producer", "arrive")
        _, acquire_end = times("producer", "acquire")
        stages = config["stages"]
        for name in names:
            mma_begin, _ = times(name, "mma")
            assert (times(name, "wait")[1] >= arrive_begin).all()
            # Stage k comes back within the consumer's iteration k + 1.
            assert (acquire_end[stages:] >= mma_begin[1 : len(acquire_end) - stages + 1]).all()
    assert len(timeline.flows) == ctas * tiles * len(names)


@hopper
def test_operator_traces_when_tracing_is_on(tmp_path: Path) -> None:
    op = GemmOp(*TAILS)
    a, b = _operands(TAILS, "float16", "NT")
    plain = op.forward(a, b)
    trace.enable(str(tmp_path))
    try:
        traced = op.forward(a, b)
    finally:
        trace.disable()
    assert torch.equal(plain, traced)
    written = {f"gemm_392x520x328.{suffix}" for suffix in ("html", "tltrace")} | {"index.html"}
    assert {path.name for path in tmp_path.iterdir()} == written


@hopper
def test_operands_at_odd_addresses_are_refused() -> None:
    op = GemmOp(8, 8, 8)
    a = torch.zeros(65, dtype=torch.float16, device="cuda")[1:].view(8, 8)
    with pytest.raises(ValueError, match=r"pass a copy, a\.clone\(\)"):
        op.forward(a, a.clone())
