"""Fixtures of the tests of tracing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tileops.trace import Timeline
from tileops.trace.comparison import compare
from tileops.trace.export.html import export_comparison, export_html

from .opened import Opened, OpenedComparison

CALLBACKS = ("tilelang_callback_cuda_postproc", "tilelang_callback_c_host_postproc")


@pytest.fixture(autouse=True)
def none_of_tilelang_s_callbacks() -> Iterator[None]:
    """Each test begins without a callback on generated source, whatever the ones before it lowered or registered."""

    def removed() -> None:
        tvm_ffi = sys.modules.get("tvm_ffi")
        for name in CALLBACKS:
            if tvm_ffi is not None and tvm_ffi.get_global_func(name, allow_missing=True) is not None:
                tvm_ffi.remove_global_func(name)

    removed()
    yield
    removed()


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    """What some test of a module has compiled already: one run of nvcc takes 10 to 15 s."""
    return {}


def foreign(url: str, path: Path) -> list[str]:
    """What a request asks for that is neither the page nor, as a picture being saved is, made by the page itself."""
    own = url.partition("#")[0] == path.as_uri() or url.startswith(("data:", "blob:"))
    return [] if own else [f"asked for {url}"]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pages are written, each over the one before: an open page does not read its file again.

    V8 compiles Plotly, which is most of what a page's start takes, once for each address that a process opens.
    """
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="session")
def window(browser: Any, pages: Path) -> Iterator[Any]:
    """Opens pages, each a new one; with --process-per-site in one process. They store nothing in it."""
    blank = pages / "blank.html"
    blank.touch()
    context = browser.new_context()
    context.new_page().goto(blank.as_uri())  # the process ends with the last page in it
    yield context
    context.close()


@pytest.fixture
def visit(window: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page's file, with a fragment behind its address if one is given, and waits until it is ready.

    Whatever the page asks for or complains about fails the test.
    """
    opened, complaints = [], []

    def visited(path: Path, width: int = 1280, height: int = 900, fragment: str = "", **media: Any) -> Any:
        page = window.new_page()
        opened.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(**media)
        page.on("console", lambda message: complaints.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda request: complaints.extend(foreign(request.url, path)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector("html[data-ready]")
        return page

    yield visited
    for page in opened:
        page.close()
    assert complaints == []


@pytest.fixture
def show(visit: Callable[..., Any], pages: Path) -> Callable[..., Opened]:
    """Opens a Timeline's page from its file, with a fragment such as "#cta=3" behind its address if one is given."""

    def opened(timeline: Timeline, title: str | None = None, **options: Any) -> Opened:
        path = export_html(timeline, pages / "page.html", title=title)
        made = Opened(visit(path, **options))
        made.settle()
        return made

    return opened


@pytest.fixture
def show_comparison(visit: Callable[..., Any], pages: Path) -> Callable[..., OpenedComparison]:
    """Opens the page of a comparison of two Timelines, or of several a side."""

    def opened(before: Any, after: Any, title: str | None = None, **options: Any) -> OpenedComparison:
        path = export_comparison(compare(before, after), pages / "comparison.html", title=title)
        made = OpenedComparison(visit(path, **options))
        made.settle()
        return made

    return opened
