"""The first look from outside: what a program's time goes into, by PyTorch's profiler.

:func:`profile` compares callables, :class:`ProfiledLoop` looks at some steps of a loop, :func:`read_trace` and
:func:`report_on` take a trace that somebody else made. Importing this package is cheap; PyTorch comes with the first
call that needs it.
"""

from .columns import Trace
from .compare import Comparison, compare
from .errors import ProfileError
from .facts import Report
from .live.candidates import profile
from .live.loops import ProfiledLoop
from .reading import read_trace
from .report.build import report_on

__all__ = [
    "Comparison",
    "ProfileError",
    "ProfiledLoop",
    "Report",
    "Trace",
    "compare",
    "profile",
    "read_trace",
    "report_on",
]
