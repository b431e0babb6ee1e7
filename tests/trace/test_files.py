"""Where files are written: through links, over nothing that is no file, and over no recording."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tileops
from tileops.trace import Trace, TraceError, TraceWarning
from tileops.trace.comparison import compare
from tileops.trace.export.arrow import export_parquet
from tileops.trace.export.chrome import export_chrome
from tileops.trace.export.html import export_comparison, export_html, library, write_index
from tileops.trace.export.perfetto import export_perfetto
from tileops.trace.export.texts import export_csv, export_json
from tileops.trace.files import check_output, exported, whole
from tileops.trace.recording import Recording

from . import synthetic

RECORDING = Path(tileops.__file__).parent / "recordings" / "gemm_h200.tltrace"


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)  # such a name is short
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def a_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 7))  # as /dev/full, but nobody else's
    except PermissionError:
        pytest.skip("only root makes devices")


NO_FILES = {"a folder": a_folder, "a pipe": a_pipe, "a socket": a_socket, "a device": a_device}


def save(recording: Recording, path: Path) -> None:
    """Saves a recording, with errors as the exporters have them."""
    try:
        recording.save(path)
    except TraceError as error:
        raise OSError(str(error)) from error


# All that writes a file where the user says.
WRITERS: dict[str, Callable[[Path], Any]] = {
    "perfetto": lambda path: export_perfetto(synthetic.empty(), path),
    "chrome": lambda path: export_chrome(synthetic.empty(), path),
    "parquet": lambda path: export_parquet(synthetic.empty(), path),
    "csv": lambda path: export_csv(synthetic.empty(), path),
    "json": lambda path: export_json(synthetic.empty(), path),
    "html": lambda path: export_html(synthetic.empty(), path, plotlyjs="cdn"),
    "comparison": lambda path: export_comparison(compare([synthetic.gemm()], [synthetic.gemm()]), path, plotlyjs="cdn"),
    "recording": lambda path: save(Recording.load(RECORDING), path),
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_no_file_is_refused_and_stays(writer: str, kind: str, tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    NO_FILES[kind](there)
    link.symlink_to(there)
    before = there.lstat()
    for path in (there, link):
        with pytest.raises(OSError, match=rf"cannot be written: it is {kind}: give a file's name") as caught:
            WRITERS[writer](path)
        assert str(path) in str(caught.value)
    after = there.lstat()
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, there]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_link_s_target_is_written(writer: str, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    WRITERS[writer](alone)
    target, link = tmp_path / "far" / "target", tmp_path / "near" / "link"
    target.parent.mkdir()
    link.parent.mkdir()
    link.symlink_to("second")
    (link.parent / "second").symlink_to("../far/target")
    for _ in range(2):  # there is nothing yet, then there is a file
        WRITERS[writer](link)
        assert os.readlink(link) == "second"
        assert os.readlink(link.parent / "second") == "../far/target"
        assert len(target.read_bytes()) == len(alone.read_bytes())
        assert list(target.parent.iterdir()) == [target]
        target.write_text("what was there")


def test_what_fails_leaves_a_link_and_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("mine")
    link.symlink_to(target)
    with pytest.raises(KeyboardInterrupt):
        with whole(link):
            raise KeyboardInterrupt
    assert link.read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == [link, target]


@pytest.mark.parametrize("writer", WRITERS)
def test_links_in_a_circle_are_told(writer: str, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="cannot be written: Too many levels of symbolic links"):
        WRITERS[writer](tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_folder_that_cannot_be_made_is_told(writer: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="cannot be written: ") as caught:
            WRITERS[writer](folder / "out")
        assert f"the folder {folder} cannot be made: " in str(caught.value)
        assert str(folder / "out") in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("writer", [name for name in WRITERS if name != "recording"])
def test_a_recording_is_only_replaced_by_a_recording(writer: str, tmp_path: Path) -> None:
    recording, link, stored = tmp_path / "x.tltrace", tmp_path / "out", tmp_path / "y.tltrace"
    recording.write_bytes(RECORDING.read_bytes())
    link.symlink_to(recording)
    stored.symlink_to("blob")  # as stores of large files have it
    (tmp_path / "blob").write_bytes(RECORDING.read_bytes())
    for path in (recording, link, stored):
        with pytest.raises(OSError, match="cannot be written: it is a recording, which would be lost") as caught:
            WRITERS[writer](path)
        assert caught.value.filename == str(path)
        assert path.read_bytes() == RECORDING.read_bytes()
    WRITERS[writer](tmp_path / "new.tltrace")  # odd, but nothing is lost
    save(Recording.load(recording), link)
    assert link.is_symlink()
    Recording.load(recording)


def test_a_file_that_is_read_is_no_output(tmp_path: Path) -> None:
    source, other = tmp_path / "source", tmp_path / "other"
    source.write_text("mine")
    other.write_text("another")
    (tmp_path / "link").symlink_to(source)
    os.link(source, tmp_path / "hard")
    for path in (source, str(source), tmp_path / "link", tmp_path / "hard", tmp_path / "." / "source"):
        with pytest.raises(OSError, match="cannot be written: it is one of the files that are read") as caught:
            check_output(path, [other, "gone", source])
        assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, str(path))
    check_output(tmp_path / "new", [source, other, "gone"])
    check_output(other, [source])


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_names_that_are_none(name: str) -> None:
    for call in (check_output, lambda path: exported(path).__enter__()):
        with pytest.raises(OSError, match="cannot be written: its name ") as caught:
            call(name)
        assert caught.value.filename == name


@pytest.mark.parametrize("kind", NO_FILES)
def test_no_library_is_put_where_no_file_is(kind: str, tmp_path: Path) -> None:
    """A link of its name is replaced: nobody named what is at its end."""
    there = tmp_path / library.file_name()
    NO_FILES[kind](there)
    with pytest.raises(OSError, match=rf"cannot be written: {re.escape(there.name)} beside it is no file"):
        export_html(synthetic.empty(), tmp_path / "page.html", plotlyjs="folder")
    assert [path.name for path in tmp_path.iterdir()] == [there.name]
    assert not there.is_file()


@pytest.mark.parametrize("kind", NO_FILES)
def test_no_index_is_put_where_no_file_is(kind: str, tmp_path: Path) -> None:
    tracer = Trace()
    tracer.enable(str(tmp_path), plotlyjs="cdn")
    NO_FILES[kind](tmp_path / "index.html")
    with pytest.warns(TraceWarning, match="no index of the timelines"):
        tracer.dump(synthetic.empty(), stem="x")
    assert not (tmp_path / "index.html").is_file()
    assert sorted(os.listdir(tmp_path)) == ["index.html", "x.html"]


def test_an_index_of_ours_is_made_anew_through_a_link(tmp_path: Path) -> None:
    pages, elsewhere = tmp_path / "pages", tmp_path / "elsewhere"
    for folder in (pages, elsewhere):
        folder.mkdir()
    export_html(synthetic.empty(), pages / "x.html", plotlyjs="cdn")
    assert write_index(elsewhere)
    (pages / "index.html").symlink_to("../elsewhere/index.html")
    assert write_index(pages)
    assert (pages / "index.html").is_symlink()
    assert "./x.html" in (elsewhere / "index.html").read_text()
    assert os.listdir(elsewhere) == ["index.html"]
