"""Programs that a command runs in this process, as ``python script.py`` or ``python -m module`` would run them."""

from __future__ import annotations

import os
import runpy
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


class NoProgramError(Exception):
    """There is no such script or module; the text says which."""


def check_script(script: str) -> None:
    """Looks for a script before what takes long.

    Raises:
        NoProgramError: if it is not there.
    """
    path = Path(script)
    if not path.is_file():
        raise NoProgramError(f"{script}: {'a folder, and no script' if path.is_dir() else 'there is no such script'}")


def run_program(what: str, arguments: Sequence[str], is_module: bool) -> None:
    """Runs a script or a module as ``__main__``, until its threads have ended too; what it raises is raised.

    Args:
        what: the script's path, or the module's name.
        arguments: the program's own.
        is_module: whether ``what`` is a module.

    Raises:
        NoProgramError: if there is no such module.
    """
    kept = sys.argv, list(sys.path)
    sys.argv, sys.path[0] = [what, *arguments], os.getcwd() if is_module else str(Path(what).resolve().parent)
    exit_: SystemExit | None = None
    try:
        try:
            if is_module:
                runpy.run_module(what, run_name="__main__", alter_sys=True)
            else:
                # Python makes a script's __file__ absolute too; what reads its source finds it after a chdir.
                runpy.run_path(os.path.abspath(what), run_name="__main__")
        except SystemExit as ended:
            exit_ = ended
        except ImportError as error:
            if of_program(error.__traceback__) is None:  # runpy's own
                raise NoProgramError(f"-m {what}: {error}") from None
            raise
        _wait_for_threads()
        if exit_ is not None:
            raise exit_
    finally:
        sys.argv, sys.path[:] = kept


def of_program(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback of what a program raised, less the calls that lead to the program; ``None`` if these are all."""
    # A module that does not parse is compiled below importlib's frames.
    importlib = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
    own = (__file__, runpy.__file__, "<frozen runpy>", *importlib)
    while traceback is not None and traceback.tb_frame.f_code.co_filename in own:
        traceback = traceback.tb_next
    return traceback


def _wait_for_threads() -> None:
    """A program ends when its threads do."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
