"""Off means off: what TileLang generates from a stripped kernel is what it generates without a marker in the text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tileops.trace import trace

from . import marked
from .building import AMPERE, CPU, HOPPER, no_trace, source

CASES = [
    *((make, HOPPER) for make in marked.ON_CUDA),
    *((make, AMPERE) for make in marked.PIPELINED),
    *((make, CPU) for make in marked.ON_CPU),
]


@pytest.fixture(scope="module")
def unmarked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return marked.unmarked(tmp_path_factory.mktemp("unmarked"))


@pytest.mark.parametrize(("make", "arch"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_a_stripped_kernel_is_the_kernel_without_markers(
    make: Callable[[Any], Any], arch: str, unmarked: Any
) -> None:
    func = make(trace)
    assert "tileops" in str(func)
    plain = getattr(unmarked, make.__name__)(trace)
    assert "tileops" not in str(plain)
    stripped = source(trace.strip(func), arch)
    assert stripped == source(plain, arch)
    assert stripped == source(make(no_trace), arch)
