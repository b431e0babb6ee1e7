"""``tileops trace summary``, ``findings`` and ``compare``."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileops
from tileops.cli.main import main
from tileops.cli.trace import COMMANDS
from tileops.cli.trace.findings import VERSION as FINDINGS_VERSION
from tileops.cli.trace.products import product
from tileops.cli.trace.shares import share
from tileops.cli.trace.summary import LONG, TABLES
from tileops.cli.trace.summary import VERSION as SUMMARY_VERSION
from tileops.trace import Timeline
from tileops.trace.comparison import compare
from tileops.trace.comparison.comparison import VERSION as COMPARISON_VERSION
from tileops.trace.recording import Recording
from tileops.trace.slots import WORD_BEGIN_NS, WORD_END_NS

RECORDINGS = Path(__file__).parent / "recordings"
GEMM = Path(tileops.__file__).parent / "recordings" / "gemm_h200.tltrace"
GOOD, ONE_STAGE, SLOW_PRODUCER, SLOW_CONSUMER, TAIL = (
    RECORDINGS / f"gemm_{name}.tltrace"
    for name in ("good", "one-stage", "slow-producer", "slow-consumer", "wave-and-a-bit")
)
STEERING = "\x1b[2J\x07\u202e\udcff"

Ran = Callable[..., tuple[int, str, str]]


def timeline_of(path: Path) -> Timeline:
    return Recording.load(path).decode()


def strict(text: str) -> Any:
    """JSON as the standard has it, which has neither NaN nor infinities."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Ran:
    """Runs ``tileops trace`` with arguments: the exit status, what is printed, and what is complained about."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = main(["trace", *map(str, arguments)])
        except SystemExit as stop:
            status = int(stop.code or 0)
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "cut.tltrace"
    path.write_bytes(GOOD.read_bytes()[:-100])
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with names that would steer a terminal, in a file that is called so too."""
    recording = Recording.load(ONE_STAGE)
    table = recording.table
    table = replace(
        table,
        kernel=f"[red]{STEERING}gemm",
        groups=tuple(replace(group, name=f"{group.name}{STEERING}[b]\nno findings") for group in table.groups),
        ranges=tuple(replace(one, name=f"{one.name} {STEERING}\n", lane=f"{one.lane}\t") for one in table.ranges),
        edges=tuple(
            replace(edge, src=f"{edge.src} {STEERING}\n", dst=f"{edge.dst} {STEERING}\n") for edge in table.edges
        ),
    )
    path = tmp_path_factory.mktemp("hostile") / "a\x1b[2J\nb\udcff.tltrace"
    made = Recording(recording.lines, table, {**recording.meta, "kernel": table.kernel, "device": STEERING})
    made.save(path)
    return path


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def copies(folder: Path, *sources: Path) -> Path:
    """A folder of recordings that differ in a nanosecond or two, and of something else that is none."""
    folder.mkdir()
    for at, source in enumerate(sources):
        recording = Recording.load(source)
        for group in recording.table.groups:
            for word in (WORD_BEGIN_NS, WORD_END_NS):
                recording.lines[1, group.layout.offset + word] += np.uint64(at)
        recording.save(folder / f"launch-{at}.tltrace")
    (folder / "notes.txt").write_text("none")
    return folder


# ---------------------------------------------------------------------------------------------------------------------
# Summary


def test_a_summary_for_people(ran: Ran) -> None:
    status, out, err = ran("summary", GOOD, GEMM)
    assert (status, err) == (0, "")
    assert out == f"{GOOD}\n{timeline_of(GOOD).summary()}\n\n{GEMM}\n{timeline_of(GEMM).summary()}\n"
    assert "45.24 µs" in out


def test_a_summary_for_programs(ran: Ran) -> None:
    status, out, err = ran("summary", GOOD, "--json")
    assert (status, err) == (0, "")
    read = strict(out)
    assert (read["format"], read["version"]) == ("tileops.trace.summary", SUMMARY_VERSION)
    (file,) = read["files"]
    assert list(file) == ["file", "span_ns", "tables"]
    assert file["file"] == str(GOOD)
    summary = timeline_of(GOOD).summary()
    assert file["span_ns"] == summary.span_ns
    assert list(file["tables"]) == [name for name in TABLES if name not in LONG]
    for name, rows in file["tables"].items():
        table = getattr(summary, name)
        assert len(rows) == len(table)
        for column in table.column_names:
            values = table[column].tolist()
            assert [row[column] for row in rows] == [
                None if isinstance(value, float) and not math.isfinite(value) else value for value in values
            ]
    # Ranges against NumPy on the events.
    slices = timeline_of(GOOD).slices
    for row in file["tables"]["ranges"]:
        some = slices.where(group=row["group"], lane=row["lane"], name=row["name"])["duration"]
        assert (row["count"], row["total"]) == (len(some), some.sum())
        assert [row["p50"], row["p99"]] == pytest.approx(np.percentile(some, (50, 99)))
    # A lane without a gap has no mean of them.
    assert any(row["gap_mean"] is None for row in file["tables"]["lanes"])


@pytest.mark.parametrize("name", TABLES)
def test_each_table_whole(name: str, ran: Ran) -> None:
    status, out, _ = ran("summary", ONE_STAGE, "--json", "--table", name)
    assert status == 0
    (file,) = strict(out)["files"]
    table = getattr(timeline_of(ONE_STAGE).summary(), name)
    assert {key: len(rows) for key, rows in file["tables"].items()} == {name: len(table)}
    status, out, _ = ran("summary", ONE_STAGE, "--table", name)
    lines = out.splitlines()
    assert status == 0
    # Nothing is cut off, however narrow the terminal is.
    assert "…" not in out
    assert [line.split() for line in lines if line.split()[:1] == [table.column_names[0]]] == [[*table.column_names]]
    numbered = [line for line in lines[1:] if re.search(r"\d", line) and line.split() != [*table.column_names]]
    assert len(numbered) == len(table)


def test_cells_of_a_table(ran: Ran) -> None:
    _, out, _ = ran("summary", GOOD, "--table", "ranges", "--table", "lanes")
    (row,) = timeline_of(GOOD).summary().ranges.where(group="producer", name="tma")
    (line,) = [line.split() for line in out.splitlines() if line.split()[:3] == ["producer", "tma", "tma"]]
    assert line[3] == f"{row.count:,}"
    assert f"{row.total:,}" in line
    assert f"{row.mean:,.1f}" in line
    assert f"{row.share:.4g}" in line
    (idle,) = [line.split() for line in out.splitlines() if line.split()[:2] == ["consumer0", "main"] and "–" in line]
    assert idle.count("–") == 6  # a lane without gaps has neither their mean nor their percentiles


def test_depth_and_compensation(ran: Ran) -> None:
    _, out, _ = ran("summary", GOOD, "--json", "--table", "handoffs", "--depth", "4")
    assert {row["built"] for row in strict(out)["files"][0]["tables"]["handoffs"]} == {4}
    _, out, _ = ran("summary", GOOD, "--json", "--compensate", "--table", "ranges")
    ranges = Recording.load(GOOD).decode(compensate=True).summary().ranges
    assert [row["total"] for row in strict(out)["files"][0]["tables"]["ranges"]] == ranges["total"].tolist()
    assert ranges["total"].sum() < timeline_of(GOOD).summary().ranges["total"].sum()
    for command in ("summary", "findings"):
        status, _, err = ran(command, GOOD, "--depth", "0")
        assert status == 2
        assert "depth must be the number of the pipeline's stages" in err
        status, _, err = ran(command, GOOD, "--depth", "four")
        assert status == 2
        assert "--depth" in err


# ---------------------------------------------------------------------------------------------------------------------
# Findings


def test_findings_for_people(ran: Ran) -> None:
    status, out, err = ran("findings", GOOD, SLOW_PRODUCER)
    assert (status, err) == (0, "")
    told = "\n".join(map(str, timeline_of(SLOW_PRODUCER).findings()))
    assert out == f"{GOOD}\nno findings\n\n{SLOW_PRODUCER}\n{told}\n"
    assert told.startswith("consumer-starved")


def test_findings_for_programs(ran: Ran) -> None:
    status, out, _ = ran("findings", GOOD, ONE_STAGE, TAIL, "--json")
    assert status == 0
    read = strict(out)
    assert (read["format"], read["version"]) == ("tileops.trace.findings", FINDINGS_VERSION)
    assert [file["file"] for file in read["files"]] == [str(GOOD), str(ONE_STAGE), str(TAIL)]
    for file in read["files"]:
        findings = timeline_of(Path(file["file"])).findings()
        assert file["findings"] == json.loads(json.dumps([finding.as_dict() for finding in findings]))
        for finding, wanted in zip(file["findings"], findings):
            assert (finding["rule"], finding["win"], finding["figures"]) == (wanted.rule, wanted.win, wanted.figures)
    assert [file["findings"][0]["rule"] for file in read["files"][1:]] == ["no-overlap", "tail-wave"]


def test_the_least_win(ran: Ran) -> None:
    assert ran("findings", GEMM)[1].endswith("\nno findings\n")
    for text in ("2%", "0.02"):
        status, out, _ = ran("findings", GEMM, "--minimum", text)
        assert status == 0
        assert "tail-wave (up to 3." in out
    assert ran("findings", SLOW_PRODUCER, "--minimum", "99%")[1].endswith("\nno findings\n")


def test_findings_that_fail(ran: Ran, broken: Path) -> None:
    (win,) = [finding.win for finding in timeline_of(SLOW_PRODUCER).findings()]
    for limit, status in ((f"{win}", 1), ("10%", 1), ("0%", 1), (f"{win + 1e-6}", 0), ("100%", 0)):
        assert ran("findings", SLOW_PRODUCER, "--fail-on", limit)[0] == status
        assert ran("findings", GOOD, SLOW_PRODUCER, "--json", "--fail-on", limit)[0] == status
        # What is not known is worse than what is found.
        assert ran("findings", SLOW_PRODUCER, broken, "--fail-on", limit)[0] == 2
    assert ran("findings", SLOW_PRODUCER)[0] == 0
    assert ran("findings", GOOD, "--fail-on", "0%")[0] == 0


def test_what_is_about_the_recording_does_not_fail(ran: Ran) -> None:
    one_group = RECORDINGS / "matmul_one-group.tltrace"
    wins = [finding.win for finding in timeline_of(one_group).findings()]
    assert wins[0] > 0.3
    assert wins[1:] == [0.0]
    assert ran("findings", one_group, "--minimum", "70%", "--fail-on", "0%")[0] == 0


def test_operations_tell_a_slow_computation(ran: Ran, tmp_path: Path) -> None:
    assert ran("findings", SLOW_CONSUMER)[1].endswith("\nno findings\n")
    wanted = [one.as_dict() for one in timeline_of(SLOW_CONSUMER).findings(flops=2 * 1536 * 2816 * 4096)]
    for text in ("2*1536*2816*4096", "2 * 1536 * 2816 * 4096", "35433480192", "3.5433480192e10"):
        status, out, _ = ran("findings", SLOW_CONSUMER, "--flops", text, "--fail-on", "50%", "--json")
        assert status == 1
        assert strict(out)["files"][0]["findings"] == json.loads(json.dumps(wanted))
    assert ran("findings", GOOD, "--flops", "2*1536*2816*4096")[1].endswith("\nno findings\n")
    # A file of another device does not keep the others back.
    recording = Recording.load(GOOD)
    Recording(recording.lines, recording.table, {**recording.meta, "device": "an RTX"}).save(tmp_path / "rtx.tltrace")
    status, out, err = ran("findings", tmp_path / "rtx.tltrace", GOOD, "--flops", "2*1536*2816*4096")
    assert (status, out) == (2, f"{GOOD}\nno findings\n")
    assert re.fullmatch(r"tileops: \S+rtx\.tltrace: findings: flops needs a device of known rate .*\n", err)


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7), ("2*3*4", 24), (" 2 * 3 ", 6), ("1.5*2", 3), ("1e3*2", 2000), ("2.5E+2", 250)]
)
def test_products(text: str, value: float) -> None:
    assert product(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "*", "2*", "*2", "2**3", "2x3", "-1", "2*-3", "0", "2*0", "1e400", "1e300*1e300", "nan", "inf", "1_000",
     "0x10", "2+3", "(2)", "\u0662", "1e-3", ".5", "__import__('os')", "1e3e3"],
)  # fmt: skip
def test_bad_products(text: str, ran: Ran) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no number of operations"):
        product(text)
    status, out, err = ran("findings", GOOD, f"--flops={text}")
    assert (status, out) == (2, "")
    assert "is no number of operations: write 2*1536*2816*4096 or 3.5e10" in err


# ---------------------------------------------------------------------------------------------------------------------
# Comparison


def test_a_comparison_for_people(ran: Ran) -> None:
    status, out, err = ran("compare", GOOD, SLOW_PRODUCER)
    assert (status, err) == (0, "")
    assert out == f"{compare(timeline_of(GOOD), timeline_of(SLOW_PRODUCER))}\n"
    assert "45.24 µs before, 134.87 µs after: +198.1%" in out
    assert "New findings\n  consumer-starved" in out
    # The other way round it is gone.
    assert "Findings that are gone\n  consumer-starved" in ran("compare", SLOW_PRODUCER, GOOD)[1]


def test_a_comparison_for_programs(ran: Ran) -> None:
    status, out, _ = ran("compare", GOOD, ONE_STAGE, "--json")
    assert status == 0
    read = strict(out)
    before, after = timeline_of(GOOD), timeline_of(ONE_STAGE)
    assert (read["format"], read["version"]) == ("tileops.trace.comparison", COMPARISON_VERSION)
    assert read == json.loads(json.dumps(compare(before, after).as_dict()))
    spans = [float(np.ptp([*one.ctas["begin_ns"], *one.ctas["end_ns"]])) for one in (before, after)]
    assert [read["span_ns"][side] for side in ("before", "after")] == pytest.approx(spans)
    assert read["span_ns"]["change"] == pytest.approx(spans[1] / spans[0] - 1)
    assert read["span_ns"]["verdict"] == "slower"
    for change in read["ranges"]:
        means = [
            float(one.slices.where(group=change["group"], lane=change["lane"], name=change["name"])["duration"].sum())
            / len(one.ctas)
            for one in (before, after)
        ]
        assert [change["cycles"][side] for side in ("before", "after")] == pytest.approx(means)


def test_other_grids_have_no_spread_in_json(ran: Ran) -> None:
    read = strict(ran("compare", GOOD, TAIL, "--json")[1])
    assert {change["cycles"]["low"] for change in read["ranges"]} == {None}
    assert any("other grids" in sentence for sentence in read["caution"])


def test_folders_of_repeats(ran: Ran, tmp_path: Path) -> None:
    base = copies(tmp_path / "base", GOOD, GOOD, ONE_STAGE)
    new = copies(tmp_path / "new", SLOW_PRODUCER, SLOW_PRODUCER, SLOW_PRODUCER, SLOW_PRODUCER)
    status, out, _ = ran("compare", base, new, "--json")
    assert status == 0
    read = strict(out)
    assert read["launches"] == {"before": 3, "after": 4}
    # Of medians: one launch of three differs.
    assert read["span_ns"]["before"] == pytest.approx(
        strict(ran("compare", GOOD, GOOD, "--json")[1])["span_ns"]["before"]
    )
    assert (read["span_ns"]["verdict"], read["span_ns"]["evidence"]) == (
        "slower",
        "weak" if 2 / 35 > 0.05 else "strong",
    )
    # A launch alone has a finding that most of its side have not.
    assert read["findings"]["gone"] == []
    assert [finding["rule"] for finding in read["findings"]["new"]] == ["consumer-starved"]
    # A folder and a file can be compared.
    assert strict(ran("compare", base, ONE_STAGE, "--json")[1])["launches"] == {"before": 3, "after": 1}
    (tmp_path / "none").mkdir()
    status, out, err = ran("compare", base, tmp_path / "none")
    assert (status, out, err) == (2, "", f"tileops: {tmp_path / 'none'}: holds no recording (*.tltrace)\n")
    (new / "folder.tltrace").mkdir()
    status, out, err = ran("compare", base, new)
    assert (status, out) == (2, "")
    assert "folder.tltrace: is a folder" in err


def test_comparisons_that_fail(ran: Ran, tmp_path: Path) -> None:
    change = compare(timeline_of(GOOD), timeline_of(TAIL)).regression()
    assert change > 0.5
    for condition, status in (
        ("regression=3%", 1), ("regression=0.03", 1), (f"regression={change}", 1), ("regression=100%", 0),
        ("finding=10%", 1), ("finding=0%", 1), ("finding=90%", 0),
    ):  # fmt: skip
        assert ran("compare", GOOD, TAIL, "--fail-on", condition)[0] == status
        # What became faster, or what was there before, fails nothing.
        assert ran("compare", TAIL, GOOD, "--fail-on", condition)[0] == 0
        assert ran("compare", GOOD, GOOD, "--fail-on", condition)[0] == 0
    both = ("--fail-on", "regression=100%", "--fail-on", "finding=10%")
    assert ran("compare", GOOD, TAIL, *both)[0] == 1
    assert ran("compare", GOOD, GOOD, *both, "--json")[0] == 0
    assert ran("compare", GOOD, TAIL)[0] == 0


def test_a_change_that_counts_as_noise(ran: Ran) -> None:
    made = compare(timeline_of(GOOD), timeline_of(TAIL))
    assert 0.5 < made.span.change < 0.99
    out = ran("compare", GOOD, TAIL, "--minimum", "99%", "--fail-on", "regression=3%")
    assert out[0] == 0
    assert "noise, provisional: less than 99.0%" in out[1]
    status, out, err = ran("compare", GOOD, GOOD, "--minimum", "100%")
    assert (status, out) == (2, "")
    assert "minimum must be a share, from 0 to less than 1" in err


def test_the_page_of_a_comparison(ran: Ran, tmp_path: Path) -> None:
    page = tmp_path / "new" / "change.html"
    status, out, _ = ran("compare", GOOD, TAIL, "--html", page)
    assert status == 0
    assert out.endswith(f"\n\n{page}\n")
    assert "before and after" in page.read_text(encoding="utf-8")
    # JSON stays JSON.
    strict(ran("compare", GOOD, TAIL, "--json", "--html", page)[1])
    # A failing comparison still has its page.
    page.unlink()
    assert ran("compare", GOOD, TAIL, "--html", page, "--fail-on", "regression=3%")[0] == 1
    assert page.exists()
    status, out, err = ran("compare", GOOD, TAIL, "--html", GOOD / "below.html")
    assert (status, out) == (2, "")
    assert re.fullmatch(r"tileops: \S+below\.html: cannot be written: the folder \S+ cannot be made: .*\n", err)


def test_the_page_of_a_comparison_costs_no_other_file(ran: Ran, tmp_path: Path) -> None:
    first, second, other = (Path(shutil.copy(GOOD, tmp_path / f"{name}.tltrace")) for name in "abc")
    repeats = copies(tmp_path / "repeats", GOOD, GOOD)
    nameless = Path(shutil.copy(GOOD, tmp_path / "nameless"))
    (tmp_path / "link").symlink_to(nameless)
    os.mkfifo(tmp_path / "pipe")
    contents = {file: file.read_bytes() for file in (first, second, other, nameless, *repeats.iterdir())}
    lost, read = "it is a recording, which would be lost: give another name", "it is one of the files that are read"
    for page, said in (
        (first, lost), (second, lost), (other, lost), (repeats / "launch-1.tltrace", lost), (nameless, read),
        (tmp_path / "link", read), (tmp_path / "pipe", "it is a pipe: give a file's name"),
        (tmp_path, "it is a folder: give a file's name"),
    ):  # fmt: skip
        for before, after in ((first, second), (repeats, second), (nameless, repeats)):
            if said == read and before != nameless:
                continue
            status, out, err = ran("compare", before, after, "--html", page)
            assert (status, out) == (2, "")
            assert err.startswith(f"tileops: {page}: cannot be written: {said}")
            assert err.count("\n") == 1
    assert {file: file.read_bytes() for file in contents} == contents
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "page.html").symlink_to("target.html")
    assert ran("compare", first, second, "--html", tmp_path / "page.html")[0] == 0
    assert (tmp_path / "page.html").is_symlink()
    assert (tmp_path / "target.html").exists()


# ---------------------------------------------------------------------------------------------------------------------
# What goes wrong


@pytest.mark.parametrize("flags", [[], ["--json"]])
@pytest.mark.parametrize("command", ["summary", "findings"])
def test_one_broken_file_of_several(command: str, flags: list[str], ran: Ran, broken: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.tltrace"
    foreign.write_text("<html>")
    long = tmp_path / ("x" * 300)
    files = [broken, GOOD, tmp_path / "gone.tltrace", foreign, tmp_path, long, SLOW_PRODUCER]
    status, out, err = ran(command, *files, *flags)
    assert status == 2
    assert re.fullmatch(
        r"tileops: \S+cut\.tltrace: not a recording of tileops, or a damaged one .*\n"
        r"tileops: \S+gone\.tltrace: cannot be read: .*\n"
        r"tileops: \S+foreign\.tltrace: not a recording .*\n"
        r"tileops: \S+: is a folder: name its files, such as \S+\*\.tltrace\n"
        r"tileops: \S+x+: File name too long\n",
        err,
    )
    if flags:
        assert [file["file"] for file in strict(out)["files"]] == [str(GOOD), str(SLOW_PRODUCER)]
    else:
        assert (str(GOOD) in out, str(SLOW_PRODUCER) in out, "Traceback" in out) == (True, True, False)


@pytest.mark.parametrize("flags", [[], ["--json"], ["--fail-on", "regression=3%"]])
def test_a_comparison_with_a_broken_side(flags: list[str], ran: Ran, broken: Path, tmp_path: Path) -> None:
    repeats = copies(tmp_path / "repeats", GOOD)
    shutil.copy(broken, repeats / "launch-1.tltrace")
    for bad in (broken, tmp_path / "gone.tltrace", repeats, tmp_path / ("x" * 300)):
        for sides in ((bad, GOOD), (GOOD, bad)):
            status, out, err = ran("compare", *sides, *flags)
            assert (status, out) == (2, "")
            assert re.fullmatch(rf"tileops: {re.escape(str(bad))}\S*: \S.*\n", err)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3%", 0.03), ("0.03", 0.03), ("0", 0), ("0%", 0), ("100%", 1), ("1", 1), ("2.5%", 0.025), ("1e-3", 0.001)],
)
def test_shares(text: str, value: float) -> None:
    assert share(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["", "%", "x", "3 percent", "101%", "1.01", "-1%", "-0.1", "nan", "nan%", "inf", "3%%"]
)
def test_bad_shares(text: str, ran: Ran) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"is no share: write 3% or 0\.03"):
        share(text)
    for arguments in (
        ("findings", GOOD, f"--fail-on={text}"), ("findings", GOOD, f"--minimum={text}"),
        ("compare", GOOD, GOOD, f"--minimum={text}"), ("compare", GOOD, GOOD, f"--fail-on=regression={text}"),
    ):  # fmt: skip
        status, out, err = ran(*arguments)
        assert (status, out) == (2, "")
        assert "is no share: write 3% or 0.03" in err


@pytest.mark.parametrize("text", ["regression", "3%", "finding", "slower=3%", "=3%", "Regression=3%", "regression:3%"])
def test_bad_conditions(text: str, ran: Ran) -> None:
    status, out, err = ran("compare", GOOD, GOOD, "--fail-on", text)
    assert (status, out) == (2, "")
    assert "is no condition: write regression=3% or finding=10%" in err


@pytest.mark.parametrize("arguments", [
    ["summary"], ["findings"], ["compare"], ["compare", "x"], ["compare", "x", "y", "z"],
    ["summary", "x", "--table", "all"], ["summary", "x", "--fail-on", "3%"], ["findings", "x", "--html", "y"],
])  # fmt: skip
def test_wrong_arguments(arguments: list[str], ran: Ran) -> None:
    status, out, err = ran(*arguments)
    assert (status, out) == (2, "")
    assert "usage: tileops" in err
    assert "error: " in err


def test_names_that_steer_a_terminal(ran: Ran, hostile: Path, tmp_path: Path) -> None:
    for arguments in (
        ("summary", hostile), *(("summary", hostile, "--table", name) for name in TABLES), ("findings", hostile),
        ("compare", GOOD, hostile), ("compare", hostile, GOOD), ("compare", hostile, hostile), ("info", hostile),
        ("compare", hostile, hostile, "--html", tmp_path / "\x1b[2J.html"),
    ):  # fmt: skip
        status, out, err = ran(*arguments)
        assert (status, err) == (0, "")
        assert harmless(out)
        out.encode()
        # No name makes a line of its own.
        assert not re.search(r"^\W*no findings", out, re.MULTILINE)
    missing = hostile.with_name("gone\x1b[2J\udcff.tltrace")
    for arguments in (("summary", missing), ("findings", missing), ("info", missing), ("compare", missing, missing)):
        status, out, err = ran(*arguments)
        assert (status, out) == (2, "")
        assert harmless(err)
        assert "gone\ufffd[2J\ufffd.tltrace" in err


def test_names_are_whole_in_json(ran: Ran, hostile: Path) -> None:
    for arguments in (("summary", hostile), ("findings", hostile)):
        (file,) = strict(ran(*arguments, "--json")[1])["files"]
        assert file["file"] == str(hostile)
    names = {row["name"] for row in strict(ran("summary", hostile, "--json")[1])["files"][0]["tables"]["ranges"]}
    assert names == {one.name for one in Recording.load(hostile).table.ranges}
    changed = strict(ran("compare", GOOD, hostile, "--json")[1])
    assert names <= {change["name"] for change in changed["ranges"]}


def test_a_recording_without_a_clock_or_an_event(ran: Ran, tmp_path: Path) -> None:
    """What is not known is null, and said."""
    recording = Recording.load(GOOD)
    nothing = tmp_path / "nothing.tltrace"
    Recording(np.zeros_like(recording.lines), recording.table, recording.meta).save(nothing)
    for arguments in (("summary", nothing), ("findings", nothing), ("compare", nothing, GOOD)):
        status, _, err = ran(*arguments)
        if status == 2:
            assert re.match(r"tileops: \S+nothing\.tltrace: ", err)
        else:
            assert (status, err) == (0, "")
            strict(ran(*arguments, "--json")[1])


# ---------------------------------------------------------------------------------------------------------------------
# As a command


@pytest.mark.parametrize("command", ["summary", "findings", "compare"])
def test_help_has_examples_that_run(command: str, ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = ran(command, "--help")
    assert status == 0
    examples = [line.strip() for line in out.split("examples:\n")[1].splitlines() if line.strip()]
    assert len(examples) > 1
    (tmp_path / "debug").mkdir()
    for name in ("debug/gemm.tltrace", "gemm.tltrace", "base.tltrace"):
        shutil.copy(GOOD, tmp_path / name)
    shutil.copy(TAIL, tmp_path / "new.tltrace")
    copies(tmp_path / "base", GOOD, GOOD)
    copies(tmp_path / "new", TAIL)
    monkeypatch.chdir(tmp_path)
    for line in examples:
        words = shlex.split(line.split("|")[0], comments=True)
        assert words[:3] == ["tileops", "trace", command]
        failing = "--fail-on" in words and command == "compare"
        status, out, err = ran(*words[2:])
        assert (status, err) == (int(failing), "")
        assert out
    assert (tmp_path / "change.html").exists() == (command == "compare")


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
@pytest.mark.parametrize("command", ["summary", "findings"])
def test_examples_with_jq_run(command: str, ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (piped,) = [line.strip() for line in ran(command, "--help")[1].split("examples:\n")[1].splitlines() if "|" in line]
    shutil.copy(ONE_STAGE, tmp_path / "gemm.tltrace")
    line = piped.replace("tileops", f"{shlex.quote(sys.executable)} -m tileops", 1)
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


def test_reading_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom tileops.cli.main import main\n"
        f"for words in (['summary', {str(GOOD)!r}], ['findings', {str(GOOD)!r}], ['compare', *2 * [{str(GOOD)!r}]]):\n"
        "    assert main(['trace', *words]) == 0\n"
        "print('heavy:', sorted({'torch', 'tilelang', 'plotly', 'pyarrow', 'perfetto'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "utf-8"}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("heavy: []\n")


def test_help_lists_all_commands_and_each_has_an_example(ran: Ran) -> None:
    status, out, _ = ran("--help")
    assert status == 0
    listed = re.findall(r"^    (\w+)  +\S", out, re.MULTILINE)
    assert listed == [*COMMANDS]
    assert listed == ["run", "summary", "findings", "compare", "export", "info"]
    for command, module in COMMANDS.items():
        status, out, _ = ran(command, "--help")
        assert status == 0
        assert f"  tileops trace {command} " in out.split("\nexamples:\n")[1]
        # A "%" that argparse takes for its own would be an error, or read "%%".
        assert "%%" not in out
        assert " ".join(module.HELP.split()) in " ".join(ran("--help")[1].split())
