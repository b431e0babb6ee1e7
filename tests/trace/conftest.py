"""Fixtures of the tests of tracing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tileops.trace import Timeline
from tileops.trace.export.html import export_html

from .opened import Opened


def foreign(url: str, path: Path) -> list[str]:
    """What a request asks for that is neither the page nor, as a picture being saved is, made by the page itself."""
    own = url.partition("#")[0] == path.as_uri() or url.startswith(("data:", "blob:"))
    return [] if own else [f"asked for {url}"]


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens a Timeline's page from its file, with a fragment such as "#cta=3" behind its address if one is given;
    whatever the page asks for or complains about fails the test.
    """
    contexts, complaints = [], []

    def opened(
        timeline: Timeline, title: str | None = None, width: int = 1280, height: int = 900, fragment: str = "",
        **options: Any,
    ) -> Opened:  # fmt: skip
        path = export_html(timeline, tmp_path / f"{len(contexts)}.html", title=title)
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda request: complaints.extend(foreign(request.url, path)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector("html[data-ready]")
        made = Opened(page)
        made.settle()
        return made

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
