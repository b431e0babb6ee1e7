"""Fixtures and markers for all tests.

TileLang's kernel cache goes to a folder of this run's own, so that no test passes on what an earlier run compiled. The
variable is set here, before anything imports TileLang.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CACHE = tempfile.mkdtemp(prefix="tileops-test-cache-")
os.environ["TILELANG_CACHE_DIR"] = CACHE

# What a shell starts in the background ignores SIGINT, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Half of what these say without is Chromium talking to services that the page does not need.
BROWSER_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--disable-component-update", "--disable-sync", "--process-per-site",
)  # fmt: skip


def pytest_unconfigure() -> None:
    shutil.rmtree(CACHE, ignore_errors=True)


@functools.cache
def gpu_capability() -> tuple[int, int] | None:
    """The compute capability of the current CUDA device, or None without one. Imports PyTorch."""
    import torch

    return torch.cuda.get_device_capability() if torch.cuda.is_available() else None


@functools.cache
def find_nvcc() -> Path | None:
    """The machine's nvcc, else the one of PyPI's package."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [shutil.which("nvcc"), *(os.path.join(home, "bin", "nvcc") for home in homes if home)]
    try:
        files = importlib.metadata.files("nvidia-cuda-nvcc") or []
        places += [str(file.locate()) for file in files if file.name == "nvcc"]
    except importlib.metadata.PackageNotFoundError:
        pass
    return next((Path(place) for place in places if place and os.access(place, os.X_OK)), None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("gpu")
    if marker is not None:
        wanted, found = marker.kwargs.get("capability"), gpu_capability()
        if found is None:
            pytest.skip("needs a CUDA GPU")
        if wanted is not None and found != tuple(wanted):
            pytest.skip(f"needs compute capability {wanted}, this GPU has {found}")
    if item.get_closest_marker("nvcc") is not None and find_nvcc() is None:
        pytest.skip("needs nvcc")


@pytest.fixture(scope="session")
def nvcc() -> Path:
    """The path of nvcc; skips the test where there is none."""
    path = find_nvcc()
    if path is None:
        pytest.skip("needs nvcc")
    return path


@pytest.fixture(scope="session")
def cuda_target() -> Any:
    """Hopper, for lowering without a GPU: ``with cuda_target: tilelang.lower(func, target=cuda_target)``."""
    import tilelang

    return tilelang.tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})


@pytest.fixture
def compile_cubin(nvcc: Path, tmp_path: Path) -> Callable[..., Path]:
    """Compiles generated CUDA source: ``compile_cubin(source, arch="sm_90a")`` returns the cubin's path.

    A failure fails the test with nvcc's errors. Further arguments are handed to nvcc.
    """
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    def compile_source(source: str, *flags: str, arch: str = "sm_90a") -> Path:
        number = len(list(tmp_path.glob("*.cu")))
        path = tmp_path / f"kernel{number}.cu"
        path.write_text(source)
        cubin = path.with_suffix(".cubin")
        command = [
            nvcc, "-cubin", "-std=c++17", "-w", f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}",
            "-I", TILELANG_TEMPLATE_PATH, "-I", CUTLASS_INCLUDE_DIR, *flags, "-o", cubin, path,
        ]  # fmt: skip
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode:
            pytest.fail(f"nvcc failed on {path}:\n{done.stdout}{done.stderr}", pytrace=False)
        return cubin

    return compile_source


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, driven by playwright; skips the test where one of them is missing, and fails it in CI.

    Started once: a start takes longer than most tests of pages.
    """
    binary = next((found for found in map(shutil.which, BROWSERS) if found), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if binary is None or sync_playwright is None:
        missing = "Chromium" if binary is None else "playwright"
        if os.environ.get("CI"):
            pytest.fail(f"{missing} is missing, and CI must not skip what it shows")
        pytest.skip(f"needs {missing}")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=binary, args=list(BROWSER_FLAGS))
        yield started
        started.close()
