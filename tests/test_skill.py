"""The skill: its blocks run, its links and names hold, its figures are those of tileops.profile.

The fenced blocks of a page run in order, in one copy of the skill's folder. Words behind the language say what a block
needs::

    ```python, ```sh       run everywhere
    ```sh gpu              run where there is a CUDA GPU
    ```sh gpu ncu          run where there is Nsight Compute as well
    ```text                an example of what is written or printed
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from torch.autograd import DeviceType

from tileops.profile import diagnosis, read_trace, report_on
from tileops.profile.peaks import GPUS, Ceilings
from tileops.trace import trace

ROOT = Path(__file__).parents[1]
SKILL = ROOT / "skills" / "tilelang-torch-profiler"
PAGES = [SKILL / "SKILL.md", *sorted((SKILL / "references").glob("*.md"))]
# The viewers of traces; the skill names no other place outside.
VIEWERS = {"https://ui.perfetto.dev/"}
LANGUAGES = {"python": set(), "sh": {"gpu", "ncu"}, "text": set()}
SMALL = ["--device", "cpu", "--m", "64", "--n", "32", "--k", "96", "--repeats", "5", "--calls", "2"]

of_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)


@dataclass(frozen=True)
class Fence:
    """A fenced block."""

    line: int
    language: str
    words: frozenset[str]
    code: str


def fences(page: Path) -> list[Fence]:
    found = []
    for token in MarkdownIt().parse(body(page)):
        if token.type == "fence":
            language, *words = token.info.split() or [""]
            found.append(Fence(token.map[0] + 2, language, frozenset(words), token.content))
    return found


def body(page: Path) -> str:
    """A page without its front matter, on the same lines."""
    return re.sub(r"\A---\n.*?\n---\n", lambda match: "\n" * match[0].count("\n"), page.read_text(), flags=re.DOTALL)


def inline(page: Path) -> list[str]:
    """The code in a page's running text."""
    tokens = MarkdownIt().enable("table").parse(body(page))
    return [child.content for token in tokens for child in token.children or [] if child.type == "code_inline"]


def run(page: Path, chosen: list[Fence], folder: Path) -> None:
    """Runs blocks in a copy of the skill, with this Python and this package as `python` and `tileops`."""
    copy, programs = folder / "skill", folder / "bin"
    shutil.copytree(SKILL, copy, ignore=shutil.ignore_patterns("__pycache__"))
    programs.mkdir()
    for name, command in (("python", ""), ("tileops", " -m tileops")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{command} "$@"\n')
        (programs / name).chmod(0o755)
    path = os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)])
    # One thread: on a busy machine of two cores, OpenMP's wait for each other most of the time.
    environment = dict(os.environ, PATH=path, XDG_CACHE_HOME=str(folder / "cache"), OMP_NUM_THREADS="1")
    for fence in chosen:
        alone = fence.language == "sh" and not inputs(fence, copy)
        if alone and fence.code in WRITTEN:
            shutil.copytree(WRITTEN[fence.code], copy, dirs_exist_ok=True)
            continue
        before = contents(copy)
        if fence.language == "python":
            script = copy / f"block_{fence.line}.py"
            script.write_text(fence.code)
            command = [sys.executable, script.name]
        else:
            command = ["bash", "-euo", "pipefail", "-c", fence.code]
        for _ in range(3):
            done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
            # PyTorch 2.13 reads its own events' names wrongly now and then, where memory is profiled on a CPU.
            if "UnicodeDecodeError" not in done.stderr or "autograd/profiler.py" not in done.stderr:
                break
        assert done.returncode == 0, f"{page.name}, line {fence.line}:\n{fence.code}{done.stdout}{done.stderr}"
        if alone:
            WRITTEN[fence.code] = folder / f"written_{fence.line}"
            WRITTEN[fence.code].mkdir()
            for name, _ in contents(copy) - before:
                target = WRITTEN[fence.code] / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(copy / name, target)


# What a block wrote that starts from nothing. Another page with the same block gets it without running it again.
WRITTEN: dict[str, Path] = {}


def inputs(fence: Fence, copy: Path) -> list[str]:
    """What a block names of what blocks before it have made, other than the folder that it writes to."""
    words = re.sub(r"--output \S+", "", fence.code).split()
    return [word for word in words if (copy / word).exists() and not (SKILL / word).exists()]


def contents(folder: Path) -> set[tuple[Path, int]]:
    """The files in a folder, and when they were written."""
    return {(path.relative_to(folder), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.timeout(900)
@of_page
def test_blocks_run(page, tmp_path):
    chosen = [fence for fence in fences(page) if fence.language != "text" and not fence.words]
    assert chosen
    run(page, chosen, tmp_path)


@pytest.mark.gpu
@pytest.mark.timeout(900)
@of_page
def test_blocks_run_on_the_gpu(page, tmp_path):
    there = {"gpu", *(["ncu"] if shutil.which("ncu") else [])}
    run(page, [fence for fence in fences(page) if fence.language != "text" and fence.words <= there], tmp_path)


@of_page
def test_blocks_are_of_known_kinds_and_parse(page):
    for fence in fences(page):
        assert fence.words <= LANGUAGES[fence.language], f"line {fence.line}"
        if fence.language == "python":
            ast.parse(fence.code)
        elif fence.language == "sh":
            subprocess.run(["bash", "-n", "-c", fence.code], check=True)


@of_page
def test_links_and_named_files_are_there(page):
    for token in MarkdownIt().enable("table").parse(body(page)):
        for child in token.children or []:
            target = str(child.attrs.get("href") or child.attrs.get("src") or "")
            if not target or target in VIEWERS:
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            assert file.is_relative_to(SKILL), f"{target} leads out of the skill"
            assert file.is_file(), f"no {target}"
            if anchor:
                assert anchor in headings(file), f"no {target}"
    named = re.findall(r"\b(?:scripts|references)/[\w./-]*\w", body(page))
    assert all((SKILL / name).is_file() for name in named), named
    assert set(re.findall(r"https?://[^\s)>`]*", body(page))) <= VIEWERS


def headings(page: Path) -> set[str]:
    """The anchors that a viewer makes of the headings."""
    titles = re.findall(r"^#+ (.*)$", body(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@of_page
def test_named_options_exist(page):
    template = sys_output(sys.executable, SKILL / "scripts" / "profile_template.py", "--help")
    command = sys_output(sys.executable, "-m", "tileops", "profile", "module:function", "--help")
    peaks = sys_output(sys.executable, "-m", "tileops", "profile", "peaks", "--help")
    tracing = sys_output(sys.executable, "-m", "tileops", "trace", "run", "--help")
    for text in inline(page):
        if text == "tileops trace --help":
            continue
        for option in re.findall(r"(?<!\S)--[a-z][\w-]*", text):
            known = peaks if "peaks" in text else command if "tileops profile" in text else template + command
            known = tracing if "tileops trace run" in text else known
            assert re.search(rf"{option}\b", known), f"{option} in {text!r}"


@functools.cache
def sys_output(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def test_front_matter():
    """A name and a description, as plain scalars, which need no quotes in YAML only without these signs."""
    match = re.match(r"---\n(.*?)\n---\n", (SKILL / "SKILL.md").read_text(), re.DOTALL)
    assert match
    entries = dict(line.split(": ", 1) for line in match[1].splitlines())
    assert set(entries) == {"name", "description"}
    assert entries["name"] == SKILL.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entries["name"])
    assert len(entries["name"]) <= 64
    assert 0 < len(entries["description"]) <= 1024
    for value in entries.values():
        assert ": " not in value
        assert " #" not in value
        assert not value.endswith(":")
        assert value[0].isalpha()
        assert "<" not in value


def test_the_page_names_every_file_of_the_skill():
    text = (SKILL / "SKILL.md").read_text()
    for path in SKILL.rglob("*"):
        if path.is_file() and path.suffix in (".py", ".md") and path.name != "SKILL.md":
            assert str(path.relative_to(SKILL)) in text


@of_page
def test_pages_that_send_to_the_tracer_say_that_kernels_need_no_markers(page):
    text = body(page)
    if "tileops.trace" in text:
        assert "tileops trace run" in text
        assert not re.search(r"needs? `trace\.range`|mark [^.]* with `trace\.range`", text)


def test_the_ways_into_a_kernel_are_the_tracers():
    """All three are named, and their arguments are there."""
    names = {text for text in inline(SKILL / "SKILL.md") if "trace." in text}
    for name, arguments in (("instrument", ["kernel"]), ("auto", ["kernel", "launch"]), ("enable", ["output"])):
        assert any(f"trace.{name}(" in text for text in names)
        assert set(arguments) <= set(inspect.signature(getattr(trace, name)).parameters)


def test_the_sdist_has_the_skill():
    include = re.search(r"targets\.sdist\]\ninclude = (\[.*\])", (ROOT / "pyproject.toml").read_text())
    assert include
    assert "/skills" in ast.literal_eval(include[1])


# The figures in the references.


def test_thresholds_are_those_of_the_diagnosis():
    text = (SKILL / "references" / "bottleneck-classification.md").read_text()
    rows = dict(re.findall(r"^ *\| ([^|]+) \| (\d+% \| \d+%) \|$", text, re.MULTILINE))

    def row(threshold: diagnosis.Threshold) -> str:
        return f"{threshold.strong:.0%} | {threshold.weak:.0%}"

    assert rows == {
        "a ceiling measured on this GPU": row(diagnosis.MEASURED["matrix"]),
        "the datasheet's bandwidth": row(diagnosis.DATASHEET["bandwidth"]),
        "the datasheet's rate of the cores": row(diagnosis.DATASHEET["vector"]),
    }
    assert len({row(value) for value in diagnosis.MEASURED.values()}) == 1
    assert diagnosis.DATASHEET["matrix"] == diagnosis.DATASHEET["vector"]
    assert f"less than {diagnosis.WAITED.weak:.0%}" in text
    assert f"less than {diagnosis.WAITED.strong:.0%}" in text
    assert f"{diagnosis.LAUNCHING.weak} times" in text
    assert f"from {diagnosis.LAUNCHING.strong} times" in text
    assert f"{diagnosis.EXPLAINED:.0%} of the time that the GPU was idle" in text
    assert f"{diagnosis.BEYOND:.0%} of the memory's peak" in text
    assert f"{diagnosis.SCATTER.strong:.0%} of the median" in text
    assert f"over {diagnosis.SCATTER.weak:.0%}" in text
    assert diagnosis.REPEATS == 5
    assert "fewer than five repeats" in text
    assert f"under {diagnosis.SHORTEST_NS / 1000:.0f} µs" in text
    assert f"{diagnosis.PROOF:.0%}\nof a ceiling" in text


def test_peaks_are_those_of_the_package():
    text = (SKILL / "references" / "bottleneck-classification.md").read_text()
    table = text[text.index("| GPU | GB/s") :].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert [row[0] for row in rows] == [gpu.name for gpu in GPUS]
    for row, gpu in zip(rows, GPUS):
        expected = [gpu.bandwidth, *map(gpu.matrix.get, ("float16", "tf32", "float8")), gpu.vector.get("float32")]
        assert [None if cell == "–" else float(cell) for cell in row[1:6]] == expected
        assert row[6].endswith(str(gpu.published))


fractions = st.one_of(st.none(), st.floats(0.01, 1.5))


@given(fractions, fractions, fractions, st.floats(0.05, 1.0), st.floats(0.0, 3.0))
def test_the_classification_as_code_agrees_with_the_package(bandwidth, matrix, ratio, busy, launching):
    """The block's function against `diagnose`, on rates that datasheets' peaks are compared with."""
    known: dict[str, object] = {}
    page = SKILL / "references" / "bottleneck-classification.md"
    exec(next(fence.code for fence in fences(page) if fence.language == "python"), known)
    # One rate for both cores: a call of 1 ms at 100 TFLOP/s and 1000 GB/s, against peaks that give the parts.
    vector = None if matrix is None and ratio is None else (matrix or 1.0) * (ratio or 1.0)
    top = Ceilings(
        "", "float16",
        bandwidth=1000 / bandwidth if bandwidth else None,
        matrix=100 / matrix if matrix else None,
        vector=100 / vector if vector else None,
    )  # fmt: skip
    verdict = diagnosis.diagnose(
        diagnosis.Measured(
            "work", gpu_ns=1e6, repeats=20, wall_ns=1e6 / busy, launch_ns=launching * 1e6, flops=1e11,
            bytes_moved=1e9, ceilings=top,
        )
    )  # fmt: skip
    found = diagnosis.rates(diagnosis.Measured("work", gpu_ns=1e6, flops=1e11, bytes_moved=1e9, ceilings=top))
    parts = {key: getattr(found, key) for key in ("bandwidth", "matrix", "vector") if getattr(found, key) is not None}
    bound, strength = known["classify"](parts, busy=1e6 / (1e6 / busy), launching=launching * 1e6 / 1e6)
    assert bound == verdict.bound
    # Two limits equally near, unknown peaks and waits without launches weaken the package's verdict further.
    order = ["strong", "weak", "provisional"]
    assert order.index(strength) <= order.index(verdict.strength)


# The template.


@pytest.fixture(scope="module")
def template():
    spec = importlib.util.spec_from_file_location("profile_template", SKILL / "scripts" / "profile_template.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_template_needs_torch_and_tilelang_alone():
    tree = ast.parse((SKILL / "scripts" / "profile_template.py").read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {name.split(".")[0] for name in imported} - sys.stdlib_module_names
    assert others == {"torch", "tilelang"}


def test_the_pages_name_functions_of_the_template(template):
    for name in ("build_tilelang", "make_work", "step_of_the_loop"):
        assert callable(getattr(template, name))
        assert f"`{name}`" in (SKILL / "SKILL.md").read_text()
        assert f"`{name}`" in template.__doc__


def test_comparing_on_a_cpu(template, tmp_path, capsys):
    assert template.main([*SMALL, "--output", str(tmp_path), "--tensorboard", str(tmp_path / "logs")]) == 0
    printed = capsys.readouterr().out
    assert "Compile time: " in printed
    assert "First call of tilelang_kernel: " in printed
    assert "sorted by self_cpu_time_total" in printed
    assert "UNKNOWN without a GPU" in printed
    # The rates follow from the time that is printed beside them, and from the sizes.
    for label in ("tilelang_kernel", "torch_ref"):
        line = re.search(rf"{label} by itself: ([\d.]+) µs, ([\d.e-]+) TFLOP/s, ([\d.e+-]+) GB/s", printed)
        seconds = float(line[1]) / 1e6
        assert float(line[2]) == pytest.approx(2 * 64 * 32 * 96 / seconds / 1e12, rel=0.02)
        moved = 4 * (64 * 96 + 96 * 32 + 64 * 32)
        assert float(line[3]) == pytest.approx(moved / seconds / 1e9, rel=0.02)
    trace = read_trace(str(tmp_path / "trace.json.gz"))
    calls = {label.path: label.calls for label in report_on(trace).structure.labels}
    assert calls == {("tilelang_kernel",): 5, ("torch_ref",): 5}
    (log,) = (tmp_path / "logs").iterdir()
    assert log.name.endswith(".pt.trace.json.gz")
    assert log.read_bytes() == (tmp_path / "trace.json.gz").read_bytes()


def test_a_loop_leaves_a_bounded_file_for_each_repetition(template, tmp_path, capsys):
    arguments = ["--loop", "--wait", "2", "--warmup-steps", "1", "--active", "3", "--repeat", "2"]
    assert template.main([*SMALL, *arguments, "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert len(re.findall(r"^step \d of repetition [01]: [\d.]+ µs on the host$", printed, re.MULTILINE)) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["steps_0.json.gz", "steps_1.json.gz"]
    for path in tmp_path.iterdir():
        report = report_on(read_trace(str(path)))
        assert report.steps.count == 3
        paths = {label.path[-2:]: label.calls for label in report.structure.labels}
        assert paths[("forward_pass", "tilelang_kernel")] == paths[("forward_pass", "attention_block")] == 3


def test_memory_is_recorded(template, tmp_path, capsys):
    assert template.main([*SMALL, "--memory", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "Allocations, sorted by self_cpu_memory_usage" in printed
    assert "Self CPU Mem" in printed
    assert "importlib" not in printed
    assert ".py(" not in printed
    # Each call allocates its result: 64 · 32 floats.
    memory = report_on(read_trace(str(tmp_path / "trace.json.gz"))).memory
    assert memory
    assert memory[0].peak_bytes >= 64 * 32 * 4


def test_the_source_is_written(template, tmp_path, capsys):
    assert template.main([*SMALL, "--source", "--plain", "--output", str(tmp_path)]) == 0
    assert "tensor cores: no sign" in capsys.readouterr().out
    assert "on_cpu" in (tmp_path / "kernel_source.txt").read_text()
    assert not (tmp_path / "trace.json.gz").exists()  # with --plain there is no profiler


def test_without_a_compiler_pytorch_alone_is_profiled(template, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for arguments in ([], ["--loop"]):
        assert template.main([*SMALL, *arguments, "--output", str(tmp_path)]) == 0
        printed = capsys.readouterr().out
        assert "No C++ compiler" in printed
        assert "torch_ref" in printed
        assert "tilelang_kernel by itself" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--m", "65"], "--m 65: the kernel's blocks need a multiple of 32"),
        (["--k", "-32"], "--k -32"),
        (["--repeats", "0"], "--repeats must be 1 at least"),
        (["--wait", "-1"], "--wait and --warmup-steps must be 0 at least"),
        (["--dtype", "float16"], "on a CPU the operands are float32"),
        *((["--" + name, "0"], f"--{name} 0: the kernel's blocks need a multiple of 32") for name in "mnk"),
        *(
            (["--" + name, number], f"--{name} must be 1 at least")
            for name in ("warmup", "repeats", "calls", "rows", "active", "repeat")
            for number in ("0", "-1")
        ),
        *(
            (["--" + name, number], f"--{name} must be a number above 0")
            for name in ("peak-tflops", "peak-gbps")
            for number in ("-3", "0", "nan", "inf")
        ),
        (["--loop", "--peak-tflops", "5"], "--peak-tflops goes with neither --loop nor --plain"),
        (["--plain", "--peak-gbps", "5"], "--peak-gbps goes with neither --loop nor --plain"),
        (["--plain", "--loop"], "--loop needs the profiler that --plain leaves out"),
        (["--plain", "--memory"], "--memory needs the profiler"),
        (["--plain", "--tensorboard", "logs"], "--tensorboard needs the profiler"),
        *((["--" + name, "4"], f"--{name} goes with --loop") for name in ("wait", "warmup-steps", "active", "repeat")),
    ],
)
def test_bad_arguments(template, arguments, message, capsys):
    assert message in refused(template, arguments, capsys)


def refused(template, arguments: list[str], capsys) -> str:
    """The one line, below the usage, with which arguments are refused before anything is done."""
    with pytest.raises(SystemExit) as error:
        template.main(["--device", "cpu", *arguments])
    assert error.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    usage, _, line = printed.err.rpartition(": error: ")
    assert usage.startswith("usage: ")
    assert line.count("\n") == 1
    return line


@pytest.mark.parametrize("option", ["--output", "--tensorboard"])
def test_folders_that_are_none(template, option, tmp_path, capsys, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "below" / "it"):
        assert f"argument {option}: {file} is a file, and a folder is wanted" in refused(
            template, [option, str(path)], capsys
        )
    (tmp_path / "link").symlink_to("nowhere")
    assert "is a file" in refused(template, [option, str(tmp_path / "link")], capsys)
    monkeypatch.setattr(template.os, "access", lambda path, mode: False)
    assert f"{tmp_path} cannot be written" in refused(template, [option, str(tmp_path / "new")], capsys)


def test_a_file_where_the_default_folder_would_be(template, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("out").write_text("")
    assert "argument --output: out is a file" in refused(template, [], capsys)


def event(name: str, start: float, end: float, gpu: bool = False, annotation: bool = False) -> SimpleNamespace:
    span = SimpleNamespace(start=start, elapsed_us=lambda: end - start)
    device = DeviceType.CUDA if gpu else DeviceType.CPU
    return SimpleNamespace(name=name, device_type=device, time_range=span, is_user_annotation=annotation)


def test_doubts(template, capsys):
    """A module load, and a first passage on the GPU that takes three times as long, are said; a steady run is not."""
    kernel = [event("gemm_kernel", 100 * n, 100 * n + 10, gpu=True) for n in range(4)]
    label = [event("torch_ref", 100 * n, 100 * n + (30 if n == 0 else 10), gpu=True, annotation=True) for n in range(4)]
    load = event("cuModuleLoadData", 5, 6)
    template.print_doubts(SimpleNamespace(events=lambda: [*kernel, *label, load]), ["torch_ref"], "cuda")
    first, second = capsys.readouterr().out.splitlines()
    assert "cuModuleLoadData inside the trace" in first
    assert "3.0 times" in second
    steady = SimpleNamespace(events=lambda: [*kernel, *label[1:]])
    template.print_doubts(steady, ["torch_ref"], "cuda")
    assert capsys.readouterr().out == ""
    template.print_doubts(SimpleNamespace(events=lambda: [load]), [], "cuda")
    assert "CUPTI recorded nothing" in capsys.readouterr().out
    assert [template.is_kernel(one) for one in (kernel[0], label[0], load)] == [True, False, False]
    assert template.durations(steady, "torch_ref", gpu=True) == pytest.approx([1e-5] * 3)


def test_running_out_of_memory_leaves_a_snapshot(template, tmp_path, monkeypatch):
    """With the allocator's recorder replaced: there is none without a GPU."""
    memory, calls = template.torch.cuda.memory, []
    monkeypatch.setattr(memory, "_record_memory_history", lambda **options: calls.append(options))
    monkeypatch.setattr(memory, "_dump_snapshot", lambda path: Path(path).write_text("snapshot"))
    arguments = SimpleNamespace(memory=True, output=tmp_path / "out")
    with pytest.raises(MemoryError), template.record_allocations(arguments, "cuda"):
        raise MemoryError
    assert (tmp_path / "out" / "memory_snapshot.pickle").read_text() == "snapshot"
    assert calls[-1] == {"enabled": None}  # the recorder is off again


def test_the_gpu_kernel_takes_the_tensor_cores_path(template, cuda_target):
    import tilelang

    with cuda_target:
        source = tilelang.lower(template.gpu_function(512, 256, 384, "float16"), target=cuda_target).kernel_source
    seen = {what for what, pattern in template.MARKS.items() if re.search(pattern, source)}
    assert {"tensor cores", "TMA", "mbarriers"} <= seen


@pytest.mark.gpu
def test_comparing_on_a_gpu(template, tmp_path, capsys):
    arguments = ["--m", "1024", "--n", "512", "--k", "2048", "--memory", "--peak-tflops", "1000"]
    assert template.main([*arguments, "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "sorted by self_cuda_time_total" in printed
    assert "UNKNOWN" not in printed
    assert printed.count("on the GPU, profiled") == 2
    assert "% of 1000 TFLOP/s" in printed
    # PyTorch 2.11 on an H200 cannot: "stoi".
    snapshot = tmp_path / "memory_snapshot.pickle"
    assert snapshot.exists() or "PyTorch cannot write the allocator's snapshot" in printed
    labels = {label.path[0]: label for label in report_on(read_trace(str(tmp_path / "trace.json.gz"))).structure.labels}
    assert labels["tilelang_kernel"].kernels == 20
    assert "on_gpu" in labels["tilelang_kernel"].kernel_names[0]


@pytest.mark.gpu
def test_a_loop_on_a_gpu(template, tmp_path, capsys):
    sizes = ["--m", "1024", "--n", "512", "--k", "2048"]
    assert template.main([*sizes, "--loop", "--output", str(tmp_path)]) == 0
    assert "kernels and copies a step" in capsys.readouterr().out
