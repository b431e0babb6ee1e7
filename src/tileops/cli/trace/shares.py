"""Shares as users type them: 3%, 0.03."""

from __future__ import annotations

import argparse


def share(text: str) -> float:
    """A share from ``"3%"`` or ``"0.03"``.

    Raises:
        argparse.ArgumentTypeError: if the text is none.
    """
    number, percent = (text[:-1], 100.0) if text.endswith("%") else (text, 1.0)
    try:
        value = float(number) / percent
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: write 3% or 0.03")
    return value
