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

from . import marked, programs
from .building import cpu_kernel, line_of

FLOAT = "float32"


def launched(kernel: Any, *inputs: Any) -> tuple[list[Any], Timeline]:
    *outputs, slots = kernel(*inputs)
    return outputs, trace.decode(kernel, slots)


# ---------------------------------------------------------------------------------------------------------------------
# Outputs


def test_outputs_are_bit_identical_to_the_untraced_kernel_s() -> None:
    plain = cpu_kernel(lambda: marked.on_the_cpu(trace), traced=False)
    traced = cpu_kernel(lambda: marked.on_the_cpu(trace), traced=True)
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    (c,), timeline = launched(traced, a, b)
    assert torch.equal(c, plain(a, b))
    assert torch.allclose(c, a @ b + (a[:, :16] + a[:, 16:32]).repeat(1, 4), atol=1e-4)
    assert timeline.grid == (4, 4, 1)
    assert timeline.recorded == 16 * (2 + 2 * (1 + 8 + 4 + 4 + 1) + 1)
    assert timeline.dropped == 0
    assert timeline.never_fired == ()
    assert len(timeline.flows) == 16 * 4


# ---------------------------------------------------------------------------------------------------------------------
# Events, against a model


def check_against_model(program: programs.Program, folder: Path) -> None:
    kernel = cpu_kernel(lambda: marked.loaded(folder, programs.text_of(program)).make(trace), max_events=4096)
    a = torch.randn(programs.GRID)
    (out,), timeline = launched(kernel, a)
    runs = programs.expected(program, a.numpy())
    assert out.T.flatten().tolist() == [run.out for run in runs]
    assert timeline.dropped == 0
    assert timeline.recorded == sum(len(events) for run in runs for events in run.events.values())
    for cta, run in enumerate(runs):
        for group in timeline.groups:
            check_row(timeline, cta, group, run.events.get(group, []))


def check_row(timeline: Timeline, cta: int, group: str, model: list[programs.Event]) -> None:
    slices, instants = (list(table.where(cta=cta, group=group)) for table in (timeline.slices, timeline.instants))
    begins = [event for event in model if event.kind == "begin"]
    assert [(s.name, s.lane, s.payload, s.cut) for s in slices] == [(e.name, e.lane, e.payload, False) for e in begins]
    records = [event for event in model if event.kind == "record"]
    assert [(i.name, i.lane, i.payload) for i in instants] == [(e.name, e.lane, e.payload) for e in records]
    slice_of = {event.range: made for event, made in zip(begins, slices)}
    marks = iter(instants)
    times = []
    for event in model:
        if event.kind == "record":
            times.append(next(marks).time)
        else:
            made = slice_of[event.range]
            times.append(made.start + (made.duration if event.kind == "end" else 0))
    assert times == sorted(times)


@hypothesis.settings(
    max_examples=8, deadline=None, derandomize=True, phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)  # fmt: skip
@hypothesis.given(program=programs.programs())
def test_random_kernels_record_what_a_model_says(program: programs.Program, tmp_path_factory: Any) -> None:
    check_against_model(program, tmp_path_factory.mktemp("program"))
