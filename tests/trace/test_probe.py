"""The cost of a record: measured once, kept with every recording, and said in every view."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tileops.trace import TraceError, probe, trace
from tileops.trace.recording import Recording
from tileops.trace.sites import ATTRIBUTE, SiteTable
from tileops.trace.told import told

from .building import T, cpu_kernel, lowered, traced_source
from .sass import disassemble, find_nvdisasm


def one_range() -> Any:
    @T.prim_func
    def main(a: T.Tensor((4,), "float32"), b: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1) as _:
            with trace.range("copy"):
                b[0] = a[0]

    return main


@functools.cache
def kernel() -> Any:
    return cpu_kernel(one_range, max_events=8)


def cost(plain: float, payload: float) -> probe.ProbeCost:
    """A cost that is the same for all records of a kind."""
    return probe.ProbeCost(plain, payload, {"plain": (plain,) * 5, "payload": (payload,) * 5})


def decoded() -> Any:
    return trace.decode(kernel(), kernel()(torch.ones(4))[1])


@pytest.fixture
def unmeasured() -> Iterator[None]:
    """A process that has measured nothing yet."""
    probe._found.cache_clear()
    yield
    probe._found.cache_clear()


@pytest.fixture
def measured(unmeasured: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[Any]]:
    """Has measuring give a cost, or raise an error; returns the list of its calls."""

    def replace(outcome: Any) -> list[Any]:
        calls: list[Any] = []

        def measure(*where: str) -> probe.ProbeCost:
            calls.append(where)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(probe, "_measured", measure)
        return calls

    return replace


@pytest.mark.usefixtures("unmeasured")
def test_it_is_measured_on_this_machine() -> None:
    meta = decoded().meta["probe"]
    assert set(meta) == {"plain", "payload", "behind", "device"}
    assert [len(meta["behind"][kind]) for kind in ("plain", "payload")] == [5, 5]
    assert meta["plain"] > 0
    assert meta["payload"] > 0
    assert meta["device"] == decoded().meta["device"]


def test_it_is_measured_once(measured: Any) -> None:
    calls = measured(cost(14.25, 19.0))
    assert [decoded().meta["probe"]["plain"] for _ in range(3)] == [14.25] * 3
    assert calls == [("c", "cpu")]
    meta = decoded().meta
    assert told(meta)[0] == f"a record costs 14 cycles (19 with a payload), measured on {meta['device']}"


@pytest.mark.parametrize(("error", "text"), [
    (TraceError("it gave -1 cycles"), "it gave -1 cycles"),
    (RuntimeError("no compiler\nint main() {"), "no compiler"),
    (RuntimeError(""), "RuntimeError"),
    (RuntimeError("x" * 5000), "x" * 300 + " …"),
])  # fmt: skip
def test_where_it_cannot_be_measured_the_reason_is_kept(measured: Any, error: Exception, text: str) -> None:
    calls = measured(error)
    for _ in range(2):
        assert decoded().meta["probe"] == {"error": text}
    assert len(calls) == 1
    assert told(decoded().meta)[0] == f"cost of a record unknown: {text}"
    with pytest.raises(TraceError, match=re.escape(text)):
        probe.probe_cost("c", "cpu")


def test_a_cost_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, unmeasured: None) -> None:
    monkeypatch.setattr(probe, "_behind", lambda slices, instants: [-3.0] * 5)
    assert "cycles, which cannot be" in decoded().meta["probe"]["error"]


def test_a_recording_keeps_the_cost_of_the_device_that_recorded(measured: Any, tmp_path: Path) -> None:
    measured(cost(14.0, 19.0))
    recording = trace.fetch(kernel(), kernel()(torch.ones(4))[1])
    recording.meta["probe"]["device"] = "another"
    recording.save(tmp_path / "x.tltrace")
    measured(cost(99.0, 99.0))
    loaded = Recording.load(tmp_path / "x.tltrace").decode()
    assert {**loaded.meta["probe"], "behind": None} == {
        "plain": 14.0, "payload": 19.0, "behind": None, "device": "another"
    }  # fmt: skip
    assert loaded.meta["probe"]["behind"] == {"plain": [14.0] * 5, "payload": [19.0] * 5}


def test_a_cost_that_depends_on_the_place_says_from_what_to_what() -> None:
    behind = {"plain": [4.6, 25.2, 26.4, 25.8, 25.2], "payload": [9.1, 32.6, 34.8, 33.7, 32.6]}
    meta = {"probe": {"plain": 15.5, "payload": 22.0, "behind": behind, "device": "a GPU"}}
    said = "a record costs 16 cycles (22 with a payload), by its place 5 to 26 (9 to 35), measured on a GPU"
    assert told(meta)[0] == said
    meta["probe"]["behind"] = {"plain": "?"}
    assert told(meta)[0] == "a record costs 16 cycles (22 with a payload), measured on a GPU"


@pytest.mark.parametrize("meta", [
    {}, {"probe": None}, {"probe": []}, {"probe": {"plain": 3.0}}, {"probe": {"plain": "3", "payload": 4}},
    {"probe": {"plain": float("nan"), "payload": 4.0}, "perturbation": {"ratio": 1.0}, "slots_bytes": "many"},
])  # fmt: skip
def test_what_a_file_says_otherwise_is_not_known(meta: dict[str, Any]) -> None:
    assert told(meta) == ["cost of a record unknown: the recording does not say", "perturbation not measured"]


def test_compensation_uses_it_and_is_told(measured: Any) -> None:
    measured(cost(14.0, 19.0))
    timeline = trace.decode(kernel(), kernel()(torch.ones(4))[1], compensate=True)
    assert told(timeline.meta)[0].endswith(f"measured on {timeline.meta['device']}, taken out of all ranges")


def test_compensation_needs_it(measured: Any) -> None:
    measured(TraceError("it gave -1 cycles"))
    with pytest.raises(TraceError, match="it gave -1 cycles"):
        trace.decode(kernel(), kernel()(torch.ones(4))[1], compensate=True)


def test_one_launch_measures_both_kinds_of_records() -> None:
    table = SiteTable.from_json(str(lowered(probe.probe(32), max_events=probe.EVENTS).attrs[ATTRIBUTE]))
    assert [(group.name, group.layout.record_words) for group in table.groups] == [("plain", 1), ("payload", 2)]


@pytest.mark.nvcc
def test_an_operation_stands_between_every_two_records(compile_cubin: Callable[..., Path]) -> None:
    nvdisasm = find_nvdisasm()
    if nvdisasm is None:
        pytest.skip("needs nvdisasm")
    cubin = compile_cubin(traced_source(probe.probe(32), max_events=probe.EVENTS))
    (function,) = disassemble(cubin, nvdisasm).values()
    kinds = {"FFMA": "f", "CS2R": "C"}
    order = "".join(
        kinds[one.base] for one in function.code
        if one.base == "FFMA" or (one.base == "CS2R" and "SR_CLOCKLO" in one.operands)
    )  # fmt: skip
    # The loops of nothing but operations, one a group and size of batch, and those with a record before each operation.
    loops = 2 * len(probe.RECORDS)
    assert len(re.findall("f{8,}", order)) == loops
    assert len(re.findall("(?:Cf){4,}", order)) == loops
