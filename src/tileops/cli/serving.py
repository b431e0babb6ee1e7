"""The server behind ``tileops view``: named files under a secret path, and nothing else."""

from __future__ import annotations

import datetime
import gzip
import hmac
import http.server
import os
import secrets
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from tileops.trace.errors import TraceError
from tileops.trace.export.html import library, listing, render_html
from tileops.trace.recording import SUFFIX, Recording

_PAGE = ".html"
_HTML = "text/html"
# Seconds for a request to arrive; a connection that says nothing holds a thread.
_PATIENCE = 30
# On every answer. The address is the secret, so that no other site may learn it from a link that is followed.
_HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Answer:
    """What a request gets."""

    content: bytes
    kind: str = _HTML
    status: HTTPStatus = HTTPStatus.OK
    cached: str = "no-store"
    gzipped: bytes | None = None


@dataclass
class File:
    """A file to serve.

    Attributes:
        path: where it is, absolute.
        given: as the user named it.
        name: what it is called behind the secret.
    """

    path: Path
    given: str
    name: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _rendered: tuple[tuple[int, int, int], bytes] | None = None

    def answer(self) -> Answer:
        """The page: as it is on the disk, or of the recording."""
        try:
            if not self.path.is_file():
                raise TraceError(f"{self.given}: is not there any more")
            return Answer(self.path.read_bytes() if self.path.suffix == _PAGE else self._render())
        except OSError as error:
            return _failed(self.path.name, f"{self.given}: cannot be read: {error.strerror or error}")
        except (TraceError, ValueError) as error:
            return _failed(self.path.name, str(error))

    def _render(self) -> bytes:
        """The recording's page, made once as long as the file stays the same."""
        with self._lock:
            status = self.path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if self._rendered is None or self._rendered[0] != stamp:
                timeline = Recording.load(self.path).decode()
                # The browser then gets the library once for all pages; through ssh that is most of what they take.
                page = render_html(timeline, title=self.path.stem, plotlyjs="folder")
                self._rendered = stamp, page.encode("utf-8", "replace")
            return self._rendered[1]


class Site:
    """The files and the pages around them.

    Args:
        names: the files' paths.

    Raises:
        TraceError: naming the file that is missing, or neither a recording nor a page.
    """

    def __init__(self, names: Sequence[str]):
        # By their own names, so that pages that link to each other still do; the same name again gets a number.
        self.files: dict[bytes, File] = {}
        seen = set()
        for given in names:
            path = _checked(given)
            if path in seen:
                continue
            seen.add(path)
            name, number = path.name, 1
            while os.fsencode(name) in self.files:
                number += 1
                name = f"{path.stem}-{number}{path.suffix}"
            self.files[os.fsencode(name)] = File(path, given, name)

    def answer(self, name: bytes) -> Answer | None:
        """What stands behind a name; None for a name that is none of these."""
        if name == b"":
            return self._list()
        if name in self.files:
            return self.files[name].answer()
        if name == library.file_name().encode("ascii"):
            return _library()
        return None

    def _list(self) -> Answer:
        rows = []
        for file in self.files.values():
            try:
                status = file.path.stat()
                size = f"{status.st_size:,}"
                date = f"{datetime.datetime.fromtimestamp(status.st_mtime):%Y-%m-%d %H:%M:%S}"
            except OSError:
                size, date = "–", "not there any more"
            kind = "page" if file.path.suffix == _PAGE else "recording"
            rows.append([
                listing.Cell([file.name], listing.url(file.name)),
                listing.Cell([kind]),
                listing.Cell([size], classes="number"),
                listing.Cell([date]),
                listing.Cell([file.given]),
            ])  # fmt: skip
        headings = (("File", ""), ("Kind", ""), ("Bytes", "number"), ("Modified", ""), ("Path", ""))
        said = f"{len(rows)} file{'' if len(rows) == 1 else 's'}"
        return Answer(listing.page("tileops view", said, listing.table(headings, rows)))


class Server(http.server.ThreadingHTTPServer):
    """Serves a site on loopback, under a path that cannot be guessed.

    Args:
        site: what to serve.
        port: where; 0 takes a free one.

    Raises:
        OSError: if the port cannot be listened on.
    """

    daemon_threads = True

    def __init__(self, site: Site, port: int = 0):
        self.site = site
        self.token = secrets.token_urlsafe(24)
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def address(self) -> str:
        """The list of files."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closes its connection early is no error."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    timeout = _PATIENCE
    server_version, sys_version = "tileops", ""

    def do_GET(self) -> None:
        """Answers with a file, the list of files, or 404."""
        secret, slash, name = self.path.removeprefix("/").partition("?")[0].partition("/")
        # `path` is Latin-1, so that every text of a request can be encoded.
        known = hmac.compare_digest(secret.encode("latin-1"), self.server.token.encode("ascii"))
        if known and not slash:
            self.send_response(HTTPStatus.MOVED_PERMANENTLY)
            self.send_header("Location", f"/{quote(secret)}/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        found = self.server.site.answer(unquote_to_bytes(name.encode("latin-1"))) if known else None
        self._send(found or _not_found())

    do_HEAD = do_GET  # noqa: N815 (the name is http.server's)

    def _send(self, answer: Answer) -> None:
        content = answer.content
        self.send_response(answer.status)
        if answer.gzipped is not None and "gzip" in self.headers.get("Accept-Encoding", ""):
            content = answer.gzipped
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", answer.cached)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            # Python counts a timeout against the whole answer, and a slow line may take longer.
            self.connection.settimeout(None)
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Says nothing: each line would hold the secret."""


@cache
def _library() -> Answer:
    """Plotly, from the package: its file is one of those that pages written with ``plotlyjs="folder"`` ask for."""
    content = library.content()
    # Its name bears its version, and the secret in its path changes with each start.
    return Answer(
        content, "text/javascript; charset=utf-8", cached="private, max-age=86400", gzipped=gzip.compress(content, 6)
    )


def _failed(title: str, message: str) -> Answer:
    return Answer(listing.page(title, "This file cannot be shown.", listing.alert(message)),
                  status=HTTPStatus.INTERNAL_SERVER_ERROR)  # fmt: skip


def _not_found() -> Answer:
    return Answer(listing.page("Not found", "There is nothing at this address.", ""), status=HTTPStatus.NOT_FOUND)


def _checked(name: str) -> Path:
    """The file's absolute path."""
    path = Path(name)
    if path.is_dir():
        raise TraceError(f"{name}: is a folder: name its files, such as {path / '*.html'}")
    if not path.exists():
        raise TraceError(f"{name}: there is no such file")
    if not path.is_file() or path.suffix not in (SUFFIX, _PAGE):
        raise TraceError(f"{name}: is neither a recording ({SUFFIX}) nor a page ({_PAGE})")
    return path.absolute()
