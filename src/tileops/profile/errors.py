"""What can go wrong, as types that a caller can tell apart."""

from __future__ import annotations


class ProfileError(Exception):
    """A trace, a callable or an argument is not what profiling needs; the message says what to change."""
