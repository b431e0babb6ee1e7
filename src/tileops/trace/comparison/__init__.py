"""Comparing launches: what changed, and what of it is more than noise."""

from .comparison import Comparison, RangeChange, compare
from .verdict import Verdict

__all__ = ["Comparison", "RangeChange", "Verdict", "compare"]
