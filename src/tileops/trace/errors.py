"""What can go wrong, as types that a caller can tell apart."""

from __future__ import annotations

import sys
import warnings

_PASSED = __package__, "contextlib"  # whose lines no warning is about


class TraceError(Exception):
    """A kernel's markers, or a recording, are not what tracing needs; the message says where and what to change."""


class TraceWarning(UserWarning):
    """A recording that is right but says less than it seems to."""


def warn(text: str) -> None:
    """Warns with a TraceWarning, at the line outside of this package that led here, through however many calls."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_passed(str(frame.f_globals.get("__name__", ""))):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, TraceWarning, stacklevel=level)


def _is_passed(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in _PASSED)
