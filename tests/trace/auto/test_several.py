"""Sources with several kernels: each is instrumented, or named with the reason; each has slots and a timeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tileops.trace import TraceError, TraceWarning, trace
from tileops.trace.auto import building, notes, syntax
from tileops.trace.auto.rewrite import instrument
from tileops.trace.decode import decode_lines
from tileops.trace.launching import added_parameters, arguments, site_table
from tileops.trace.lowering import device_source
from tileops.trace.recording import Recording
from tileops.trace.sites import tables_in

from . import corpus
from .kernels import two_steps
from .running import OPENED, slots
from .test_corpus import without_tracing
from .test_twin import lowered, without_slots

NAMES = ["steps_kernel", "steps_kernel_1"]
UNREADABLE = "B[0] = 1; B[1] = 2;"  # two statements in a line


def filled(*broken: str) -> str:
    """What a twin's build makes of the two kernels; the ones in ``broken`` hold a line that cannot be read."""
    func = building.with_slots(two_steps(), "ops", None)
    source = lowered(func)
    for name in broken:
        at = source.index("{\n", source.index(f"{name}(", source.index(f"{name}(") + 1)) + 2
        source = f"{source[:at]}  {UNREADABLE}\n{source[at:]}"
    return building.fill(source, "ops", None)


def of_kernel(source: str, name: str) -> str:
    """The source less all kernels but one, for what runs the only kernel of a source."""
    raw = source.encode()
    for function in reversed(syntax.functions(source)):
        if function.name != name:
            raw = raw[: function.start] + raw[function.end :]
    return raw.decode()


@pytest.mark.parametrize("version", [*corpus.VERSIONS, "installed"])
def test_the_kernels_of_a_source_are_found(version: str) -> None:
    installed = version == "installed"
    source = corpus.generated(two_steps, "sm_90a") if installed else corpus.text("two_steps", "sm_90a", version)
    assert [function.name for function in syntax.functions(source)] == NAMES
    parsed = [syntax.parse(source, name) for name in NAMES]
    assert [(kernel.name, kernel.threads) for kernel in parsed] == [(NAMES[0], 128), (NAMES[1], 256)]
    with pytest.raises(syntax.UnreadableError, match="holds 2 kernels; one can be instrumented"):
        instrument(source, "slots")
    with pytest.raises(syntax.UnreadableError, match="holds 0 kernels other; one"):
        instrument(source, "slots", kernel="other")
    both = source
    for number, name in enumerate(NAMES):
        made = instrument(both, f"place{number}", kernel=name, number=number)
        assert tables_in(made.source)[number] == made.table
        both = made.source
    assert without_tracing(both) == source
    assert [f"(unsigned long long)(place{number})" in both for number in range(3)] == [True, True, False]


def test_each_kernel_has_slots_and_a_table() -> None:
    func = building.with_slots(two_steps(), "ops", None)
    assert [func.buffer_map[param].name for param in func.params[-2:]] == ["slots", "slots_1"]
    assert added_parameters(func) == 2
    assert [[int(extent) for extent in extents] for extents in building.grids(func)] == [[8, 1, 1], [2, 2, 1]]
    source = filled()
    assert without_slots(without_tracing(source)) == lowered(two_steps())
    tables = tables_in(source)
    assert [(number, table.kernel) for number, table in tables.items()] == [*enumerate(NAMES)]
    assert [[r.name for r in table.ranges] for table in tables.values()] == [
        ["store B"], ["load Bs", "store C"]
    ]  # fmt: skip
    assert source.count(device_source("recorder.cuh")) == 1


def test_each_kernel_s_rows_lie_in_its_own_slots() -> None:
    source = filled()
    for name, own in zip(NAMES, ("slots", "slots_1")):
        text = of_kernel(source, name)
        (line,) = [line for line in text.splitlines() if "tileops_line =" in line]
        assert f"(&({own}[0]))" in line
        (table,) = [table for table in tables_in(source).values() if table.kernel == name]
        assert f"{8 * table.line_words}ull * tileops_number" in line
        timeline = decode_lines(slots(text, table), table)
        assert timeline.meta["kernel"] == name
        assert [row.name for row in timeline.slices] == [r.name for r in table.ranges]
        assert len(OPENED.findall(text)) == len(table.groups)


def test_one_that_cannot_be_read_is_left_and_the_other_records() -> None:
    source = filled(NAMES[0])
    assert "holds more than one statement" in notes.refusals_in(source)[NAMES[0]]
    assert [table.kernel for table in tables_in(source).values()] == [NAMES[1]]
    assert [*tables_in(source)] == [1]
    first = syntax.functions(source)[0]
    assert b"tileops_" not in source.encode()[first.start : first.end]
    assert notes.refusals_in(filled(*NAMES)).keys() == {*NAMES}
    assert tables_in(filled(*NAMES)) == {}


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_they_compile(arch: str, compile_cubin: Callable[..., Path]) -> None:
    assert compile_cubin(filled(), arch=arch).stat().st_size > 0


# Twins --------------------------------------------------------------------------------------------------------------


class _Build:
    """In place of the build that needs a GPU: runs the instrumented source's recorder calls."""

    out_idx = (2,)

    def __init__(self, source: str):
        self.source, self.called = source, []
        self.prim_func = building.with_slots(two_steps(), "ops", None)

    def get_kernel_source(self) -> str:
        return self.source

    def __call__(self, *inputs: Any) -> str:
        self.called.append([tuple(value.shape) for value in inputs])
        for number, table in tables_in(self.source).items():
            words = inputs[-2:][number]
            lines = torch.from_numpy(slots(of_kernel(self.source, table.kernel), table).view("int64"))
            words.view(-1, table.line_words)[:] = 0
            words.view(-1, table.line_words)[:1] = lines
        return "produced"


@pytest.fixture
def twin_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Any, _Build]]:
    def made(source: str, **options: Any) -> tuple[Any, _Build]:
        build = _Build(source)
        monkeypatch.setattr("tileops.trace.auto.twin._built", lambda *_: build)
        monkeypatch.setattr("tileops.trace.auto.twin.grids", lambda _: [[1, 1, 1], [1, 1, 1]])
        monkeypatch.setattr("tileops.trace.capacity.cuda_device", lambda *_: "cpu")
        monkeypatch.setattr("tileops.trace.capacity.check_fits", lambda *_: None)
        monkeypatch.setattr("tileops.trace.namespace._probe_meta", lambda *_: {"error": "no GPU"})
        trace.enable(str(tmp_path), plotlyjs="cdn")
        trace.disable()
        return trace.instrument(two_steps(), out_idx=[2], **options), build

    return made


def test_a_twin_writes_a_timeline_for_each(twin_with: Any, tmp_path: Path) -> None:
    twin, build = twin_with(filled())
    a = torch.zeros(1024)
    assert twin(a, a) == "produced"
    words = [(table.line_words,) for table in tables_in(build.source).values()]
    assert build.called == [[(1024,), (1024,), *words]]
    loaded = {path.stem: Recording.load(path) for path in tmp_path.glob("*.tltrace")}
    assert {stem: found.table.kernel for stem, found in loaded.items()} == {name: name for name in NAMES}
    assert {found.meta["arguments"] for found in loaded.values()} == {arguments(build)}
    assert arguments(build) == "A float32[1024], B float32[1024], C float32[1024]"

    twin, _ = twin_with(filled(), stem="mine")
    twin(a, a)
    assert {path.stem for path in tmp_path.glob("mine*.tltrace")} == {f"mine.{name}" for name in NAMES}


def test_their_slots_are_told_apart_by_name(twin_with: Any) -> None:
    twin, build = twin_with(filled())
    _, recorded = twin.record(torch.zeros(1024), torch.zeros(1024))
    assert [*recorded] == NAMES
    for name, found in recorded.items():
        assert trace.decode(build, found, kernel=name).meta["kernel"] == name
    with pytest.raises(TraceError, match="several kernels: say which, with kernel=: 'steps_kernel', 'steps_kernel_1'"):
        trace.decode(build, recorded[NAMES[0]])
    with pytest.raises(TraceError, match=r"say which, .* got 'other'"):
        site_table(build, "other")


def test_what_a_twin_leaves_is_told(twin_with: Any, tmp_path: Path) -> None:
    twin, build = twin_with(filled(NAMES[0]))
    assert (twin.reason, [*twin.left]) == ("", [NAMES[0]])
    a = torch.zeros(1024)
    with pytest.warns(TraceWarning, match=f"kernel '{NAMES[0]}' runs as it is, without a timeline: line"):
        assert twin(a, a) == "produced"
    assert build.called == [[(1024,), (1024,), (1,), (twin.tables[1].line_words,)]]
    assert [path.stem for path in tmp_path.glob("*.tltrace")] == [NAMES[1]]
    assert "holds more than one statement" in twin_with(filled(*NAMES))[0].reason
