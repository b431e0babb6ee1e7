"""Progress on the terminal, for what takes longer than a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

_PATIENCE = 1.0


@contextmanager
def progress(steps: int) -> Iterator[Callable[[int, str, float], None]]:
    """Shows a bar on standard error once a second has passed, until the end; nothing where no terminal is.

    Args:
        steps: how many steps there are.

    Yields:
        A function to call with the number of steps that are done, what the next one is, and how much of it is done.
    """
    began = time.monotonic()
    # Names of files may hold what rich takes for markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=steps)
    bar.disable = not bar.console.is_terminal

    def report(done: int, text: str, part: float) -> None:
        bar.update(task, completed=done + part, description=text)
        if not bar.live.is_started and time.monotonic() - began > _PATIENCE:
            bar.start()

    try:
        yield report
    finally:
        bar.stop()
