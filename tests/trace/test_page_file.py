"""The HTML page's file: where and how it is written, and what is in it."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from tileops.trace import Table
from tileops.trace.export.html import export_html, render_html

from . import synthetic


def head_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="head" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_folders_are_made_and_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "page.html"
    assert export_html(synthetic.empty(), str(path), title="first") == path
    export_html(synthetic.empty(), path, title="second")
    assert "<title>second</title>" in path.read_text(encoding="utf-8")
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]


def test_the_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    path = export_html(synthetic.empty(), tmp_path / "page.html")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".html")
    assert export_html(synthetic.empty(), path).exists()


def test_an_unwritable_place_is_named_and_left_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "page.html"
    folder.mkdir()
    with pytest.raises(IsADirectoryError, match="cannot be written") as error:
        export_html(synthetic.empty(), folder)
    assert error.value.filename == str(folder)
    blocker = tmp_path / "file"
    blocker.write_text("mine")
    with pytest.raises(OSError, match="cannot be written") as error:
        export_html(synthetic.empty(), blocker / "page.html")
    assert str(blocker / "page.html") in str(error.value)
    assert blocker.read_text() == "mine"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "page.html"]


def test_everything_is_in_the_file() -> None:
    page = render_html(synthetic.gemm((2, 1, 1), 4))
    assert get_plotlyjs() in page
    ours = page.replace(get_plotlyjs(), "")
    assert not re.search(r"<\w[^>]*\s(src|href)=|url\(|@import|https?:", ours)
    assert not re.search(r"^(import|export)\b", ours, re.MULTILINE)
    assert not re.search(r"\{\{\w+\}\}", ours)


def test_names_stay_inside_their_script_element() -> None:
    page = render_html(synthetic.hostile())
    # Plotly, head, block and the page's own.
    assert page.count("<script") == page.count("</script") == get_plotlyjs().count("<script") + 4
    assert "<!--<" not in page
    head = head_of(page)
    assert head["title"] == synthetic.HOSTILE[1]
    assert {name for _, name, _ in head["ranges"]} == set(synthetic.HOSTILE)


def test_a_lone_surrogate_can_be_written(tmp_path: Path) -> None:
    path = export_html(synthetic.empty(), tmp_path / "page.html", title="a\ud800b")
    assert head_of(path.read_text(encoding="utf-8"))["title"] == "a\ud800b"


def test_what_json_cannot_hold_becomes_text_or_nothing() -> None:
    meta = {"nan": float("nan"), "path": Path("x"), "number": np.int64(3), "list": (1, float("inf")), 5: None}
    timeline = replace(synthetic.empty(), meta=meta, axis_error_ns=float("nan"))
    head = head_of(render_html(timeline))
    assert head["meta"] == {"nan": None, "path": "x", "number": 3, "list": [1, None], "5": None}
    assert head["axisError"] is None


def test_size_beyond_the_library() -> None:
    timeline = synthetic.gemm((12, 10, 1))
    beyond = len(render_html(timeline)) - len(render_html(synthetic.empty()))
    assert beyond < 2 * timeline.recorded  # 1.05, where the same as JSON takes 20


def test_tables_that_do_not_fit_together_are_refused() -> None:
    timeline = synthetic.troubled()
    with pytest.raises(ValueError, match="slices name CTAs"):
        render_html(replace(timeline, ctas=timeline.ctas[timeline.ctas["cta"] != 1]))
    with pytest.raises(ValueError, match="not ordered by CTA"):
        render_html(replace(timeline, slices=timeline.slices[::-1]))


def test_a_table_without_rows_is_no_reason_to_fail() -> None:
    timeline = synthetic.empty()
    columns = {name: timeline.flows[name][:0] for name in timeline.flows.column_names}
    nothing = Table(columns, dict.fromkeys(("src", "dst", "src_group", "dst_group"), ()))
    assert head_of(render_html(replace(timeline, flows=nothing)))["edges"] == []
