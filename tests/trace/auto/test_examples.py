"""The benchmark that runs other people's programs, on programs made up here: none needs a GPU."""

from __future__ import annotations

import importlib.util
import json
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from tileops.trace.auto.rewrite import instrument

from . import corpus
from .running import slots

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def examples() -> ModuleType:
    spec = importlib.util.spec_from_file_location("examples", BENCHMARKS / "examples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["examples"] = module
    spec.loader.exec_module(module)
    return module


def test_the_list_is_read(examples: ModuleType) -> None:
    listed, left = examples.programs("# a comment\n[one]\na.py --n 3\nb.py\n\n- c.py: needs: more\n[two]\na.py\n")
    assert [(one.family, one.name) for one in listed] == [("one", "a.py --n 3"), ("one", "b.py"), ("two", "a.py")]
    assert listed[0].arguments == ("--n", "3")
    assert left == {"c.py": "needs: more"}
    for text, match in (
        ("a.py", "line 1: a.py belongs to no family"),
        ("[one]\n- a.py", r"line 2: why is a\.py left out"),
        ("[one]\na.py\na.py", r"listed twice: a\.py"),
    ):
        with pytest.raises(ValueError, match=match):
            examples.programs(text)


def test_the_real_list_is_sound(examples: ModuleType) -> None:
    listed, left = examples.programs(examples.LIST.read_text())
    assert len(listed) >= 60
    families = {one.family for one in listed}
    assert families >= {
        "GEMM", "split-K", "stream-K", "FlashAttention forward", "FlashAttention backward", "MLA decode",
        "linear attention", "dequantized GEMM", "convolution", "softmax", "norms", "top-k", "sparse attention",
    }  # fmt: skip
    assert not {one.path for one in listed} & {*left}


def test_programs_are_packed_with_what_they_import(examples: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "ex" / "one" / "package").mkdir(parents=True)
    files = {
        "one/a.py": "import os, helper, numpy\nfrom package.inner import x\n", "one/helper.py": "import deeper\n",
        "one/deeper.py": "", "one/unused.py": "", "one/package/__init__.py": "from .inner import x\n",
        "one/package/inner.py": "x = 1\n", "one/b.py": "",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / "ex" / name).write_text(text)
    (tmp_path / "list").write_text("[f]\none/a.py\n")
    archive = tmp_path / "p.tar.xz"
    arguments = [str(tmp_path / "ex"), "--list", str(tmp_path / "list"), "--pack", str(archive)]
    assert examples.main(arguments) == 0
    with tarfile.open(archive) as tar:
        assert tar.getnames() == [
            f"examples/one/{name}" for name in
            ("a.py", "deeper.py", "helper.py", "package/__init__.py", "package/inner.py")
        ]  # fmt: skip


RECORDING = """
import sys
from pathlib import Path
from tileops.trace import trace
from tileops.trace.recording import Recording
kept = Path({kept!r})
if trace.output != "debug":
    Recording.load(kept).save(Path(trace.output) / "kernel.tltrace")
"""


def fake_programs(folder: Path) -> None:
    made = instrument(corpus.text("gemm", "sm_90a", "0.1.15"), "slots")
    from tileops.trace.recording import Recording

    kept = Recording(slots(made.source, made.table), made.table, {}).save(folder / "kept.tltrace")
    files = {
        "quiet.py": "import sys\nprint(sys.argv[1:])\n",
        "fails.py": "import sys\nsys.exit('no such thing')\n",
        "hangs.py": "import time\nwhile True:\n    time.sleep(1)\n",
        "records.py": RECORDING.format(kept=str(kept)),
        "harmed.py": "import sys\nsys.exit(5 if 'tileops' in sys.modules else 0)\n",
        "kernel.py": "import tilelang\nimport tilelang.language as T\n\n@T.prim_func\n"
        "def add(A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')):\n"
        "    with T.Kernel(1, threads=64):\n        for i in T.Parallel(64):\n            B[i] = A[i] + 1.0\n\n"
        "import torch\na = torch.ones(64, device='cuda')\ntilelang.compile(add, out_idx=[1])(a)\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "list").write_text(
        "[one]\nquiet.py --x 1\nfails.py\n[two]\nhangs.py\nrecords.py\n[three]\nharmed.py\n[four]\nkernel.py\n"
    )


def test_what_an_h200_ran_is_of_listed_programs(examples: ModuleType) -> None:
    known = examples.Results(examples.LIST.with_name("examples_h200.json")).of
    listed, _ = examples.programs(examples.LIST.read_text())
    assert [*known] == [program.name for program in listed]
    assert all(result.unharmed for result in known.values() if result.traced is not None)
    ran = [result for result in known.values() if result.plain.status == 0]
    assert sum(result.gave for result in ran) >= examples.TARGET * len(ran)


def test_programs_are_run_and_told_apart(
    examples: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_programs(tmp_path)
    arguments = [str(tmp_path), "--list", str(tmp_path / "list"), "--out", str(tmp_path / "out"), "--jobs", "2"]
    skipping_hang = [*arguments, "--only", "one|records|harmed", "--limit", "100"]
    assert examples.main([*skipping_hang, "--budget", "0.1"]) == 1
    assert "0 ran unmodified" in capsys.readouterr().out
    assert not (tmp_path / "out" / "results.json").exists()
    assert examples.main(skipping_hang) == 1
    assert examples.main([*arguments, "--only", "hangs", "--limit", "2"]) == 1
    kept = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {name: (one["plain"]["status"], (one["traced"] or {}).get("status")) for name, one in kept.items()} == {
        "quiet.py --x 1": (0, 0), "fails.py": (1, None), "hangs.py": (None, None), "records.py": (0, 0),
        "harmed.py": (0, 5),
    }  # fmt: skip
    assert kept["fails.py"]["plain"]["said"] == "no such thing"
    (timeline,) = kept["records.py"]["timelines"]
    assert (timeline["file"], timeline["dropped"], timeline["unfinished"]) == ("kernel.tltrace", 0, 0)
    assert timeline["events"] > 60
    capsys.readouterr()
    assert examples.main(skipping_hang) == 1  # nothing is run again
    said = capsys.readouterr().out
    lines = [line.split() for line in said.splitlines()]
    assert ["two", "1", "1", "1", "1"] in lines
    assert ["three", "1", "1", "0", "0"] in lines
    assert "3 ran unmodified; 1 of them, 33%, gave a timeline; 2 ended as they did untraced" in said
    assert "HARMED: exit status 5" in said
    elsewhere = [*skipping_hang, "--out", str(tmp_path / "elsewhere")]
    assert examples.main([*elsewhere, "--known", str(tmp_path / "out" / "results.json"), "--budget", "0.1"]) == 1
    assert "3 ran unmodified; 1 of them, 33%, gave a timeline" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        examples.main([*elsewhere, "--known", str(tmp_path / "missing.json")])
    assert "missing.json is no file" in capsys.readouterr().err


def test_sources_are_instrumented_without_a_gpu(
    examples: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_programs(tmp_path)
    arguments = [str(tmp_path), "--list", str(tmp_path / "list"), "--out", str(tmp_path / "out"), "--lower"]
    assert examples.main([*arguments, "--only", "kernel|fails", "--no-compile"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("fails.py: 0 sources; exit no such thing")
    assert said[1] == "kernel.py: 1 sources"
    (source,) = (tmp_path / "out").rglob("*.cu")
    assert "add_kernel" in source.read_text()
