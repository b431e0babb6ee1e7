"""Kernels of the CPU target, recorded for real: outputs are untouched, and the Timeline says what the kernel did."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import tilelang.language as T
import torch
from hypothesis import strategies as st

from tileops.trace import Timeline, trace

from . import marked
from .building import cpu_kernel, line_of

FLOAT = "float32"


def launched(kernel: Any, *inputs: Any) -> tuple[list[Any], Timeline]:
    *outputs, slots = kernel(*inputs)
    return outputs, trace.decode(kernel, slots)


def sequences(timeline: Timeline, cta: int, group: str) -> list[tuple[str, str, Any]]:
    """A CTA's events in a group as (kind, name, payload), in the order of their records."""
    slices = list(timeline.slices.where(cta=cta, group=group))
    instants = list(timeline.instants.where(cta=cta, group=group))
    events = [
        *((s.start, 1, s.name, s.payload) for s in slices),
        *((s.start + s.duration, 0, s.name, None) for s in slices),
        *((i.time, 2, i.name, i.payload) for i in instants),
    ]
    return [(("end", "begin", "record")[kind], name, payload) for _, kind, name, payload in sorted(events, key=str)]


# ---------------------------------------------------------------------------------------------------------------------
# Outputs


def test_outputs_are_bit_identical_to_the_untraced_kernel_s() -> None:
    plain = cpu_kernel(lambda: marked.on_the_cpu(trace), traced=False)
    traced = cpu_kernel(lambda: marked.on_the_cpu(trace), traced=True)
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    (c,), timeline = launched(traced, a, b)
    assert torch.equal(c, plain(a, b))
    assert torch.allclose(c, a @ b + a.reshape(4, 16, 4, 16)[:, :, :2].sum(2).repeat(1, 1, 4), atol=1e-4)
    assert timeline.grid == (4, 4, 1)
    assert timeline.recorded == 16 * (2 + 2 * (1 + 8 + 4 + 4 + 1) + 1)
    assert timeline.dropped == 0
    assert timeline.never_fired == ()
    assert len(timeline.flows) == 16 * 4
