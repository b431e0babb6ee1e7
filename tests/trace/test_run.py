"""``trace.run``: what it returns, what it writes, and what it says."""

import functools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tilelang.language as T
import torch

from tileops.trace import Trace, TraceError, TraceWarning, trace

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
    return sorted(path.name for path in Path(tracer.output).glob("*"))


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
