"""``tileops view``: what it serves, to whom, and what it does not."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from plotly.offline import get_plotlyjs, get_plotlyjs_version

from tileops.cli.main import main
from tileops.cli.serving import Server, Site
from tileops.trace import TraceError
from tileops.trace.recording import Recording

LIBRARY = f"plotly-{get_plotlyjs_version()}.min.js"
RECORDING = Path(str(resources.files("tileops"))) / "recordings" / "gemm_h200.tltrace"


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Starts a server of the files named; it ends with the test."""
    started = []

    def start(*files: str | Path) -> Server:
        server = Server(Site([str(file) for file in files]))
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        started.append((server, thread))
        return server

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Sends that path as it is, and returns status, headers and content."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def get(server: Server, name: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """What stands behind the secret."""
    return ask(server, f"/{server.token}/{name}", **headers)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A page and a recording."""
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><title>mine</title><h1>a page</h1>")
    recording = tmp_path / "gemm.tltrace"
    shutil.copy(RECORDING, recording)
    return [page, recording]


def test_pages_are_served_as_they_are(serve: Callable[..., Server], files: list[Path]) -> None:
    server = serve(*files)
    status, headers, content = get(server, "page.html")
    assert (status, content) == (200, files[0].read_bytes())
    assert headers["Content-Type"] == "text/html"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert get(server, "page.html?x=/1")[2] == content
    status, headers, content = ask(server, f"/{server.token}/page.html", "HEAD")
    assert (status, content, int(headers["Content-Length"])) == (200, b"", files[0].stat().st_size)


def test_recordings_are_rendered_once(
    serve: Callable[..., Server], files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = []
    load = Recording.load.__func__

    def counted(cls: type[Recording], path: Path) -> Recording:
        loads.append(path)
        return load(cls, path)

    monkeypatch.setattr(Recording, "load", classmethod(counted))
    server = serve(*files)
    assert loads == []
    pages: list[bytes] = []
    threads = [threading.Thread(target=lambda: pages.append(get(server, "gemm.tltrace")[2])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(pages)) == 1
    assert len(loads) == 1
    assert b"<title>gemm</title>" in pages[0]
    os.utime(files[1], ns=(1, 1))
    assert get(server, "gemm.tltrace")[2] == pages[0]
    assert len(loads) == 2


def test_the_library_comes_from_the_package(serve: Callable[..., Server], files: list[Path]) -> None:
    (files[0].parent / LIBRARY).write_text("alert(1)")
    server = serve(*files)
    status, headers, content = get(server, LIBRARY)
    assert (status, content) == (200, get_plotlyjs().encode())
    assert headers["Content-Type"].startswith("text/javascript")
    status, headers, content = get(server, LIBRARY, Accept_Encoding="br, gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(content) == get_plotlyjs().encode()
    assert len(content) < 2_000_000


@pytest.mark.parametrize("path", [
    "/", "", "//", "/page.html", "/gemm.tltrace", f"/{LIBRARY}", "/favicon.ico", "/{token}x/page.html",
    "/{half}/page.html", "/x/{token}/", "/%2e/{token}/", "/{token}/other.html", "/{token}/secret.txt",
    "/{token}/../page.html", "/{token}/./page.html", "/{token}//page.html", "/{token}/page.html/",
    "/{token}/page.html/../secret.txt", "/{token}/..%2fsecret.txt", "/{token}/%2e%2e/secret.txt",
    "/{token}/sub/inner.html", "/{token}/{folder}/secret.txt", "/{token}/%00", "/{token}/page.html%00.txt",
    "/{token}/..\\secret.txt", "/{token}/../../../../../../etc/passwd", "/{token}//etc/passwd", "/etc/passwd",
    "/{token}/file:///etc/passwd", "/\xff\xfe/", "/{token}/\xff", "*",
])  # fmt: skip
def test_nothing_else_is_reachable(path: str, serve: Callable[..., Server], files: list[Path]) -> None:
    folder = files[0].parent
    for name in ("secret.txt", "other.html", "sub/inner.html"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("a secret")
    server = serve(*files)
    path = path.format(token=server.token, half=server.token[:16], folder=folder)
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.server_port), timeout=20)) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode("latin-1"))
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    status = int(answer.split(None, 2)[1]) if answer.startswith(b"HTTP/") else 400
    assert status in ((400,) if path == "" else (404,))
    assert b"secret" not in answer.partition(b"\r\n\r\n")[2]
    assert b"root:" not in answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_it_only_reads(method: str, serve: Callable[..., Server], files: list[Path]) -> None:
    assert ask(serve(*files), "/", method)[0] == 501


def test_each_start_has_a_secret_of_its_own(serve: Callable[..., Server], files: list[Path]) -> None:
    first, second = serve(*files), serve(*files)
    assert first.token != second.token
    assert len(first.token) >= 32
    assert ask(second, f"/{first.token}/page.html")[0] == 404


def test_it_listens_on_loopback_only(serve: Callable[..., Server], files: list[Path]) -> None:
    server = serve(*files)
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/{server.token}/"


def test_the_address_without_its_slash_leads_there(serve: Callable[..., Server], files: list[Path]) -> None:
    server = serve(*files)
    status, headers, _ = ask(server, f"/{server.token}")
    assert (status, headers["Location"]) == (301, f"/{server.token}/")


def test_names_that_recur_and_odd_names(serve: Callable[..., Server], tmp_path: Path) -> None:
    names = ["a/x.html", "b/x.html", "c/x-2.html", "d/x.html", "a b#?%&\"'<i>.html", os.fsdecode(b"\xff.html")]
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"page {number}")
    server = serve(*(tmp_path / name for name in names), tmp_path / "a" / ".." / "a" / "x.html", tmp_path / names[0])
    listed = get(server, "")[2].decode("utf-8")
    assert "<i>" not in listed
    links = re.findall(r'href="\./([^"]*)"', listed)
    assert links[:4] == ["x.html", "x-2.html", "x-2-2.html", "x-3.html"]
    contents = [get(server, link)[2].decode() for link in links]
    assert contents[:6] == [f"page {number}" for number in range(6)]


def test_the_list_opens_what_it_names(serve: Callable[..., Server], files: list[Path], browser: Any) -> None:
    server = serve(*files)
    page = browser.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(server.address)
    assert page.locator("tbody a").all_inner_texts() == ["page.html", "gemm.tltrace"]
    page.get_by_text("gemm.tltrace", exact=True).first.click()
    page.wait_for_selector("html[data-ready]")
    page.locator("#figure .barlayer .point path").first.wait_for()
    assert page.locator("#title").inner_text() == "gemm"
    names = [urlsplit(url).path.rpartition("/")[2] for url in asked]
    assert [name for name in names if name != "favicon.ico"] == ["", "gemm.tltrace", LIBRARY]
    assert [text for text in complaints if "favicon" not in text] == []
    page.close()


def spoil(recording: Path, damage: str) -> None:
    content = recording.read_bytes()
    middle = len(content) // 2
    recording.write_bytes({
        "truncated": content[:middle], "foreign": b"<script>alert(1)</script>", "empty": b"",
        "changed": content[: middle - 8] + bytes(16) + content[middle + 8 :],
    }[damage])  # fmt: skip


@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty", "gone", "gone page"])
def test_a_file_that_cannot_be_shown_is_one_clear_error(
    damage: str, serve: Callable[..., Server], files: list[Path]
) -> None:
    page, recording = files
    server = serve(*files)
    if damage.startswith("gone"):
        (page if damage == "gone page" else recording).unlink()
        expected = "is not there any more"
    else:
        spoil(recording, damage)
        expected = "not a recording of tileops, or a damaged one"
    name = page if damage == "gone page" else recording
    status, _, answer = get(server, name.name)
    text = answer.decode("utf-8")
    assert status == 500
    assert len(re.findall('class="alert"', text)) == 1
    assert f"{name}: {expected}" in text
    assert "<script" not in text
    other = recording if damage == "gone page" else page
    assert get(server, other.name)[0] == 200
    assert get(server, "")[0] == 200


@pytest.mark.parametrize(("name", "said"), [
    ("nothing.html", "there is no such file"), ("notes.txt", "is neither a recording"), ("sub", "is a folder: name"),
    ("pipe.html", "is neither a recording"),
])  # fmt: skip
def test_what_cannot_be_served_is_told_at_once(
    name: str, said: str, files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = files[0].parent
    (folder / "notes.txt").write_text("")
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe.html")
    with pytest.raises(TraceError, match=said):
        Site([str(files[0]), str(folder / name)])
    assert main(["view", str(folder / name)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"tileops: {re.escape(str(folder / name))}: {said}.*\n", err)


@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty", "changed"])
def test_a_damaged_recording_is_refused_as_info_refuses_it(
    damage: str, files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(files[1], damage)
    assert main(["trace", "info", str(files[1])]) == 2
    said = capsys.readouterr().err
    assert f"{files[1]}: not a recording of tileops, or a damaged one" in said
    assert main(["view", str(files[1])]) == 1
    assert capsys.readouterr() == ("", said)


def test_damaged_recordings_are_named_and_the_others_served(files: list[Path]) -> None:
    page, recording = files
    cut, empty = recording.with_name("cut.tltrace"), recording.with_name("empty.tltrace")
    for path, damage in ((cut, "truncated"), (empty, "empty")):
        shutil.copy(recording, path)
        spoil(path, damage)
    with viewing(cut, page, empty, recording) as (process, address, lines):
        assert lines[0] == "Serving 2 files on this machine only; Ctrl-C ends it."
        url = urlsplit(address)
        for name, status in (("page.html", 200), ("gemm.tltrace", 200), ("cut.tltrace", 404), ("empty.tltrace", 404)):
            connection = http.client.HTTPConnection(url.netloc, timeout=20)
            with contextlib.closing(connection):
                connection.request("GET", f"{url.path}{name}")
                assert connection.getresponse().status == status
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        told = process.stderr.read().splitlines()
    assert [line.partition(": not a recording")[0] for line in told] == [f"tileops: {cut}", f"tileops: {empty}"]


@pytest.mark.parametrize("port", ["-1", "65536", "http", ""])
def test_a_port_that_is_none(port: str, files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["view", str(files[0]), f"--port={port}"])
    assert stop.value.code == 2
    assert "argument --port: a port is a number up to 65535" in capsys.readouterr().err


def test_a_port_that_is_taken(files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        assert main(["view", str(files[0]), "--port", str(port)]) == 1
    assert f"cannot listen on port {port} of 127.0.0.1: Address already in use" in capsys.readouterr().err


def heeds_ctrl_c() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def viewing(*arguments: str | Path, **environment: str) -> Iterator[tuple[Any, str, list[str]]]:
    """The command in a process of its own: it, the address that it printed, and the lines up to the ssh line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tileops", "view", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment},
        preexec_fn=heeds_ctrl_c,
    )  # fmt: skip
    try:
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if "ssh -N" in line:
                break
        address = next(line.strip() for line in lines if "http://" in line)
        yield process, address, lines
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_the_command_prints_its_address_and_ends_with_ctrl_c(files: list[Path]) -> None:
    with viewing(*files) as (process, address, lines):
        url = urlsplit(address)
        assert url.hostname == "127.0.0.1"
        assert lines[0] == "Serving 2 files on this machine only; Ctrl-C ends it."
        assert re.fullmatch(rf"  ssh -N -L {url.port}:127\.0\.0\.1:{url.port} \S+", lines[-1])
        connection = http.client.HTTPConnection(url.netloc, timeout=20)
        connection.request("GET", f"{url.path}page.html")
        assert connection.getresponse().read() == files[0].read_bytes()
        # An idle connection does not keep it.
        with contextlib.closing(socket.create_connection((url.hostname, url.port))):
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        connection.close()
        assert process.stderr.read() == ""


def test_the_port_can_be_chosen(files: list[Path]) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with viewing(files[0], "--port", str(port)) as (_, address, lines):
        assert urlsplit(address).port == port
        assert lines[0].startswith("Serving 1 file on")


def test_a_browser_is_opened_without_telling_the_secret(files: list[Path], tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    stand_in = tmp_path / "stand-in"
    stand_in.write_text(
        f'#!/bin/sh\nprintf %s "$*" > {seen}.args\ncp "${{1#file://}}" {seen}.tmp\nmv {seen}.tmp {seen}\n'
    )
    stand_in.chmod(0o755)
    with viewing(files[0], "--browser", BROWSER=f"{stand_in} %s") as (process, address, _):
        deadline = threading.Event()
        for _ in range(200):
            if seen.exists():
                break
            deadline.wait(0.05)
        opener = seen.read_text()
        assert f'content="0; url={address}"' in opener
        argument = Path(f"{seen}.args").read_text()
        assert urlsplit(address).path.strip("/") not in argument
        folder = Path(urlsplit(argument).path).parent
        assert folder.stat().st_mode & 0o077 == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert not folder.exists()


def test_the_file_that_opens_it_leads_there(serve: Callable[..., Server], files: list[Path], browser: Any,
                                            monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    from tileops.cli import view

    opened: list[str] = []
    done = threading.Event()
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or done.set() or True)
    server = serve(*files)
    with view._browser(server.address):
        assert done.wait(20)
        page = browser.new_page()
        page.goto(opened[0])
        page.wait_for_url(server.address)
        assert page.title() == "tileops view"
        page.close()


def test_no_browser_is_opened_unasked(files: list[Path], tmp_path: Path) -> None:
    called = tmp_path / "called"
    stand_in = tmp_path / "stand-in"
    stand_in.write_text(f"#!/bin/sh\ntouch {called}\n")
    stand_in.chmod(0o755)
    for arguments in ([], ["--no-browser"]):
        with viewing(files[0], *arguments, BROWSER=f"{stand_in} %s") as (process, _, _):
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
    assert not called.exists()


def test_without_a_browser_it_says_so(files: list[Path], tmp_path: Path) -> None:
    with viewing(files[0], "--browser", BROWSER="false %s", PATH=str(tmp_path), DISPLAY="") as (process, _, _):
        assert next(line for line in process.stdout if line.strip()).startswith("No browser can be opened here")
