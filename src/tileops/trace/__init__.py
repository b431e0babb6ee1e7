"""In-kernel timeline tracing for TileLang kernels."""

from .errors import TraceError, TraceWarning
from .namespace import Trace, trace
from .timeline import Table, Timeline

__all__ = ["Table", "Timeline", "Trace", "TraceError", "TraceWarning", "trace"]
