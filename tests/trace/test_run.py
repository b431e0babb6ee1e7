"""``trace.run``: what it returns, what it writes, and what it says."""

import functools
import logging
import platform
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tilelang.language as T
import torch

from tileops.trace import Trace, TraceError, TraceWarning, capacity, launching, trace
from tileops.trace.recording import Recording

from .building import cpu_kernel

FLOAT = "float32"


def turns(count: int = 5, outputs: int = 1) -> Any:
    """A kernel that records ``count`` ranges in each of two CTAs."""
    if outputs == 0:

        @T.prim_func
        def none(a: T.Tensor((8,), FLOAT)):
            with T.Kernel(2, threads=1) as bx:
                for i in T.serial(count):
                    with trace.range("turn", payload=i):
                        a[bx] = a[bx] + 1.0

        return none
    if outputs == 1:

        @T.prim_func
        def one(a: T.Tensor((8,), FLOAT), b: T.Tensor((8,), FLOAT)):
            with T.Kernel(2, threads=1) as bx:
                b[bx] = 0.0
                for i in T.serial(count):
                    with trace.range("turn", payload=i):
                        b[bx] = b[bx] + a[bx]

        return one

    @T.prim_func
    def two(a: T.Tensor((8,), FLOAT), b: T.Tensor((8,), FLOAT), c: T.Tensor((4,), "int32")):
        with T.Kernel(2, threads=1) as bx:
            b[bx] = a[bx]
            for i in T.serial(count):
                with trace.range("turn", payload=i):
                    c[bx] = i

    return two


@functools.cache
def kernel(traced: bool, outputs: int = 1, count: int = 5, max_events: int = 64) -> Any:
    return cpu_kernel(lambda: turns(count, outputs), traced=traced, outputs=outputs, max_events=max_events)


@pytest.fixture
def tracer(tmp_path: Path) -> Trace:
    """A ``trace`` of its own, switched on, that writes to a folder of the test's."""
    made = Trace()
    made.enable(str(tmp_path / "debug"))
    return made


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        yield


def written(tracer: Trace) -> list[str]:
    """The pages in the tracer's folder, apart from their index."""
    return sorted(path.name for path in Path(tracer.output).glob("*.html") if path.name != "index.html")


@pytest.mark.parametrize("outputs", [0, 1, 2])
def test_it_returns_what_the_untraced_kernel_returns(outputs: int, tracer: Trace) -> None:
    def inputs() -> tuple[Any]:
        return (torch.arange(8.0),)

    plain = kernel(False, outputs)(*inputs())
    traced = tracer.run(kernel(True, outputs), inputs(), stem="x")
    assert type(traced) is type(plain)
    if outputs == 1:
        assert torch.equal(traced[:2], plain[:2])
    else:
        assert len(traced) == len(plain) == outputs
        assert all(torch.equal(t[:2], p[:2]) for t, p in zip(traced, plain))
    assert written(tracer) == ["x.html"]


def test_a_kernel_without_outputs_writes_to_its_inputs(tracer: Trace) -> None:
    a = torch.zeros(8)
    tracer.run(kernel(True, 0), [a])
    assert a.tolist() == [5.0, 5.0, *[0.0] * 6]


def test_the_kernel_decides_and_not_the_switch_traced_kernel(tmp_path: Path) -> None:
    off = Trace()
    off._output = str(tmp_path)
    b = off.run(kernel(True), (torch.ones(8),), stem="x")
    assert b[:2].tolist() == [5.0, 5.0]
    assert (tmp_path / "x.html").exists()


def test_the_kernel_decides_and_not_the_switch_untraced_kernel(tracer: Trace) -> None:
    with pytest.warns(TraceWarning, match=r"'x' was not built for tracing.*traced=trace\.enabled") as caught:
        b = tracer.run(kernel(False), (torch.ones(8),), stem="x")
    assert Path(caught[0].filename) == Path(__file__)
    assert b[:2].tolist() == [5.0, 5.0]
    with pytest.warns(TraceWarning):
        b, c = tracer.run(kernel(False, 2), (torch.ones(8),), "y")
    assert (b.shape, c.shape) == ((8,), (4,))
    tracer.run(kernel(False), (torch.ones(8),), stem="x")  # says it once
    assert not Path(tracer.output).exists()


def test_an_untraced_kernel_runs_silently_while_tracing_is_off() -> None:
    assert Trace().run(kernel(False), (torch.ones(8),))[0] == 5.0


def test_it_dumps_the_first_launches_and_says_once_that_it_stopped(tracer: Trace) -> None:
    inputs = (torch.ones(8),)
    for _ in range(3):
        tracer.run(kernel(True), inputs, stem="x")
    with pytest.warns(TraceWarning, match=r"dumped 3 launches of 'x' and stops.*dumps=.*every=") as caught:
        tracer.run(kernel(True), inputs, stem="x")
    assert Path(caught[0].filename) == Path(__file__)
    for _ in range(5):
        tracer.run(kernel(True), inputs, stem="x")
    tracer.run(kernel(True), inputs, stem="y")
    assert written(tracer) == ["x-2.html", "x-3.html", "x.html", "y.html"]


@pytest.mark.parametrize(("dumps", "every", "launches", "files"), [
    (None, 1, 6, 6), (0, 1, 2, 0), (2, 3, 10, 2), (None, 4, 10, 3), (1, 1, 1, 1),
])  # fmt: skip
def test_how_much_it_dumps_is_a_setting(
    dumps: int | None, every: int, launches: int, files: int, tracer: Trace, tmp_path: Path
) -> None:
    tracer.enable(str(tmp_path), dumps=dumps, every=every)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(launches):
            tracer.run(kernel(True), (torch.ones(8),), stem="x")
    assert len(written(tracer)) == files
    assert len(tracer.dumps) == files


def test_enabling_again_starts_to_count_again(tracer: Trace, tmp_path: Path) -> None:
    for _ in range(2):
        tracer.enable(str(tmp_path), dumps=1)
        tracer.run(kernel(True), (torch.ones(8),), stem="x")
    assert written(tracer) == ["x-2.html", "x.html"]


@pytest.mark.parametrize("options", [
    {"output": ""}, {"output": 3}, {"dumps": -1}, {"dumps": True}, {"dumps": 1.0}, {"every": 0}, {"every": True},
])  # fmt: skip
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TraceError, match="enable: "):
        Trace().enable(**options)


def test_it_warns_of_dropped_events_with_the_size_that_holds_them(tracer: Trace) -> None:
    count = 40
    with pytest.warns(TraceWarning, match="events were dropped") as caught:
        tracer.run(kernel(True, 1, count, 10), (torch.ones(8),), stem="x")
    assert Path(caught[0].filename) == Path(__file__)
    (text,) = (str(one.message) for one in caught)
    needed = int(text.split("max_events=")[1].split()[0])
    assert needed == 2 * count
    assert "it was 10" in text
    tracer.run(kernel(True, 1, count, needed), (torch.ones(8),), stem="x")


def test_files_are_never_written_over(tracer: Trace) -> None:
    Path(tracer.output).mkdir()
    for name in ("x.html", "x-3.html"):
        (Path(tracer.output) / name).write_text("mine")
    for _ in range(2):
        tracer.run(kernel(True), (torch.ones(8),), stem="x")
    assert written(tracer) == ["x-2.html", "x-3.html", "x-4.html", "x.html"]
    assert (Path(tracer.output) / "x.html").read_text() == "mine"
    assert [path.name for path in tracer.dumps] == ["x-2", "x-4"]


def recordings(tracer: Trace) -> dict[str, Recording]:
    return {path.stem: Recording.load(path) for path in sorted(Path(tracer.output).glob("*.tltrace"))}


def test_beside_each_page_lies_its_recording(tracer: Trace) -> None:
    tracer.enable(tracer.output, every=2)
    for _ in range(5):
        tracer.run(kernel(True), (torch.ones(8),), stem="x")
    found = recordings(tracer)
    assert [f"{name}.html" for name in found] == written(tracer) == ["x-2.html", "x-3.html", "x.html"]
    assert {name: one.meta["launch"] for name, one in found.items()} == {"x": 0, "x-2": 2, "x-3": 4}
    timeline = found["x"].decode()
    assert timeline.slices.where(cta=1)["payload"].tolist() == [0, 1, 2, 3, 4]
    assert timeline.meta["host"] == platform.node()
    assert "rank" not in timeline.meta
    assert "launch" not in tracer.decode(kernel(True), kernel(True)(torch.ones(8))[1]).meta


def test_a_recording_that_is_there_is_not_written_over(tracer: Trace) -> None:
    Path(tracer.output).mkdir()
    (Path(tracer.output) / "x.tltrace").write_text("mine")
    tracer.run(kernel(True), (torch.ones(8),), stem="x")
    assert written(tracer) == ["x-2.html"]
    assert (Path(tracer.output) / "x.tltrace").read_text() == "mine"


def test_dump_writes_a_recording_too(tracer: Trace) -> None:
    _, slots = kernel(True)(torch.ones(8))
    assert tracer.dump(tracer.fetch(kernel(True), slots), stem="x").name == "x"
    assert tracer.dump(tracer.decode(kernel(True), slots), stem="y").name == "y"
    assert written(tracer) == ["x.html", "y.html"]
    assert len(recordings(tracer)["x"].decode().slices) == 10
    assert list(recordings(tracer)) == ["x"]


def test_names_and_recordings_carry_the_rank(tracer: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in ("3", "12"):
        monkeypatch.setenv("RANK", rank)
        for _ in range(2):
            tracer.run(kernel(True), (torch.ones(8),), stem=f"x{rank}")
    assert written(tracer) == ["x12-rank12-2.html", "x12-rank12.html", "x3-rank3-2.html", "x3-rank3.html"]
    assert [one.meta["rank"] for one in recordings(tracer).values()] == [12, 12, 3, 3]
    frame = recordings(tracer)["x3-rank3-2"].decode().to_pandas()
    assert frame[["rank", "host", "launch"]].drop_duplicates().values.tolist() == [[3, platform.node(), 1]]
    for none in ("", "x", "-1", "1.5"):
        monkeypatch.setenv("RANK", none)
        assert launching.rank() is None


def test_a_recording_that_cannot_be_written_leaves_no_page(tracer: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(TraceError, match=r"x\.tltrace: cannot be written: .*No space left"):
        tracer.run(kernel(True), (torch.ones(8),), stem="x")
    assert not list(Path(tracer.output).iterdir())


@pytest.mark.parametrize("stem", ["", "a/b", "..", ".", "a\0b", 3])
def test_stems_that_are_no_file_names_are_refused(stem: Any, tracer: Trace) -> None:
    with pytest.raises(TraceError, match="stem must be a file name"):
        tracer.run(kernel(True), (torch.ones(8),), stem=stem)


def test_an_output_that_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    tracer = Trace()
    tracer.enable(str(tmp_path / "file"))
    with pytest.raises(TraceError, match="cannot write timelines"):
        tracer.run(kernel(True), (torch.ones(8),))


def test_decode_takes_only_the_kernel_s_own_slots() -> None:
    _, slots = kernel(True)(torch.ones(8))
    assert trace.decode(kernel(True), slots).recorded == 20
    with pytest.raises(TraceError, match="not built for tracing"):
        trace.decode(kernel(False), slots)
    with pytest.raises(TraceError, match="slots of kernel 'one'"):
        trace.decode(kernel(True), slots[:, :-1])
    with pytest.raises(TraceError, match="compiled kernel"):
        trace.decode(turns, slots)


def test_what_an_earlier_launch_left_is_not_decoded() -> None:
    _, slots = kernel(True)(torch.ones(8))
    slots[1, 0] = 0x54524F50  # opened, not closed
    timeline = trace.decode(kernel(True), slots)
    assert timeline.unfinished.tolist() == [1]
    assert set(timeline.slices.cta.tolist()) == {0}


def test_the_switch(tmp_path: Path) -> None:
    tracer = Trace()
    assert (tracer.enabled, tracer.output) == (False, "debug")
    assert (tracer.out_idx(2), tracer.out_idx(2, True), tracer.out_idx(0)) == ([-2, -1], [-3, -2, -1], [])
    func = turns()
    assert "tileops" not in str(tracer.finalize(func).body)
    tracer.enable(str(tmp_path))
    assert (tracer.enabled, tracer.output) == (True, str(tmp_path))
    assert (tracer.out_idx(2), tracer.out_idx(2, False)) == ([-3, -2, -1], [-2, -1])
    assert "tileops_mark" in str(tracer.finalize(func).body)
    assert "tileops" not in str(tracer.finalize(func, traced=False).body)
    tracer.disable()
    assert not tracer.enabled
    assert tracer.output == str(tmp_path)


@pytest.mark.parametrize("wrong", [-1, True, 1.0, None])
def test_numbers_of_outputs_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(TraceError, match="n_outputs"):
        trace.out_idx(wrong)


# ---------------------------------------------------------------------------------------------------------------------
# Launches captured in a CUDA graph. The capture is a stand-in here: nothing but its switch and what replays write.


class Graph:
    """Plays a CUDA graph: launches made while it captures run when it is replayed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.capturing = False
        self.launches: list[tuple[Any, Any, tuple[Any, ...]]] = []
        monkeypatch.setattr(launching, "is_capturing", lambda: self.capturing)

    def kernel(self, compiled: Any) -> Any:
        """A kernel that does not run while the graph captures."""
        graph = self

        class Captured:
            prim_func, out_idx = compiled.prim_func, compiled.out_idx

            def __call__(self, *inputs: Any) -> Any:
                outputs = compiled(*inputs)
                if graph.capturing:
                    for output in outputs:
                        output.zero_()
                    graph.launches.append((compiled, outputs, inputs))
                return outputs

        return Captured()

    def capture(self, run: Any) -> Any:
        self.capturing = True
        try:
            return run()
        finally:
            self.capturing = False

    def replay(self) -> None:
        for compiled, outputs, inputs in self.launches:
            for output, new in zip(outputs, compiled(*inputs)):
                output.copy_(new)


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch) -> Graph:
    return Graph(monkeypatch)


def test_a_captured_launch_is_dumped_after_a_replay(tracer: Trace, graph: Graph) -> None:
    compiled = graph.kernel(kernel(True))
    b = graph.capture(lambda: tracer.run(compiled, (torch.ones(8),), stem="x"))
    assert isinstance(b, torch.Tensor)
    assert written(tracer) == []
    with pytest.raises(TraceError, match=r"x: no CTA of kernel.*CUDA graph.*replay it, then call trace\.flush"):
        tracer.flush()
    assert written(tracer) == []
    graph.replay()
    assert b[:2].tolist() == [5.0, 5.0]
    assert tracer.flush() == [Path(tracer.output) / "x"]
    graph.replay()
    assert tracer.flush() == [Path(tracer.output) / "x-2"]
    assert list(tracer.dumps) == [Path(tracer.output) / "x", Path(tracer.output) / "x-2"]


def test_each_launch_of_a_capture_is_kept(tracer: Trace, graph: Graph) -> None:
    compiled, inputs = graph.kernel(kernel(True)), (torch.ones(8),)
    graph.capture(lambda: [tracer.run(compiled, inputs, stem=stem) for stem in ("x", "y", "x")])
    graph.replay()
    assert [path.name for path in tracer.flush()] == ["x", "y", "x-2"]


def test_the_limits_hold_for_flushed_launches(tracer: Trace, graph: Graph) -> None:
    compiled, inputs = graph.kernel(kernel(True)), (torch.ones(8),)
    graph.capture(lambda: tracer.run(compiled, inputs, stem="x"))
    with pytest.raises(TraceError):
        tracer.flush()  # counts for nothing
    graph.replay()
    for _ in range(3):
        tracer.flush()
    with pytest.warns(TraceWarning, match="dumped 3 launches of 'x' and stops") as caught:
        assert tracer.flush() == []
    assert Path(caught[0].filename) == Path(__file__)


def test_launches_are_forgotten_on_demand(tracer: Trace, graph: Graph) -> None:
    compiled, inputs = graph.kernel(kernel(True)), (torch.ones(8),)
    graph.capture(lambda: tracer.run(compiled, inputs, stem="x"))
    graph.replay()
    assert len(tracer.flush(forget=True)) == 1
    assert tracer.flush() == []
    graph.capture(lambda: tracer.run(compiled, inputs, stem="x"))
    with pytest.raises(TraceError):  # of a launch that never runs, too
        tracer.flush(forget=True)
    assert tracer.flush() == []


def test_one_launch_that_cannot_be_written_does_not_keep_back_others(tracer: Trace, graph: Graph) -> None:
    compiled, inputs = graph.kernel(kernel(True)), (torch.ones(8),)
    graph.capture(lambda: tracer.run(compiled, inputs, stem="replayed"))
    graph.replay()
    graph.launches.clear()
    graph.capture(lambda: tracer.run(compiled, inputs, stem="never"))
    graph.capture(lambda: tracer.run(compiled, inputs, stem="late"))
    graph.replay()
    graph.launches.clear()
    tracer._pending._launches[1].slots.zero_()
    with pytest.raises(TraceError, match="never: "):
        tracer.flush()
    assert written(tracer) == ["late.html", "replayed.html"]
    assert {name: one.meta["launch"] for name, one in recordings(tracer).items()} == {"late": 0, "replayed": 0}


def test_nothing_is_decoded_while_a_graph_is_captured(tracer: Trace, graph: Graph) -> None:
    _, slots = kernel(True)(torch.ones(8))
    for read in (tracer.decode, tracer.fetch):
        with pytest.raises(TraceError, match=r"is capturing a CUDA graph.*trace\.flush"):
            graph.capture(functools.partial(read, kernel(True), slots))


def test_flushed_launches_warn_as_others_do(tracer: Trace, graph: Graph) -> None:
    compiled = graph.kernel(kernel(True, 1, 40, 10))
    graph.capture(lambda: tracer.run(compiled, (torch.ones(8),), stem="x"))
    graph.replay()
    with pytest.warns(TraceWarning, match="events were dropped") as caught:
        tracer.flush()
    assert Path(caught[0].filename) == Path(__file__)


# ---------------------------------------------------------------------------------------------------------------------
# Launches that fail


FAILURES = [
    "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be reported later",
    "CUDA error: device-side assert triggered",
    "CUDA error: unspecified launch failure",
]


def accelerator_error(text: str) -> RuntimeError:
    """What PyTorch raises, by its version."""
    kind: type[RuntimeError] = getattr(torch, "AcceleratorError", RuntimeError)
    return kind(text)


@pytest.mark.parametrize("text", FAILURES)
@pytest.mark.parametrize("make", [accelerator_error, RuntimeError])
def test_a_launch_that_failed_is_told_where_its_slots_are_copied(
    text: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, slots = kernel(True)(torch.ones(8))

    def cpu(*_: Any, **__: Any) -> None:
        raise make(text)

    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    with pytest.raises(TraceError, match="compute-sanitizer") as caught:
        trace.decode(kernel(True), slots)
    assert text.splitlines()[0] in str(caught.value)
    assert "is lost" in str(caught.value)
    assert "thread_return" in str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)


class Failing:
    """A kernel whose launch raises an error, and then works."""

    def __init__(self, error: BaseException) -> None:
        self.prim_func, self.out_idx = kernel(True).prim_func, kernel(True).out_idx
        self.errors = [error]

    def __call__(self, *inputs: Any) -> Any:
        if self.errors:
            raise self.errors.pop()
        return kernel(True)(*inputs)


def test_a_launch_that_failed_is_told_where_it_is_launched(tracer: Trace) -> None:
    failing = Failing(RuntimeError("Kernel call failed: CUDA Error: an illegal memory access was encountered"))
    with pytest.raises(TraceError, match=r"kernel 'one'.*failed on the device.*illegal memory access"):
        tracer.run(failing, (torch.ones(8),))


@pytest.mark.parametrize("error", [
    RuntimeError("buffer a is expected to be float32"), ValueError("Expected 2 inputs"), KeyboardInterrupt(),
    torch.OutOfMemoryError("CUDA out of memory"),
    accelerator_error("CUDA error: operation not permitted when stream is capturing"),
])  # fmt: skip
def test_other_errors_stay_what_they_are_and_no_dump_is_counted(
    error: BaseException, tracer: Trace, tmp_path: Path
) -> None:
    tracer.enable(str(tmp_path), dumps=1)
    failing = Failing(error)
    with pytest.raises(type(error)) as caught:
        tracer.run(failing, (torch.ones(8),), stem="x")
    assert caught.value is error
    tracer.run(failing, (torch.ones(8),), stem="x")
    assert written(tracer) == ["x.html"]


# ---------------------------------------------------------------------------------------------------------------------
# The size of `slots`


def test_the_size_is_logged_before_each_launch_that_is_dumped(
    tracer: Trace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tracer.enable(str(tmp_path), dumps=1)
    failing = Failing(KeyboardInterrupt())
    with caplog.at_level(logging.INFO, "tileops.trace"), pytest.raises(KeyboardInterrupt):
        tracer.run(failing, (torch.ones(8),), stem="x")
    size = capacity.human(trace.slots_bytes(kernel(True), (torch.ones(8),)))
    assert [record.getMessage() for record in caplog.records] == [f"x: kernel 'one' records into {size}"]
    caplog.clear()
    with caplog.at_level(logging.INFO, "tileops.trace"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            tracer.run(kernel(True), (torch.ones(8),), stem="x")
    assert len(caplog.records) == 1


def test_a_launch_that_would_not_fit_is_refused_before_it_allocates(
    tracer: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileops.trace.capacity.cuda_device", lambda *_: torch.device("cuda", 1))
    free = {"mem_get_info": (1000, 10**9), "memory_reserved": 800, "memory_allocated": 500}
    for name in free:
        monkeypatch.setattr(torch.cuda, name, lambda device, name=name: free[name])
    failing = Failing(AssertionError("launched"))
    inputs = (torch.ones(8),)
    needed = trace.slots_bytes(kernel(True), inputs)
    text = rf"takes {capacity.human(needed)}, and 1\.3 kB are free on cuda:1.*max_events \(it is 64\).*ctas="
    with pytest.raises(TraceError, match=text):
        tracer.run(failing, inputs)
    free["mem_get_info"] = (needed - 300, 10**9)
    with pytest.raises(AssertionError, match="launched"):
        tracer.run(failing, inputs)


def test_a_large_buffer_is_told_once(tracer: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileops.trace.capacity.LARGE", 1000)
    with pytest.warns(TraceWarning, match=r"x: the trace buffer takes \S+ kB.*max_events") as caught:
        tracer.run(kernel(True), (torch.ones(8),), stem="x")
    assert Path(caught[0].filename) == Path(__file__)
    tracer.run(kernel(True), (torch.ones(8),), stem="x")


def test_inputs_that_the_kernel_does_not_take_get_the_kernel_s_own_error(tracer: Trace) -> None:
    with pytest.raises(ValueError, match="inputs"):
        tracer.run(kernel(True), ())


# ---------------------------------------------------------------------------------------------------------------------
# The same on a GPU


@functools.cache
def gpu_kernel() -> Any:
    import tilelang

    @T.prim_func
    def doubled(a: T.Tensor((4,), FLOAT), b: T.Tensor((4,), FLOAT)):
        with T.Kernel(4, threads=32) as bx:
            with trace.range("double", payload=bx):
                b[bx] = a[bx] * 2.0

    return tilelang.compile(trace.lower(doubled, 8), out_idx=trace.out_idx(1, True))


@pytest.mark.gpu
def test_a_graph_on_a_gpu_is_dumped_after_each_replay(tracer: Trace) -> None:
    compiled, a = gpu_kernel(), torch.ones(4, device="cuda")
    _, slots = compiled(a)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        b = tracer.run(compiled, (a,), stem="x")
        with pytest.raises(TraceError, match="is capturing a CUDA graph"):
            tracer.decode(compiled, slots)
    (launch,) = tracer._pending.all()
    begins = []
    for value in (1.0, 3.0):
        a.fill_(value)
        captured.replay()
        assert b.tolist() == [2 * value] * 4
        _, timeline = launch.decode(tracer, 1)
        assert timeline.slices.payload.tolist() == [0.0, 1.0, 2.0, 3.0]
        begins.append(int(tracer.fetch(compiled, launch.slots).lines[0, 3]))
        assert len(tracer.flush()) == 1
    assert begins[0] < begins[1]
    tracer.flush(forget=True)
    assert tracer.flush() == []
    assert written(tracer) == ["x-2.html", "x-3.html", "x.html"]


@pytest.mark.gpu
def test_a_launch_on_a_side_stream_is_waited_for() -> None:
    compiled, a = gpu_kernel(), torch.ones(4, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    for _ in range(3):
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            _, slots = compiled(a)
            slots.record_stream(torch.cuda.default_stream())
        assert trace.decode(compiled, slots).recorded == 8


@pytest.mark.gpu
def test_on_a_gpu_the_cost_is_measured_and_the_size_is_what_is_allocated() -> None:
    compiled, a = gpu_kernel(), torch.ones(4, device="cuda")
    _, slots = compiled(a)
    meta = trace.decode(compiled, slots).meta
    assert meta["slots_bytes"] == trace.slots_bytes(compiled, (a,)) == slots.numel() * 8
    assert 0 < meta["probe"]["plain"] < 1000
    assert 0 < meta["probe"]["payload"] < 1000
    assert meta["probe"]["device"] == torch.cuda.get_device_name()


@pytest.mark.gpu
def test_a_buffer_that_does_not_fit_on_the_gpu_is_refused(tracer: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    _, total = torch.cuda.mem_get_info()
    monkeypatch.setattr("tileops.trace.capacity.slots_bytes", lambda *_: total + 1)
    with pytest.raises(TraceError, match="are free on cuda:0"):
        tracer.run(gpu_kernel(), (torch.ones(4, device="cuda"),))
