"""Where profiles write: through links, over nothing that is no file, and over nothing that is read."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tileops.cli.main import main
from tileops.profile.errors import ProfileError
from tileops.profile.facts import Report
from tileops.profile.reading import read_trace
from tileops.profile.report.build import report_on

from .kineto import Maker

NAMES = ["report.html", "report.json", "report.txt", "trace.json.gz"]
Ran = Callable[..., tuple[int, str, str]]


def written(path: Path) -> Path:
    maker = Maker()
    for number in range(5):
        maker.launch(100 * number, 5, 100 * number + 10, 50)
    path.write_text(maker.text())
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return written(tmp_path / "t.json")


@pytest.fixture
def report(trace: Path) -> Report:
    return report_on(read_trace(str(trace)))


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Ran:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        status = main(["profile", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


def test_a_comparison_over_what_is_no_file(ran: Ran, trace: Path, tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for output, kind in ((pipe, "pipe"), (link, "pipe"), (tmp_path, "folder")):
        said = f"tileops: {output}: cannot be written: it is a {kind}: give a file's name\n"
        assert ran("compare", trace, trace, "--output", output) == (2, "", said)
    assert pipe.is_fifo()
    assert link.is_symlink()
    said = f"tileops: {trace / 'x'}: cannot be written: the folder {trace} cannot be made: File exists\n"
    assert ran("compare", trace, trace, "--output", trace / "x") == (2, "", said)


def test_a_comparison_through_a_link(ran: Ran, trace: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "page.html", tmp_path / "link.html"
    link.symlink_to(target)
    assert ran("compare", trace, trace, "--output", link)[0] == 0
    assert link.is_symlink()
    assert target.read_text().startswith("<!doctype html>")


def test_a_comparison_over_what_is_read_or_recorded(ran: Ran, trace: Path, tmp_path: Path) -> None:
    other, link, recording = written(tmp_path / "u.json"), tmp_path / "link", tmp_path / "x.tltrace"
    link.symlink_to(other)
    recording.write_text("a recording")
    before = trace.read_bytes()
    for output in (trace, other, link):
        status, out, err = ran("compare", trace, other, "--output", output)
        assert (status, out) == (2, "")
        assert err == f"tileops: {output}: cannot be written: it is one of the files that are read: give another name\n"
    assert (trace.read_bytes(), other.read_bytes()) == (before, before)
    status, out, err = ran("compare", trace, other, "--output", recording)
    assert (status, out) == (2, "")
    assert "x.tltrace: cannot be written: it is a recording, which would be lost" in err
    assert recording.read_text() == "a recording"


@pytest.mark.parametrize("name", NAMES)
def test_a_report_over_what_is_no_file(name: str, ran: Ran, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / name)
    status, out, err = ran("read", trace, "--output", tmp_path / "out")
    said = f"tileops: {tmp_path / 'out' / name}: cannot be written: it is a pipe: give a file's name\n"
    assert (status, out, err) == (2, "", said)
    assert (tmp_path / "out" / name).is_fifo()
    assert os.listdir(tmp_path / "out") == [name]


@pytest.mark.parametrize("name", NAMES)
def test_a_report_through_links(name: str, ran: Ran, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to("../elsewhere")
    assert ran("read", trace, "--output", tmp_path / "out")[0] == 0
    assert sorted(os.listdir(tmp_path / "out")) == NAMES
    assert (tmp_path / "out" / name).is_symlink()
    assert (tmp_path / "elsewhere").stat().st_size > 100


@pytest.mark.parametrize("name", NAMES[:3])
def test_a_report_over_the_trace_that_it_is_of(name: str, ran: Ran, trace: Path, tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    source = Path(trace.rename(place / name))
    before = source.read_bytes()
    (tmp_path / "link.json").symlink_to(source)
    for given in (source, tmp_path / "link.json"):
        status, out, err = ran("read", given, "--output", place)
        assert (status, out) == (2, "")
        assert err == f"tileops: {source}: cannot be written: it is one of the files that are read: give another name\n"
    assert source.read_bytes() == before
    assert os.listdir(place) == [name]


def test_a_trace_that_is_there_by_another_name_stays(ran: Ran, trace: Path, tmp_path: Path) -> None:
    kept = tmp_path / "out" / "trace.json.gz"
    kept.parent.mkdir()
    kept.write_bytes(gzip.compress(trace.read_bytes()))
    os.link(kept, tmp_path / "hard.json.gz")
    for given in (kept, tmp_path / "hard.json.gz"):
        assert ran("read", given, "--output", kept.parent)[0] == 0
        assert gzip.decompress(kept.read_bytes()) == trace.read_bytes()


def test_files_beside_a_report(report: Report, tmp_path: Path) -> None:
    source, place = tmp_path / "kernel.cu", tmp_path / "out"
    source.write_text("// a kernel")
    place.mkdir()
    (place / source.name).symlink_to("../elsewhere")
    replace(report, files=[str(source)]).save(str(place))
    assert (tmp_path / "elsewhere").read_text() == "// a kernel"
    assert (place / source.name).is_symlink()
    (place / source.name).unlink()
    os.mkfifo(place / source.name)
    with pytest.raises(ProfileError, match=r"kernel\.cu: cannot be written: it is a pipe"):
        replace(report, files=[str(source)]).save(str(place))
    assert (place / source.name).is_fifo()
    named = tmp_path / "report.txt"
    named.write_text("mine")
    (place / "report.txt").unlink()
    os.link(named, place / "report.txt")
    with pytest.raises(ProfileError, match=r"report\.txt: cannot be written: it is one of the files that are read"):
        replace(report, files=[str(named)]).save(str(place))


def test_a_trace_is_packed_for_tensorboard(report: Report, tmp_path: Path) -> None:
    for _ in range(2):
        path = Path(report.save_for_tensorboard(str(tmp_path / "logs" / "run")))
        assert gzip.decompress(path.read_bytes()) == Path(report.trace).read_bytes()
    assert [one for one in path.parent.iterdir() if one.name.startswith(".")] == []
    with pytest.raises(ProfileError, match="cannot be written: "):
        report.save_for_tensorboard(str(path / "below"))
