"""What can go wrong, as types that a caller can tell apart."""

from __future__ import annotations


class TraceError(Exception):
    """A kernel's markers, or a recording, are not what tracing needs; the message says where and what to change."""


class TraceWarning(UserWarning):
    """A recording that is right but says less than it seems to."""
