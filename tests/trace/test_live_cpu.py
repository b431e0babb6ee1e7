"""Kernels of the CPU target, recorded for real: outputs are untouched, and the Timeline says what the kernel did."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import tilelang.language as T
import torch

from tileops.trace import Timeline, trace

from . import marked, programs
from .building import cpu_kernel, line_of

FLOAT = "float32"


def launched(kernel: Any, *inputs: Any) -> tuple[list[Any], Timeline]:
    *outputs, slots = kernel(*inputs)
    return outputs, trace.decode(kernel, slots)


# ---------------------------------------------------------------------------------------------------------------------
# Outputs


def test_outputs_are_bit_identical_to_the_untraced_kernel_s() -> None:
    plain = cpu_kernel(lambda: marked.on_the_cpu(trace), traced=False)
    traced = cpu_kernel(lambda: marked.on_the_cpu(trace), traced=True)
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    (c,), timeline = launched(traced, a, b)
    assert torch.equal(c, plain(a, b))
    assert torch.allclose(c, a @ b + (a[:, :16] + a[:, 16:32]).repeat(1, 4), atol=1e-4)
    assert timeline.grid == (4, 4, 1)
    assert timeline.recorded == 16 * (2 + 2 * (1 + 8 + 4 + 4 + 1) + 1)
    assert timeline.dropped == 0
    assert timeline.never_fired == ()
    assert len(timeline.flows) == 16 * 4


# ---------------------------------------------------------------------------------------------------------------------
# Events, against a model


def check_against_model(program: programs.Program, folder: Path) -> None:
    kernel = cpu_kernel(lambda: marked.loaded(folder, programs.text_of(program)).make(trace), max_events=4096)
    a = torch.randn(programs.GRID)
    (out,), timeline = launched(kernel, a)
    runs = programs.expected(program, a.numpy())
    assert out.T.flatten().tolist() == [run.out for run in runs]
    assert timeline.dropped == 0
    assert timeline.recorded == sum(len(events) for run in runs for events in run.events.values())
    for cta, run in enumerate(runs):
        for group in timeline.groups:
            check_row(timeline, cta, group, run.events.get(group, []))


def check_row(timeline: Timeline, cta: int, group: str, model: list[programs.Event]) -> None:
    slices, instants = (list(table.where(cta=cta, group=group)) for table in (timeline.slices, timeline.instants))
    begins = [event for event in model if event.kind == "begin"]
    assert [(s.name, s.lane, s.payload, s.cut) for s in slices] == [(e.name, e.lane, e.payload, False) for e in begins]
    records = [event for event in model if event.kind == "record"]
    assert [(i.name, i.lane, i.payload) for i in instants] == [(e.name, e.lane, e.payload) for e in records]
    slice_of = {event.range: made for event, made in zip(begins, slices)}
    marks = iter(instants)
    times = []
    for event in model:
        if event.kind == "record":
            times.append(next(marks).time)
        else:
            made = slice_of[event.range]
            times.append(made.start + (made.duration if event.kind == "end" else 0))
    assert times == sorted(times)


@hypothesis.settings(
    max_examples=8, deadline=None, derandomize=True, phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)  # fmt: skip
@hypothesis.given(program=programs.programs())
def test_random_kernels_record_what_a_model_says(program: programs.Program, tmp_path_factory: Any) -> None:
    check_against_model(program, tmp_path_factory.mktemp("program"))


# ---------------------------------------------------------------------------------------------------------------------
# Payloads


def test_payloads_arrive_as_they_were_given() -> None:
    def make() -> Any:
        @T.prim_func
        def main(a: T.Tensor((4,), FLOAT), u: T.Tensor((4,), "int32"), c: T.Tensor((4,), "int8"),
                 h: T.Tensor((4,), "int16"), d: T.Tensor((4,), "uint8"), b: T.Tensor((4,), FLOAT)):  # fmt: skip
            with T.Kernel(1, threads=1) as bx:
                own = T.alloc_var("int32")
                real = T.alloc_var("float32")
                own = 7
                real = 0.1
                for i in T.serial(4):
                    trace.record("index", payload=i)
                    trace.record("negative", payload=-i - 1)
                    trace.record("uint32", payload=T.cast(u[i], "uint32"))
                    trace.record("int8", payload=c[i])
                    trace.record("int16", payload=h[i])
                    trace.record("uint8", payload=d[i])
                    trace.record("bool", payload=i > 1)
                    trace.record("equal", payload=i == 2)
                    trace.record("unequal", payload=i != 2)
                    trace.record("float", payload=a[i])
                    trace.record("variable", payload=own)
                    trace.record("float variable", payload=real)
                    if i > 1:
                        trace.record("guarded", payload=c[i - 2])
                    else:
                        trace.record("other")
                    own = own * 2 - 1
                    real = real + 1.0
                for name, value in CONSTANTS.items():
                    trace.record(name, payload=value)
                with trace.range("none"):
                    b[bx] = a[bx]

        return main

    a = torch.tensor([0.1, -math.inf, math.nan, 1e-45])
    unsigned = torch.tensor([0, 1, -(1 << 31), -1], dtype=torch.int32)
    small = torch.tensor([-128, -1, 0, 127], dtype=torch.int8)
    middle = torch.tensor([-32768, -1, 0, 32767], dtype=torch.int16)
    byte = torch.tensor([0, 1, 128, 255], dtype=torch.uint8)
    _, timeline = launched(cpu_kernel(make), a, unsigned, small, middle, byte)
    got: dict[str, list[Any]] = {}
    for instant in timeline.instants:
        got.setdefault(instant.name, []).append(instant.payload)
    assert got["index"] == [0, 1, 2, 3]
    assert got["negative"] == [-1, -2, -3, -4]
    assert got["uint32"] == [0, 1, 1 << 31, (1 << 32) - 1]
    assert (got["int8"], got["int16"], got["uint8"]) == (small.tolist(), middle.tolist(), byte.tolist())
    assert (got["bool"], got["equal"], got["unequal"]) == ([0, 0, 1, 1], [0, 0, 1, 0], [1, 1, 0, 1])
    assert (got["guarded"], got["other"]) == ([-128, -1], [None, None])
    assert np.array_equal(np.float32(got["float"]), a.numpy(), equal_nan=True)
    assert got["variable"] == [7, 13, 25, 49]
    assert np.float32(got["float variable"]).tolist() == [np.float32(0.1) + np.float32(i) for i in range(4)]
    for name, value in CONSTANTS.items():
        (payload,) = got[name]
        assert type(payload) is (float if isinstance(value, (float, np.floating)) else int)
        assert payload == value or (math.isnan(payload) and math.isnan(value))
    (none,) = timeline.slices
    assert none.payload is None


CONSTANTS = {
    "zero": 0, "minus one": -1, "smallest": -(1 << 31), "largest": (1 << 31) - 1, "unsigned": (1 << 32) - 1,
    "beyond int": 1 << 31, "true": True, "false": False, "numpy": np.int16(-5), "half": 0.5,
    "huge": 3.4028234663852886e38,
    "tiny": 2.0**-149, "nan": math.nan, "infinity": math.inf, "minus zero": -0.0, "numpy float": np.float32(0.25),
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Grids


def blocks(*grid: Any, shape: tuple[Any, ...] = (8,)) -> Callable[[], Any]:
    """A kernel that records each block's numbers."""

    def make() -> Any:
        @T.prim_func
        def main(a: T.Tensor(shape, FLOAT), b: T.Tensor((8,), FLOAT)):
            with T.Kernel(*grid, threads=1) as block:
                at = [*block]
                with trace.range("x", payload=at[0]):
                    trace.record("y", payload=at[1] if len(at) > 1 else 0)
                    trace.record("z", payload=at[2] if len(at) > 2 else 0)
                    b[0] = a[(0,) * len(shape)]

        return main

    return make


def check_blocks(timeline: Timeline, grid: tuple[int, ...]) -> None:
    x, y, z = (*grid, 1, 1)[:3]
    assert timeline.grid == (x, y, z)
    wanted = [(i, j, k) for k, j, i in itertools.product(range(z), range(y), range(x))]
    assert list(zip(timeline.ctas.x, timeline.ctas.y, timeline.ctas.z)) == wanted
    assert timeline.slices.payload.tolist() == [i for i, _, _ in wanted]
    for name, axis in (("y", 1), ("z", 2)):
        assert timeline.instants.where(name=name).payload.tolist() == [block[axis] for block in wanted]
    assert timeline.dropped == 0
    assert len(timeline.unfinished) == 0


@pytest.mark.parametrize("grid", [(5,), (3, 4), (2, 3, 4), (1, 1, 1)])
def test_grids_of_one_to_three_dimensions(grid: tuple[int, ...]) -> None:
    _, timeline = launched(cpu_kernel(blocks(*grid)), torch.ones(8))
    check_blocks(timeline, grid)


SYMBOLIC: list[tuple[str, Callable[[Any, Any], tuple[Any, ...]]]] = [
    ("plain", lambda m, n: (m, n)),
    ("divided", lambda m, n: (T.ceildiv(m, 4), T.ceildiv(n, 3))),
    ("one axis", lambda m, n: (2, T.ceildiv(n, 4), 3)),
    ("multiplied", lambda m, n: (m * 2, n + 1)),
    ("three", lambda m, n: (T.ceildiv(n, 2), m, T.ceildiv(m, 8))),
]


@pytest.mark.parametrize(("name", "extents"), SYMBOLIC, ids=[name for name, _ in SYMBOLIC])
def test_one_kernel_records_several_symbolic_shapes(name: str, extents: Callable[[Any, Any], tuple[Any, ...]]) -> None:
    m, n = T.dynamic("m"), T.dynamic("n")
    kernel = cpu_kernel(blocks(*extents(m, n), shape=(m, n)), max_events=16)
    for shape in [(5, 7), (1, 1), (9, 2), (5, 7)]:
        _, timeline = launched(kernel, torch.ones(shape))
        check_blocks(timeline, tuple(int(e) for e in extents(*shape)))


# ---------------------------------------------------------------------------------------------------------------------
# Sizes


def test_thousands_of_sites_keep_their_names() -> None:
    count = 3000

    def make() -> Any:
        @T.prim_func
        def main(a: T.Tensor((8,), FLOAT), b: T.Tensor((8,), FLOAT)):
            with T.Kernel(2, threads=1) as bx:
                for i in list(range(count)):
                    with trace.group(f"group {i % 5}", lead=0):
                        with trace.range(f"range {i}", lane=f"lane {i % 11}", payload=bx * count + i):
                            b[i % 8] = b[i % 8] + a[bx]

        return main

    _, timeline = launched(cpu_kernel(make, max_events=2 * count), torch.ones(8))
    assert len(timeline.slices) == 2 * count
    assert timeline.groups == tuple(f"group {i}" for i in range(5))
    for cta in range(2):
        rows = list(timeline.slices.where(cta=cta))
        numbers = [int(row.name.split()[1]) for row in rows]
        assert sorted(numbers) == [*range(count)]
        for number, row in zip(numbers, rows):
            assert (row.group, row.lane) == (f"group {number % 5}", f"lane {number % 11}")
            assert row.payload == cta * count + number
    assert timeline.never_fired == ()


def looped(turns: int) -> Callable[[], Any]:
    def make() -> Any:
        @T.prim_func
        def main(a: T.Tensor((64,), FLOAT), b: T.Tensor((64,), FLOAT)):
            with T.Kernel(4, threads=1) as bx:
                with trace.range("outer"):
                    for i in T.serial(turns):
                        with trace.range("turn", payload=i):
                            b[bx * 16 + i % 16] = a[bx * 16 + i % 16] * 2.0 + i
                        trace.record("between", payload=-i)
                        b[bx] = b[bx] + 1.0

        return main

    return make


@pytest.mark.parametrize("max_events", [1, 2, 7, 50, 302, 303])
def test_a_full_row_drops_and_counts_and_harms_nothing(max_events: int) -> None:
    turns, a = 100, torch.randn(64)
    events = 2 + 3 * turns
    plain = cpu_kernel(looped(turns), traced=False)
    (b,), timeline = launched(cpu_kernel(looped(turns), max_events=max_events), a)
    assert torch.equal(b, plain(a))
    assert timeline.recorded + timeline.dropped == 4 * events
    assert timeline.meta["max_events"] == max_events
    if max_events >= events:
        assert timeline.dropped == 0
        assert not timeline.slices.cut.any()
    for cta in range(4):
        rows = timeline.slices.where(cta=cta)
        turns_seen = rows.where(name="turn").payload.tolist()
        assert turns_seen == [float(i) for i in range(len(turns_seen))]
        if max_events < events:
            assert rows.where(name="outer").cut.all()
            assert rows.cut.sum() <= 2
            last = timeline.ctas.cycles[cta]
            assert (rows.start + rows.duration <= last).all()


def test_no_write_leaves_a_row() -> None:
    # Two groups side by side: the first overflows thousands of times, the second's records stay as they are.
    def make() -> Any:
        @T.prim_func
        def main(a: T.Tensor((64,), FLOAT), b: T.Tensor((64,), FLOAT)):
            with T.Kernel(3, threads=1) as bx:
                with trace.group("quiet", lead=0):
                    trace.record("begin", payload=bx)
                with trace.group("loud", lead=0):
                    for i in T.serial(5000):
                        trace.record("again", payload=i)
                        b[i % 64] = a[i % 64]
                with trace.group("quiet", lead=0):
                    trace.record("end", payload=-bx)

        return main

    _, timeline = launched(cpu_kernel(make, max_events=3), torch.ones(64))
    quiet = timeline.instants.where(group="quiet")
    assert [(i.cta, i.name, i.payload) for i in quiet] == [
        (cta, name, value) for cta in range(3) for name, value in (("begin", cta), ("end", -cta))
    ]
    assert timeline.dropped == 3 * (5000 - 3)
    assert timeline.instants.where(group="loud").payload.tolist() == [0.0, 1.0, 2.0] * 3


def test_markers_that_never_fired_are_named_with_their_lines() -> None:
    def make() -> Any:
        @T.prim_func
        def main(a: T.Tensor((8,), FLOAT), b: T.Tensor((8,), FLOAT)):
            with T.Kernel(4, threads=1) as bx:
                if bx > 9:
                    with trace.range("never"):
                        b[0] = a[0]
                for i in T.serial(bx - bx):
                    trace.record("nor this")
                trace.record("always")

        return main

    _, timeline = launched(cpu_kernel(make), torch.ones(8))
    never = line_of(__file__, "trace.range(" + '"never")')
    nor_this = line_of(__file__, "trace.record(" + '"nor this")')
    assert timeline.never_fired == (
        f"range 'never' at {__file__}:{never}",
        f"record 'nor this' at {__file__}:{nor_this}",
    )


def test_pipelined_loops_record_on_the_cpu_where_markers_stand() -> None:
    _, timeline = launched(cpu_kernel(lambda: marked.on_the_cpu(trace)), torch.ones(64, 64), torch.ones(64, 64))
    for cta in range(16):
        rows = [(row.name, row.payload) for row in timeline.slices.where(cta=cta, group="cpu")]
        turns = [[("load", ki), ("load", cta % 4), ("multiply", None)] for ki in range(4)]
        wanted = [("clear", None), *itertools.chain(*turns)]
        assert rows == [*wanted, ("again", None), ("add", None), ("again", None), ("add", None), ("store", None)]
    assert (timeline.slices.where(name="again").duration > 0).all()


def test_a_factory_without_a_kernel_of_its_own_is_lowered_for_any_target() -> None:
    # TileLang calls such a factory outside any target: what is lowered has to be right for CUDA and the CPU.
    kernel = cpu_kernel(looped(3))
    source = kernel.get_kernel_source()
    assert "#ifdef __CUDACC__" in source
    _, timeline = launched(kernel, torch.ones(64))
    assert timeline.meta["target"] == "c"
