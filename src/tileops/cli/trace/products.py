"""Numbers of operations as users type them: 2*1536*2816*4096."""

from __future__ import annotations

import argparse
import math
import re

_FACTOR = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+]?[0-9]+)?")


def product(text: str) -> float:
    """The product of decimal numbers with ``*`` between them, or a single one.

    Raises:
        argparse.ArgumentTypeError: if the text is none, or its value is 0 or too large for a float.
    """
    factors = [factor.strip() for factor in text.split("*")]
    known = all(_FACTOR.fullmatch(factor) for factor in factors)
    value = math.prod(map(float, factors)) if known else 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of operations: write 2*1536*2816*4096 or 3.5e10")
    return value
