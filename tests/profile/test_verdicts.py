"""The program that holds verdicts and times against known answers: what needs no GPU of it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tileops.profile.columns import ALLOCATIONS, EVENTS, KERNEL, MEMCPY, RUNTIME, Trace


@pytest.fixture(scope="module")
def verdicts() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "profile_verdicts.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_a_call_is_what_ran_behind_its_sleep(verdicts: ModuleType) -> None:
    names = ["at::cuda::(anonymous namespace)::spin_kernel(long)", "gemm", "Memcpy DtoD", "cudaLaunchKernel"]
    rows = [(0, 3, 9, RUNTIME), (10, 0, 100, KERNEL), (110, 1, 1000, KERNEL), (1120, 1, 5, KERNEL),
            (1200, 3, 9, RUNTIME), (1300, 0, 100, KERNEL), (1400, 2, 1010, MEMCPY), (2500, 0, 100, KERNEL)]  # fmt: skip
    events = np.zeros(len(rows), EVENTS)
    for event, (begin, name, duration, kind) in zip(events, rows):
        event["begin"], event["name"], event["duration"], event["kind"] = begin, name, duration, kind
    trace = Trace("", events, np.zeros(0, ALLOCATIONS), names, [])
    assert verdicts.behind_sleeps(trace).tolist() == [1015, 1010, 0]
