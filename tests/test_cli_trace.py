"""``tileops trace export`` and ``tileops trace info``."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import tileops
from tileops.cli import progress
from tileops.cli.main import main
from tileops.cli.trace.export import FORMATS
from tileops.trace.recording import Recording
from tileops.trace.slots import WORD_GRID_XY, WORD_GRID_Z

GEMM = Path(tileops.__file__).parent / "recordings" / "gemm_h200.tltrace"


@pytest.fixture
def gemm(tmp_path: Path) -> Path:
    return Path(shutil.copy(GEMM, tmp_path / "gemm.tltrace"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recording of one CTA of the GEMM's."""
    index = json.loads(zipfile.ZipFile(GEMM).read("recording.json"))
    recording = Recording.load(GEMM)
    table = recording.table
    lines = recording.lines[:1].copy()
    for group in table.groups:
        lines[0, group.layout.offset + WORD_GRID_XY] = 1 << 32 | 1
        lines[0, group.layout.offset + WORD_GRID_Z] = 1
    path = tmp_path_factory.mktemp("small") / "small.tltrace"
    Recording(lines, table, {**index["meta"], "host": "node", "rank": 3, "launch": 7}).save(path)
    return path.read_bytes()


@pytest.fixture
def one(small: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "one.tltrace"
    path.write_bytes(small)
    return path


@pytest.mark.parametrize("form", FORMATS)
def test_files_appear_beside_their_recordings(form: str, one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "export", str(one), "--format", form]) == 0
    written = one.with_name(f"one{FORMATS[form].suffix}")
    assert capsys.readouterr().out == f"{written}\n"
    assert sorted(one.parent.iterdir()) == sorted([one, written])
    assert len(written.read_bytes()) > 1000


def test_the_suffixes_are_those_of_the_exporters() -> None:
    from tileops.trace.export import arrow, chrome, perfetto, texts

    assert {form.suffix for form in FORMATS.values()} == {
        arrow.SUFFIX, chrome.SUFFIX, perfetto.SUFFIX, texts.CSV_SUFFIX, texts.JSON_SUFFIX, ".html"
    }  # fmt: skip


def test_output_is_a_file_or_a_folder(one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Path(shutil.copy(one, tmp_path / "other.tltrace"))
    for output, made in (("x.csv", "x.csv"), ("new/", "new/one.csv"), ("new", "new/one.csv"), (".", "one.csv")):
        assert main(["trace", "export", str(one), "--format", "csv", "--output", f"{tmp_path}/{output}"]) == 0
        assert Path(capsys.readouterr().out.strip()) == tmp_path / made
        (tmp_path / made).unlink()
    both = ["trace", "export", str(one), str(other), "--format", "csv", "--output"]
    assert main([*both, f"{tmp_path}/new"]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["one.csv", "other.csv"]
    capsys.readouterr()
    assert main([*both, f"{tmp_path}/file"]) == 2
    assert f"is one file for 2: name a folder, as {tmp_path}/file/" in capsys.readouterr().err
    assert not (tmp_path / "file").exists()


def test_nothing_is_written_over_another_or_over_a_recording(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b").mkdir()
    twin = Path(shutil.copy(one, tmp_path / "b" / one.name))
    before = one.read_bytes()
    for arguments in ([str(one), str(twin), "--output", f"{tmp_path}/out/"], [str(one), "--output", str(one)]):
        assert main(["trace", "export", *arguments]) == 2
        assert "write them to different folders with --output" in capsys.readouterr().err
    assert one.read_bytes() == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_a_recording_is_never_an_output_by_another_name(
    form: str, one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path(shutil.copy(one, tmp_path / "other.tltrace"))
    nameless = Path(shutil.copy(one, tmp_path / "nameless"))
    (tmp_path / "link").symlink_to(other)
    (tmp_path / "itself").symlink_to(nameless)
    before = one.read_bytes()
    for source, output, said in (
        (one, other, "cannot be written: it is a recording, which would be lost: give another name"),
        (one, tmp_path / "link", "cannot be written: it is a recording, which would be lost: give another name"),
        (nameless, tmp_path / "itself", "write them to different folders with --output"),
    ):  # fmt: skip
        assert main(["trace", "export", str(source), "--format", form, "--output", str(output)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("tileops: ")
        assert err.endswith(f"{said}\n")
        assert str(output) in err or str(source) in err
    assert (one.read_bytes(), other.read_bytes(), nameless.read_bytes()) == (before, before, before)
    # The name beside a recording may lead to one too.
    (tmp_path / f"one{FORMATS[form].suffix}").symlink_to(one)
    assert main(["trace", "export", str(one), "--format", form]) == 2
    assert "write them to different folders with --output" in capsys.readouterr().err
    assert one.read_bytes() == before


def test_two_files_are_not_written_over_each_other_through_links(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path(shutil.copy(one, tmp_path / "other.tltrace"))
    (tmp_path / "one.csv").symlink_to("other.csv")
    assert main(["trace", "export", str(one), str(other), "--format", "csv"]) == 2
    assert "other.tltrace: would be written over" in capsys.readouterr().err
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_a_pipe_is_refused_and_a_link_is_followed(
    form: str, one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("target")
    assert main(["trace", "export", str(one), "--format", form, "--output", str(pipe)]) == 2
    said = f"tileops: {pipe}: cannot be written: it is a pipe: give a file's name\n"
    assert capsys.readouterr() == ("", said)
    assert pipe.is_fifo()
    assert main(["trace", "export", str(one), "--format", form, "--output", str(link)]) == 0
    assert capsys.readouterr().out == f"{link}\n"
    assert link.is_symlink()
    assert (tmp_path / "target").stat().st_size > 1000


def test_bad_files_are_told_one_by_one_and_keep_nothing_back(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut, page = tmp_path / "cut.tltrace", tmp_path / "page.html"
    cut.write_bytes(one.read_bytes()[:-100])
    page.write_text("<html>")
    files = [str(path) for path in (cut, tmp_path / "gone.tltrace", page, tmp_path, one)]
    for arguments in (["export", "--format", "json"], ["info"], ["info", "--json"]):
        assert main(["trace", *arguments, *files]) == 2
        out, err = capsys.readouterr()
        assert re.fullmatch(
            r"tileops: \S+cut\.tltrace: not a recording of tileops, or a damaged one .*\n"
            r"tileops: \S+gone\.tltrace: cannot be read: .*\n"
            r"tileops: \S+page\.html: not a recording .*\n"
            r"tileops: \S+: is a folder: name its files, such as \S+\*\.tltrace\n",
            err,
        )
        assert "one" in out
    assert (tmp_path / "one.json").exists()
    assert not list(tmp_path.glob("cut.json"))


def test_what_cannot_be_written_is_told(one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in FORMATS:
        assert main(["trace", "export", str(one), "--format", form, "--output", str(one / "below")]) == 2
        err = capsys.readouterr().err
        assert re.fullmatch(r"tileops: \S+below: cannot be written: the folder \S+ cannot be made: .*\n", err)


def test_compensate_takes_the_cost_out(one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    took = []
    for flags in ([], ["--compensate"]):
        assert main(["trace", "export", str(one), "--format", "parquet", *flags]) == 0
        took.append(sum(pyarrow.parquet.read_table(tmp_path / "one.parquet")["duration"].to_pylist()))
    recording = Recording.load(one)
    Recording(recording.lines, recording.table, {}).save(one)
    assert took[1] < took[0]
    assert main(["trace", "export", str(one), "--compensate"]) == 2
    assert "compensate: what a record cost on this recording's device is unknown" in capsys.readouterr().err


def test_info_for_people(gemm: Path, one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "info", str(gemm), str(one)]) == 0
    first, second = capsys.readouterr().out.split(str(one))
    lines = [line.rstrip() for line in first.splitlines()]
    assert lines[0] == str(gemm)
    for line in (
        "kernel    gemm", "device    NVIDIA H200", "grid      16 × 32 × 1, 512 CTAs recorded",
        "groups    producer, consumer0, consumer1", "events    462,848, 0 dropped",
        "          231,424 ranges, 0 instants, 65,536 flows", "span      185.48 µs",
        "file      83,849 bytes, 23.4 times smaller than what was recorded",
    ):  # fmt: skip
        assert line in lines
    assert "host" not in first
    assert re.search(r"^host +node *\nrank +3 *\nlaunch +7 *$", second, re.MULTILINE)


def test_info_for_programs(gemm: Path, one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "info", "--json", str(gemm), str(one)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["version"]) == ("tileops.trace.info", 1)
    first, second = found["files"]
    timeline = Recording.load(gemm).decode()
    facts = {
        "file": str(gemm), "bytes": gemm.stat().st_size, "kernel": "gemm", "device": "NVIDIA H200", "rank": None,
        "grid": [16, 32, 1], "ctas": 512, "ranges": len(timeline.slices), "instants": 0, "flows": len(timeline.flows),
        "recorded": timeline.recorded, "dropped": 0, "unfinished": [], "never_fired": [],
        "groups": list(timeline.groups), "date": "2026-11-30T22:24:26+00:00",
        "span_ns": float(timeline.ctas["end_ns"].max()), "axis_error_ns": timeline.axis_error_ns,
        "meta": json.loads(json.dumps(timeline.meta)),
    }  # fmt: skip
    assert {name: first[name] for name in facts} == facts
    assert (second["host"], second["rank"], second["launch"]) == ("node", 3, 7)


def test_info_of_texts_that_steer_a_terminal(one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = Recording.load(one)
    meta = {**recording.meta, "device": "\x1b[2J\x07 [red]here[/red]\n\u202e", "versions": ["x"], "date": 5}
    Recording(recording.lines, recording.table, meta).save(one)
    assert main(["trace", "info", str(one)]) == 0
    out = capsys.readouterr().out
    assert "\ufffd[2J\ufffd [red]here[/red]\ufffd\ufffd" in out
    assert "\x1b" not in out
    assert main(["trace", "info", "--json", str(one)]) == 0
    assert json.loads(capsys.readouterr().out)["files"][0]["meta"]["device"] == meta["device"]


@pytest.mark.parametrize("arguments", [
    ["trace"], ["trace", "export"], ["trace", "info"], ["trace", "paint", "x"],
    ["trace", "export", "x", "--format", "pdf"], ["trace", "info", "x", "--output", "y"],
])  # fmt: skip
def test_wrong_arguments_exit_with_2_and_say_how(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: tileops" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["export", "info"])
def test_help_has_an_example_that_runs(
    command: str, gemm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        main(["trace", command, "--help"])
    examples = capsys.readouterr().out.split("examples:\n")[1].split("\n")
    assert len(examples) > 1
    (tmp_path / "debug").mkdir()
    shutil.copy(gemm, tmp_path / "debug" / "gemm.tltrace")
    monkeypatch.chdir(tmp_path)
    for line in filter(None, examples):
        words = shlex.split(line.split("|")[0], comments=True)
        assert words[:3] == ["tileops", "trace", command]
        assert main([word.replace("*", "gemm") for word in words[1:]]) == 0
    assert (tmp_path / "out" / "gemm.csv").exists() == (command == "export")


def test_help_and_info_import_nothing_heavy(one: Path) -> None:
    code = (
        "import sys\nfrom tileops.cli.main import main\n"
        f"main(['trace', 'info', {str(one)!r}])\n"
        "print('heavy:', sorted({'torch', 'tilelang', 'plotly', 'pyarrow', 'perfetto'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("heavy: []\n")


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_progress_shows_after_a_second_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    for terminal in (True, False):
        monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")
        monkeypatch.setenv("TTY_COMPATIBLE", "1" if terminal else "0")
        for seconds, shown in ((0.5, False), (1.5, terminal)):
            with progress.progress(2) as report:
                report(0, "[b]gemm", 0.0)
                clock.now += seconds
                report(1, "[b]gemm", 0.5)
            out, err = capsys.readouterr()
            assert ("[b]gemm" in err) == shown
            assert out == ""


def test_suffixes_of_what_is_read(one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name with several dots keeps all but the last; a recording may have any name."""
    odd: Any = Path(shutil.copy(one, tmp_path / "a.b.c"))
    assert main(["trace", "export", str(odd), "--format", "csv"]) == 0
    assert (tmp_path / "a.b.csv").exists()
