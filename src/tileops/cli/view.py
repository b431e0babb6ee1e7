"""Serve recordings and timeline pages to a browser, also through ssh.

The server listens on this machine's loopback only, and its address holds a secret: other users of the machine cannot
read what it serves. Nothing but the named files is served.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path

from tileops.cli.completion import completes_files
from tileops.trace.errors import TraceError

HELP = "serve recordings and timelines on loopback, for a browser here or at the other end of ssh"

_OPENER = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={url}"><title>tileops</title>'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommand's arguments."""
    files = parser.add_argument("files", metavar="FILE", nargs="+", help="a recording (.tltrace) or a page (.html)")
    completes_files(files)
    parser.add_argument("--port", type=_port, default=0, help="the port to listen on (default: a free one)")
    parser.add_argument(
        "--browser",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="open a browser too (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C; returns the exit status."""
    from tileops.cli.serving import Server, Site

    site = Site(arguments.files)
    sound = _sound([file.given for file in site.files.values()])
    if not sound:
        return 1
    if len(sound) < len(site.files):
        site = Site(sound)
    try:
        server = Server(site, arguments.port)
    except OSError as error:
        raise TraceError(f"cannot listen on port {arguments.port} of 127.0.0.1: {error.strerror or error}") from error
    with server, contextlib.suppress(KeyboardInterrupt):
        port = server.server_port
        count = "1 file" if len(site.files) == 1 else f"{len(site.files)} files"
        print(f"Serving {count} on this machine only; Ctrl-C ends it.\n\n  {server.address}\n")
        print("From another machine, forward the port and open the same address there:\n")
        print(f"  ssh -N -L {port}:127.0.0.1:{port} {_login()}\n", flush=True)
        with _browser(server.address) if arguments.browser else contextlib.nullcontext():
            server.serve_forever()
    return 0


def _sound(files: list[str]) -> list[str]:
    """Those of the files that can be shown; says what is wrong with a recording that cannot."""
    from tileops.cli.progress import progress
    from tileops.cli.trace.files import read, tell
    from tileops.trace.recording import SUFFIX

    sound = []
    with progress(len(files)) as report:
        for done, name in enumerate(files):
            path = Path(name)
            report(done, path.name, 0.0)
            try:
                if path.suffix == SUFFIX:
                    read(path)
            except (TraceError, OSError) as error:
                tell(error)
            else:
                sound.append(name)
    return sound


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 16:
        raise argparse.ArgumentTypeError(f"a port is a number up to 65535, not {text!r}")
    return int(text)


def _login() -> str:
    """How this machine is probably reached."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError, ImportError):  # a user id without a name
        return socket.gethostname()


@contextlib.contextmanager
def _browser(address: str) -> Iterator[None]:
    """Opens a browser.

    It is given a file that only this user can read and that leads to the address: the arguments of a process can be
    read by everybody, and the address is a secret.
    """
    with tempfile.TemporaryDirectory(prefix="tileops-") as folder:
        opener = Path(folder, "open.html")
        opener.write_text(_OPENER.format(url=address), encoding="utf-8")

        def open_it() -> None:
            try:
                opened = webbrowser.open(opener.as_uri())
            except (webbrowser.Error, OSError):
                opened = False
            if not opened:
                print("No browser can be opened here: open the address above in one.", flush=True)

        # A browser in the terminal keeps its caller waiting, and it needs the server meanwhile.
        threading.Thread(target=open_it, daemon=True).start()
        yield
