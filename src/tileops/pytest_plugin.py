"""``pytest --trace-kernel``: timelines of the kernels that a test run launches.

Installed as a plugin with the package, so the flag is there in every project that has tileops. Without it nothing of
:mod:`tileops.trace`, PyTorch or TileLang is imported.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Of the files that a run wrote, how many the summary names.
LISTED = 20


class KernelTracing:
    """Registered for the duration of a run that has ``--trace-kernel``."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._before = self._pages()

    def _pages(self) -> set[Path]:
        return {page for page in self.folder.glob("*.html") if page.name != "index.html"}

    def _shown(self, path: Path) -> str:
        relative = os.path.relpath(path)
        return str(path) if relative.startswith(os.pardir) else relative

    def pytest_report_header(self) -> str:
        """Says where timelines go before the first test runs."""
        return f"tileops: timelines of traced kernels go to {self._shown(self.folder)}{os.sep}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Names the timelines that this run wrote."""
        # The folder is compared with what it held, since pytest-xdist's workers write there as well.
        written = sorted(self._pages() - self._before)
        terminalreporter.section("kernel timelines")
        for page in written[:LISTED]:
            terminalreporter.write_line(self._shown(page))
        if len(written) > LISTED:
            terminalreporter.write_line(f"and {len(written) - LISTED} more in {self._shown(self.folder)}{os.sep}")
        if not written:
            terminalreporter.write_line("none: no test ran a kernel that was built for tracing")

    def pytest_unconfigure(self) -> None:
        """Leaves the switch as a process without the flag has it."""
        from tileops.trace import trace

        trace.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the flag and the folder."""
    group = parser.getgroup("tileops", "tileops: timelines from inside TileLang kernels")
    group.addoption(
        "--trace-kernel",
        action="store_true",
        help="call tileops.trace.enable() before any kernel is built: traced kernels write their timelines",
    )
    group.addoption(
        "--trace-kernel-output",
        metavar="DIR",
        help="the folder that --trace-kernel writes to (default: debug)",
    )


# First, so that the switch is on before another plugin's or a conftest's pytest_configure builds a kernel.
@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Turns tracing on.

    Raises:
        pytest.UsageError: if a folder is given without the flag: nothing would be written to it.
    """
    output = config.getoption("trace_kernel_output")
    if not config.getoption("trace_kernel"):
        if output is not None:
            raise pytest.UsageError("--trace-kernel-output needs --trace-kernel")
        return
    from tileops.trace import trace

    # Absolute, since tests may change the working directory.
    folder = config.invocation_params.dir / (output or "debug")
    trace.enable(output=str(folder))
    config.pluginmanager.register(KernelTracing(folder), "tileops-kernel-tracing")
