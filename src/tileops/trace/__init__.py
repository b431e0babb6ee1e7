"""In-kernel timeline tracing for TileLang kernels."""

from .errors import TraceError, TraceWarning
from .findings import Finding
from .namespace import Trace, trace
from .statistics import Summary
from .timeline import Table, Timeline

__all__ = ["Finding", "Summary", "Table", "Timeline", "Trace", "TraceError", "TraceWarning", "trace"]
