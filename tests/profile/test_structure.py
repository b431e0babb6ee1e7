"""What a trace shows: intervals, nesting, attribution, gaps, queues, waits, artifacts; against counting by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.profile.columns import Trace
from tileops.profile.reading import read_trace
from tileops.profile.structure import analyze, nesting
from tileops.profile.structure.artifacts import stands_out
from tileops.profile.structure.attribution import instances
from tileops.profile.structure.intervals import covered, length, merge, overlap
from tileops.profile.structure.launching import launch_time

from .kineto import Maker

INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=12)


def moments(intervals) -> set[int]:
    return {moment for begin, duration in intervals for moment in range(begin, begin + duration)}


def columns(intervals) -> tuple[np.ndarray, np.ndarray]:
    begin = np.array([begin for begin, _ in intervals], np.int64)
    return begin, begin + np.array([duration for _, duration in intervals], np.int64)


@given(INTERVALS, INTERVALS)
def test_unions_count_moments(one, other):
    first, second = merge(*columns(one)), merge(*columns(other))
    assert length(first) == len(moments(one))
    assert (first[0][1:] > first[1][:-1]).all()
    assert overlap(first, second) == len(moments(one) & moments(other))
    expected = [len(moments(one) & moments([interval])) for interval in other]
    assert covered(first, *columns(other)).tolist() == expected


@st.composite
def nested(draw):
    """Intervals that nest as calls of a thread do, some of no length, and their parents."""
    found: list[tuple[int, int, int]] = []

    def call(begin: int, room: int, parent: int, depth: int) -> None:
        while room > 0 and len(found) < 25:
            before = draw(st.integers(0, room))
            duration = draw(st.integers(0, room - before))
            found.append((begin + before, begin + before + duration, parent))
            if depth < 4 and duration and draw(st.booleans()):
                call(begin + before, duration, len(found) - 1, depth + 1)
            begin, room = begin + before + duration, room - before - duration
            if not draw(st.booleans()):
                return

    call(0, 40, -1, 0)
    return found


def in_order(found):
    """As the trace has them."""
    order = sorted(range(len(found)), key=lambda i: (found[i][0], found[i][0] - found[i][1], i))
    return np.array([found[i][0] for i in order]), np.array([found[i][1] for i in order])


@settings(max_examples=300, deadline=None)
@given(nested(), st.lists(st.integers(-1, 41), max_size=8))
def test_innermost_is_the_shortest_that_holds_a_moment(found, asked):
    begin, end = in_order(found)
    answer = nesting.innermost(begin, end, np.array(asked, np.int64))
    for moment, index in zip(asked, answer.tolist()):
        holding = [i for i in range(len(begin)) if begin[i] <= moment < end[i]]
        if not holding:
            assert index == -1
        else:
            assert index in holding
            assert end[index] - begin[index] == min(end[i] - begin[i] for i in holding)


@settings(max_examples=300, deadline=None)
@given(nested())
def test_parents_hold_their_children(found):
    begin, end = in_order(found)
    for child, parent in enumerate(nesting.parents(begin, end).tolist()):
        holding = [
            i
            for i in range(len(begin))
            if i != child
            and begin[i] <= begin[child] < end[i]
            and (end[i] - begin[i], -i) > (end[child] - begin[child], -child)
        ]
        if begin[child] == end[child]:
            continue  # whether a moment stands in the interval that ends with it, nobody can tell
        shortest = min((end[i] - begin[i] for i in holding), default=None)
        assert (None if parent < 0 else end[parent] - begin[parent]) == shortest


def by_name(rows) -> dict:
    return {(row.name, row.kind): row for row in rows}


def test_the_table_is_pytorchs(tmp_path):
    """Against key_averages() of the profile that wrote the trace."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    x = torch.randn(32, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            for _ in range(3):
                with record_function("outer"):
                    with record_function("inner"):
                        net(x).sum().backward()
                    torch.randn(50, 50).svd()
    path = tmp_path / "t.json"
    profiler.export_chrome_trace(str(path))
    rows = {row.name: row for row in analyze(read_trace(path)).table if row.kind in ("operator", "label")}
    averages = {row.key: row for row in profiler.key_averages()}
    assert len(rows) > 15
    assert rows.keys() <= averages.keys()
    for name, row in rows.items():
        # PyTorch folds an operator into the one of its name that holds it alone.
        assert row.calls >= averages[name].count
        # PyTorch rounds each event to whole microseconds in some releases.
        assert row.self_cpu_ns / 1000 == pytest.approx(averages[name].self_cpu_time_total, abs=1.0 * row.calls), name
        assert row.cpu_total_ns / 1000 == pytest.approx(averages[name].cpu_time_total, abs=1.0 * row.calls), name
        assert row.self_cuda_ns is None


def forward(tmp_path) -> Trace:
    maker = Maker()
    maker.label("forward_pass", 0, 100)
    maker.label("attention_block", 10, 30)
    maker.op("aten::mm", 12, 10)
    maker.launch(15, 4, 30, 50, "mm_kernel")
    maker.op("aten::linear", 50, 20)
    maker.op("aten::addmm", 52, 15)
    maker.launch(55, 3, 80, 20, "add_kernel")
    maker.launch(62, 2, 100, 5, "add_kernel")
    maker.launch(90, 4, 110, 7, "other_kernel")
    maker.launch(95, 1, 130, 11, "backward_kernel", tid=202)
    maker.launch(150, 4, 160, 1, "outside")
    return maker.trace(tmp_path)


def test_kernels_go_to_labels_and_operators(tmp_path):
    found = analyze(forward(tmp_path))
    rows = by_name(found.table)
    us = 1000
    assert rows["aten::mm", "operator"].self_cuda_ns == 50 * us
    assert (rows["aten::linear", "operator"].self_cuda_ns, rows["aten::linear", "operator"].cuda_total_ns) == (
        0,
        25 * us,
    )
    assert rows["aten::addmm", "operator"].self_cuda_ns == 25 * us
    assert rows["aten::addmm", "operator"].self_cpu_ns == (15 - 3 - 2) * us
    assert rows["aten::linear", "operator"].self_cpu_ns == 5 * us
    assert rows["add_kernel", "kernel"].self_cuda_ns == 25 * us
    assert rows["cudaLaunchKernel", "runtime"].cpu_total_ns == 18 * us
    assert found.table[0].self_cuda_ns == 50 * us
    outer, inner = found.labels
    assert (outer.path, outer.gpu_ns, outer.self_gpu_ns) == (("forward_pass",), 93 * us, 43 * us)
    assert (outer.kernels, outer.by_time) == (5, 1)
    assert outer.kernel_names == ("mm_kernel", "add_kernel", "backward_kernel")
    assert (inner.path, inner.gpu_ns, inner.kernels) == (("forward_pass", "attention_block"), 50 * us, 1)
    (passage,) = instances(forward(tmp_path), "forward_pass")
    assert (passage.gpu_ns, passage.span_ns, passage.kernels, passage.launch_ns) == (93 * us, 111 * us, 5, 14 * us)
    assert instances(forward(tmp_path), "never") == []


def test_a_label_inside_itself_counts_once(tmp_path):
    maker = Maker()
    maker.label("a", 0, 100)
    maker.label("a", 10, 50)
    maker.launch(20, 5, 30, 7)
    rows = by_name(analyze(maker.trace(tmp_path)).table)
    row = rows["a", "label"]
    assert (row.calls, row.cpu_total_ns, row.self_cpu_ns, row.cuda_total_ns) == (2, 100_000, 95_000, 7000)


def test_passages_of_a_label_inside_itself_and_inside_others(tmp_path):
    """Twice `a` with another `a` inside, once inside `b`: each passage has all of its kernels, once."""
    maker = Maker()
    for begin in (0, 100):
        maker.label("a", begin, 50)
        maker.label("a", begin + 10, 20)
        maker.launch(begin + 12, 1, begin + 15, 3)
        maker.launch(begin + 35, 1, begin + 38, 4)
    maker.label("b", 200, 50)
    maker.label("a", 210, 20)
    maker.launch(215, 1, 217, 5)
    trace = maker.trace(tmp_path)
    assert [(p.begin_ns // 1000, p.gpu_ns, p.kernels) for p in instances(trace, "a")] == [
        (0, 7000, 2), (100, 7000, 2), (210, 5000, 1),
    ]  # fmt: skip
    assert [p.gpu_ns for p in instances(trace, "a", outermost=True)] == [7000, 7000]


def causes(gaps) -> dict[str, tuple[int, int]]:
    return {entry.cause: (entry.count, entry.total_ns) for entry in gaps.causes}


def test_gaps_and_their_causes(tmp_path):
    maker = Maker()
    maker.launch(0, 2, 6, 10)  # until 16: latency of 6 from the call's beginning
    maker.launch(3, 2, 17, 10)  # queued: a gap of 1, until 27
    maker.launch(40, 2, 46, 4)  # launched at 40, when the GPU had run out at 27: host late, 19, until 50
    maker.call("cudaDeviceSynchronize", 45, 10)  # until 55
    maker.launch(56, 2, 62, 8)  # the host waited: 12, until 70
    maker.launch(60, 2, 75, 5)  # queued at 62, began at 75: 5
    maker.add("kernel", "orphan", 100, 5, pid=0, tid=7, device=0, stream=7, correlation=999)  # 20
    (gaps,), apart = (analyze(maker.trace(tmp_path)).gaps, analyze(maker.trace(tmp_path)).stream_gaps)
    assert apart == []
    assert causes(gaps) == {
        "already queued": (2, 6_000), "host late": (1, 19_000), "synchronization": (1, 12_000), "unknown": (1, 20_000),
    }  # fmt: skip
    assert gaps.idle_ns == 57_000
    assert [gap.duration_ns for gap in gaps.longest] == [20_000, 19_000, 12_000, 5_000, 1_000]
    assert (gaps.longest[0].before, gaps.longest[0].after, gaps.longest[0].begin_ns) == ("kernel_a", "orphan", 80_000)


def test_a_stream_that_waits_for_another(tmp_path):
    maker = Maker()
    maker.launch(0, 2, 6, 10, stream=7)
    maker.launch(3, 2, 12, 30, stream=8)  # 12 to 42
    maker.launch(6, 2, 43, 5, stream=7)  # queued since 8, waits for stream 8: its stream was idle from 16 to 43
    found = analyze(maker.trace(tmp_path))
    assert causes(found.gaps[0]) == {"already queued": (1, 1_000)}
    seven, eight = found.stream_gaps
    assert (seven.stream, causes(seven)) == (7, {"other stream": (1, 27_000)})
    assert (eight.stream, causes(eight)) == (8, {})
    assert [(stream.stream, stream.busy_ns, stream.alone_ns) for stream in found.streams] == [
        (8, 30_000, 26_000),
        (7, 15_000, 11_000),
    ]


def test_host_and_gpus_share_the_time(tmp_path):
    maker = Maker()
    maker.op("aten::mm", 0, 10)
    maker.launch(2, 2, 8, 20, "mm")  # 8 to 28
    maker.call("cudaStreamSynchronize", 10, 20)  # waiting is not working
    maker.op("aten::add", 40, 5)
    maker.launch(41, 2, 50, 10, "ncclDevKernel_AllReduce", device=1)
    maker.launch(43, 1, 55, 10, "add", device=1, stream=9)
    maker.add("gpu_memcpy", "Memcpy HtoD", 60, 20, pid=1, tid=7, device=1, stream=7, bytes=4096, correlation=77)
    one, two = analyze(maker.trace(tmp_path)).sharing
    assert (one.wall_ns, one.gpu_ns, one.cpu_ns, one.both_ns) == (80_000, 20_000, 15_000, 2_000)
    assert one.neither_ns == 80_000 - 20_000 - 15_000 + 2_000
    assert (two.device, two.gpu_ns, two.copy_ns, two.copy_hidden_ns) == (1, 30_000, 20_000, 5_000)
    assert (two.communication_ns, two.communication_hidden_ns) == (10_000, 5_000)


def test_the_queue(tmp_path):
    maker = Maker()
    for number in range(4):
        maker.launch(10 * number, 2, 100 + 50 * number, 40)  # all launched by 32
    (queue,) = analyze(maker.trace(tmp_path)).queues
    assert queue.deepest == 4
    depth = [sum(10 * n + 2 <= t < 100 + 50 * n for n in range(4)) for t in range(2, 250)]
    assert queue.mean == pytest.approx(sum(depth) / len(depth))
    assert queue.empty_share == 0
    maker = Maker()
    for number in range(600):
        maker.launch(10.0 * number, 2, 10 * number + 1.5, 1)
    (queue,) = analyze(maker.trace(tmp_path)).queues
    assert (queue.deepest, queue.empty_share) == (0, 1.0)
    assert len(queue.history) == 512


def test_launch_calls(tmp_path):
    maker = Maker()
    maker.launch(0, 4, 8, 10)
    maker.launch(10, 6, 22, 10, call="cuLaunchKernelEx")
    maker.launch(20, 8, 40, 20, call="cudaGraphLaunch")
    maker.launch(30, 2, 60, 1, call="hipExtModuleLaunchKernel")
    maker.call("cudaFuncSetAttribute", 40, 100)
    # The driver's call under the runtime's is the same launch.
    maker.add("cuda_driver", "cuLaunchKernel", 1, 2, correlation=1)
    found = analyze(maker.trace(tmp_path)).launches
    assert found.calls == {
        "cudaLaunchKernel": 1, "cuLaunchKernelEx": 1, "cudaGraphLaunch": 1, "hipExtModuleLaunchKernel": 1,
    }  # fmt: skip
    assert (found.count, found.cpu_ns, found.median_ns, found.longest_ns) == (4, 20_000, 5_000, 8_000)
    assert found.ratio == pytest.approx(20 / 41)
    assert found.latency_ns == 16_000


def test_small_kernels_in_a_row(tmp_path):
    maker = Maker()
    for number in range(25):
        maker.launch(10 * number, 3, 10 * number + 5, 2, f"tiny_{number % 3}")
    maker.launch(300, 3, 310, 50, "large")
    for number in range(19):
        maker.launch(400 + 10 * number, 3, 405 + 10 * number, 2)
    (row,) = analyze(maker.trace(tmp_path)).pipelines
    assert (row.kernels, row.names, row.busy_ns, row.span_ns, row.median_ns) == (25, 3, 50_000, 242_000, 2_000)


def test_waits_in_the_middle(tmp_path):
    maker = Maker()
    maker.call("cudaDeviceSynchronize", 0, 1)  # before the first launch
    maker.launch(2, 2, 8, 10)
    maker.op("aten::item", 10, 20)
    maker.call("cudaStreamSynchronize", 12, 15)
    maker.op("aten::item", 32, 20)
    maker.call("cudaStreamSynchronize", 33, 5)
    maker.launch(60, 2, 66, 10)
    maker.call("cudaMemcpyAsync", 63, 10)
    maker.call("cudaDeviceSynchronize", 80, 10)  # at the end
    (sync,) = analyze(maker.trace(tmp_path)).syncs
    assert (sync.call, sync.inside, sync.count) == ("cudaStreamSynchronize", "aten::item", 2)
    assert (sync.total_ns, sync.longest_ns) == (20_000, 15_000)


def test_what_a_warm_up_should_have_done(tmp_path):
    maker = Maker()
    maker.call("cudaMalloc", 5, 100)
    maker.call("cudaMalloc", 205, 300)
    maker.call("cuModuleLoadData", 600, 1000)
    maker.call("cudaMallocAsync", 610, 1)
    maker.add("overhead", "Lazy Function Loading", 2000, 50)
    maker.add("overhead", "Activity Buffer Request", 2100, 5)
    maker.add("overhead", "Command Buffer Full", 2200, 5)
    maker.add("python_function", "triton/compiler/compiler.py(226): compile", 3000, 9000)
    maker.add("python_function", "torch/nn/functional.py(3): relu", 3000, 9000)
    found = analyze(maker.trace(tmp_path)).artifacts
    assert [(entry.kind, entry.count, entry.total_ns) for entry in found] == [
        ("compilation", 1, 9_000_000),
        ("module load", 1, 1_000_000),
        ("first allocation", 2, 400_000),
        ("module load", 1, 50_000),
        ("profiler", 1, 5_000),
    ]
    assert found[1].first_ns == 595_000


def test_a_first_passage_that_stands_out(tmp_path):
    maker = Maker()
    for number, took in enumerate([90, 10, 11, 10, 12]):
        maker.label("step", 100 * number, took)
        maker.label("steady", 100 * number + 1, 5)
    (outlier,) = analyze(maker.trace(tmp_path)).outliers
    assert (outlier.label, outlier.first_ns, outlier.median_ns, outlier.calls) == ("step", 90_000, 10_500, 5)


@pytest.mark.parametrize(
    ("took", "expected"),
    [([100, 10, 10], True), ([15, 10, 10], False), ([16, 10, 10], True), ([16, 8, 12, 10], False), ([10, 10], False)],
)
def test_standing_out(took, expected):
    assert stands_out(np.array(took)) is expected


def test_an_event_alone(tmp_path):
    """Every part says something, or nothing, of traces that have only one kind of event."""
    for kind in ("cpu_op", "kernel", "gpu_memcpy", "cuda_runtime", "user_annotation", "overhead", "odd"):
        maker = Maker()
        maker.add(kind, "cudaLaunchKernel", 1, 0)
        analyze(maker.trace(tmp_path))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_any_trace_adds_up(tmp_path_factory, seed):
    random = np.random.default_rng(seed)
    maker = Maker()
    for _ in range(30):
        begin = float(random.integers(0, 500))
        maker.launch(
            begin, float(random.integers(0, 9)), begin + float(random.integers(-3, 90)), float(random.integers(0, 40)),
            stream=int(random.integers(1, 4)), device=int(random.integers(0, 2)), tid=int(random.integers(1, 3)),
        )  # fmt: skip
        maker.call("cudaStreamSynchronize", begin + 5, float(random.integers(0, 40)))
    trace = maker.trace(tmp_path_factory.mktemp("trace"))
    found = analyze(trace)
    kernels = trace.events[trace.events["device"] >= 0]
    for gaps, shared in zip(found.gaps, found.sharing):
        own = kernels[kernels["device"] == gaps.device]
        busy = moments((int(e["begin"]) // 1000, int(e["duration"]) // 1000) for e in own)
        assert shared.gpu_ns == 1000 * len(busy)
        span = int((own["begin"] + own["duration"]).max() - own["begin"].min())
        # A kernel of no length parts a gap, and may be the first or the last.
        assert gaps.idle_ns == span - shared.gpu_ns == sum(entry.total_ns for entry in gaps.causes)
        assert shared.wall_ns == shared.gpu_ns + shared.cpu_ns - shared.both_ns + shared.neither_ns
        assert sum(stream.kernels for stream in found.streams if stream.device == gaps.device) == len(own)


def test_amd(tmp_path):
    """ROCm's names for the same: calls are hip's, kernels Tensile's, and streams have large numbers."""
    maker = Maker(deviceProperties=[{"id": 0, "name": "AMD Instinct MI300X"}])
    for number in range(3):
        begin = 100 * number
        maker.op("aten::mm", begin, 30)
        maker.launch(begin + 5, 8, begin + 20, 40, "Cijk_Ailk_Bljk_HHS_BH", call="hipExtModuleLaunchKernel", stream=0)
        maker.call("hipStreamSynchronize", begin + 15, 50)
    maker.call("hipMalloc", 400, 5)
    found = analyze(maker.trace(tmp_path))
    assert by_name(found.table)["aten::mm", "operator"].self_cuda_ns == 120_000
    assert found.launches.calls == {"hipExtModuleLaunchKernel": 3}
    assert [(sync.call, sync.count) for sync in found.syncs] == [("hipStreamSynchronize", 2)]
    assert [(entry.kind, entry.name) for entry in found.artifacts] == [("first allocation", "hipMalloc")]
    assert causes(found.gaps[0]) == {"synchronization": (2, 120_000)}


def test_several_gpus_keep_apart(tmp_path):
    maker = Maker(deviceProperties=[{"id": n, "name": f"GPU {n}"} for n in range(4)])
    for device in range(4):
        maker.launch(10 * device, 2, 20 + 10 * device, 10 * (device + 1), device=device)
    found = analyze(maker.trace(tmp_path))
    assert [(entry.device, entry.name, entry.gpu_ns) for entry in found.sharing] == [
        (n, f"GPU {n}", 10_000 * (n + 1)) for n in range(4)
    ]
    assert len(found.gaps) == len(found.queues) == 4


def test_first_calls_work_is_a_cause_of_gaps_and_no_launching(tmp_path):
    """Kernels of 100 µs: one is launched by a call of 5 ms while the GPU idles, one behind a full queue."""
    maker = Maker()
    for number in range(20):
        maker.launch(10 * number, 5, 10 + 100 * number, 100, "known")
    maker.launch(2200, 5000, 7300, 100, "lazy")  # the first of its name: loads its module
    maker.launch(7250, 4, 7400, 6000, "long")
    maker.launch(7300, 5500, 13400, 100, "queued")  # the first of its name too, but the GPU worked meanwhile
    maker.launch(13600, 4, 13700, 100, "lazy")
    maker.call("cudaMalloc", 14000, 900)
    maker.launch(14950, 4, 15000, 100, "known")
    maker.launch(15400, 4, 15450, 100, "known")
    found = analyze(maker.trace(tmp_path))
    assert [(entry.kind, entry.name, entry.count, entry.total_ns) for entry in found.artifacts] == [
        ("first launch", "cudaLaunchKernel", 1, 5_000_000), ("first allocation", "cudaMalloc", 1, 900_000),
    ]  # fmt: skip
    (gaps,) = found.gaps
    assert causes(gaps)["first call"] == (2, (7300 - 2010) * 1000 + (15000 - 13800) * 1000)
    assert causes(gaps)["host late"] == (2, (13700 - 13500) * 1000 + (15450 - 15100) * 1000)
    # The launches' time is without the one that loaded a module.
    assert launch_time(maker.trace(tmp_path), 0) == (20 * 5 + 4 + 5500 + 4 + 4 + 4) * 1000


def test_launches_are_counted_for_the_gpu_that_they_launch_on(tmp_path):
    maker = Maker()
    for number in range(10):
        maker.launch(100 * number, 6, 100 * number + 10, 50, device=0)
        maker.launch(100 * number + 50, 2, 100 * number + 60, 50, device=1)
    trace = maker.trace(tmp_path)
    assert [launch_time(trace, device) for device in (0, 1, 2)] == [60_000, 20_000, 0]


def test_a_step_in_which_nothing_was_recorded_is_as_long_as_it_is(tmp_path):
    maker = Maker()
    maker.label("ProfilerStep#1", 0, 10_000)
    maker.op("aten::add", 9000, 20)
    maker.launch(9005, 5, 9015, 10)
    (entry,) = analyze(maker.trace(tmp_path)).sharing
    assert (entry.wall_ns, entry.gpu_ns, entry.neither_ns) == (10_000_000, 10_000, 9_975_000)


def test_a_launch_that_only_just_came_is_late_although_its_call_had_returned(tmp_path):
    """Every kernel begins 6 µs after its call at the earliest: one that begins after 8 has not waited in a queue."""
    maker = Maker()
    for number in range(30):
        maker.launch(100 * number, 2, 100 * number + 6, 10)  # until 16
    maker.launch(3000, 2, 3006, 10)
    maker.launch(3012, 2, 3020, 10)  # returned at 3014, the GPU ran out at 3016, 8 after the call
    maker.launch(3013, 2, 3045, 10)  # returned at 3015, began 32 later: something else held it
    (gaps,) = analyze(maker.trace(tmp_path)).gaps
    assert causes(gaps) == {"host late": (31, (30 * 90 + 4) * 1000), "already queued": (1, 15_000)}


def test_where_times_scatter_a_long_first_one_does_not_stand_out():
    scattered, steady = [60, 140, 100, 70, 130, 100], [99, 101, 100, 98, 102, 100]
    assert not stands_out(np.array([160, *scattered]))
    assert stands_out(np.array([160, *steady]))
    assert not stands_out(np.array([140, *steady]))
