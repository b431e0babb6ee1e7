"""What somebody's code raised, on one line, with the place in that code."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

_TOOLS = frozenset(("tileops", "torch", "tilelang"))


def told(error: BaseException) -> str:
    """An error as ``ValueError: no (work.py, line 3)``, an exit as ``exit status 3 (work.py, line 3)``."""
    if isinstance(error, SystemExit):
        said = "exit status "
        if error.code is None or isinstance(error.code, int):
            said += str(int(error.code or 0))
        else:  # what Python prints
            said += f"1: {first_line(error)}"
    else:
        said = ": ".join(filter(None, (type(error).__name__, first_line(error))))
    if isinstance(error, SyntaxError) and error.filename:
        return said  # its text names the place
    return said + _place(error)


def first_line(error: BaseException) -> str:
    """The first line of an error's text that is not blank; empty if there is none."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


def _place(error: BaseException) -> str:
    """Where in the user's code that was: the innermost line outside of what is installed, else outside of the tools."""
    place, installed = "", True
    for frame, line in traceback.walk_tb(error.__traceback__):
        # Frames that TVM makes up of its C++ code are in no module.
        module, file = frame.f_globals.get("__name__"), frame.f_code.co_filename
        if not module or module.partition(".")[0] in _TOOLS or _is_python(file):
            continue
        if installed or not _is_installed(file):
            place, installed = f" ({Path(file).name}, line {line})", _is_installed(file)
    return place


def _is_installed(file: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _is_python(file: str) -> bool:
    """Whether a file is of Python's own library."""
    library = Path(file).is_relative_to(sysconfig.get_path("stdlib"))
    return file.startswith("<frozen ") or (library and not _is_installed(file))
