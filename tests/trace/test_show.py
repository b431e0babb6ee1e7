"""Where a timeline shows: the page's library, notebooks, a browser of one's own, and the index of a folder."""

from __future__ import annotations

import base64
import datetime
import hashlib
import html
import json
import multiprocessing
import os
import re
import subprocess
import sys
import warnings
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs, get_plotlyjs_version

from tileops.trace import Timeline, Trace, TraceError, TraceWarning
from tileops.trace.export.html import export_html, headline, index, render_html, write_index
from tileops.trace.recording import Recording

from . import synthetic
from .opened import box_of

LIBRARY = f"plotly-{get_plotlyjs_version()}.min.js"
CDN = f"https://cdn.plot.ly/{LIBRARY}"
INTEGRITY = "sha384-" + base64.b64encode(hashlib.sha384(get_plotlyjs().encode()).digest()).decode()


def policy(page: str) -> dict[str, list[str]]:
    """A page's Content-Security-Policy: sources by directive."""
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert found is not None
    directives = (part.split() for part in found[1].split(";"))
    return {name: sources for name, *sources in directives}


def inline_scripts(page: str) -> list[str]:
    """The hashes of a page's own scripts, as its policy has to name them."""
    scripts = re.findall(r'<script(?: type="module")?>(.*?)</script>', page, re.DOTALL)
    return [f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts]


@pytest.fixture
def go(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a page of its own; ``page.complaints`` is what it asked for and said."""
    contexts = []

    def opened(address: str, **routes: Callable[[Any], None]) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: page.complaints.append(f"dialog: {dialog.message}"))
        if "cdn" in routes:
            page.route(re.compile("^https:"), routes["cdn"])
        # Not until it is loaded: a page whose library is missing stops before that.
        page.goto(address, wait_until="commit")
        return page

    yield opened
    for context in contexts:
        context.close()


def bars(page: Any) -> int:
    """Waits until the page is drawn; the bars on it."""
    page.wait_for_selector("html[data-ready]")
    page.locator("#figure .barlayer .point path").first.wait_for()
    return page.locator("#figure .barlayer .point path").count()


# ---------------------------------------------------------------------------------------------------------------------
# The library


@pytest.mark.parametrize("plotlyjs", ["embed", "folder", "cdn"])
def test_the_policy_names_the_page_s_scripts_and_no_other(plotlyjs: str) -> None:
    page = render_html(synthetic.hostile(), plotlyjs=plotlyjs)
    directives = policy(page)
    scripts, sources = inline_scripts(page), directives.pop("script-src")
    assert directives == {
        "default-src": ["'none'"], "style-src": ["'unsafe-inline'"], "img-src": ["data:", "blob:"],
    }  # fmt: skip
    assert len(scripts) == (2 if plotlyjs == "embed" else 1)
    assert set(scripts) < set(sources) or scripts == sources
    (source,) = set(sources) - set(scripts) or {""}
    if plotlyjs == "embed":
        assert source == ""
    elif plotlyjs == "cdn":
        assert source == CDN
        assert page.count(CDN) == 3  # the policy, the element, and what is said when it does not come
        assert f'src="{CDN}" integrity="{INTEGRITY}" crossorigin="anonymous"' in page
    else:
        nonce = source.removeprefix("'nonce-").removesuffix("'")
        assert re.fullmatch(r"[0-9a-f]{32}", nonce)
        assert f'<script src="{LIBRARY}" nonce="{nonce}"></script>' in page
        assert page == render_html(synthetic.hostile(), plotlyjs=plotlyjs)
        assert nonce not in render_html(synthetic.empty(), plotlyjs=plotlyjs)
    assert (get_plotlyjs() in page) == (plotlyjs == "embed")


@pytest.mark.parametrize("plotlyjs", ["", "directory", "EMBED", None, True, ["embed"]])
def test_another_choice_is_refused(plotlyjs: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='plotlyjs must be "embed", "folder" or "cdn"'):
        export_html(synthetic.empty(), tmp_path / "page.html", plotlyjs=plotlyjs)
    with pytest.raises(TraceError, match='enable: plotlyjs must be "embed", "folder" or "cdn"'):
        Trace().enable(plotlyjs=plotlyjs)
    assert not list(tmp_path.iterdir())


def test_a_folder_s_pages_share_one_copy(tmp_path: Path) -> None:
    first = export_html(synthetic.empty(), tmp_path / "a.html", plotlyjs="folder")
    status = (tmp_path / LIBRARY).stat()
    assert (tmp_path / LIBRARY).read_bytes() == get_plotlyjs().encode()
    export_html(synthetic.empty(), tmp_path / "b.html", plotlyjs="folder")
    after = (tmp_path / LIBRARY).stat()
    assert (after.st_ino, after.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)
    assert first.stat().st_size < 200_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html", LIBRARY]


@pytest.mark.parametrize("there", ["truncated", "foreign", "as long", "empty", "link"])
def test_a_file_of_its_name_that_is_not_the_library_is_replaced(there: str, tmp_path: Path) -> None:
    library, content = tmp_path / LIBRARY, get_plotlyjs().encode()
    elsewhere = tmp_path / "elsewhere.js"
    elsewhere.write_text("alert(1)")
    if there == "link":
        library.symlink_to(elsewhere)
    else:
        library.write_bytes(
            {"truncated": content[:-1], "foreign": b"alert(1)", "as long": b" " * len(content), "empty": b""}[there]
        )
    export_html(synthetic.empty(), tmp_path / "page.html", plotlyjs="folder")
    assert library.read_bytes() == content
    assert not library.is_symlink()
    assert elsewhere.read_text() == "alert(1)"


def test_a_library_that_cannot_be_written_leaves_no_page(tmp_path: Path) -> None:
    (tmp_path / LIBRARY).mkdir()
    with pytest.raises(OSError, match="cannot be written"):
        export_html(synthetic.empty(), tmp_path / "page.html", plotlyjs="folder")
    assert [path.name for path in tmp_path.iterdir()] == [LIBRARY]


def test_a_page_from_file_draws_with_its_folder_s_library(go: Callable[..., Any], tmp_path: Path) -> None:
    path = export_html(synthetic.gemm(), tmp_path / "a #&%.html", plotlyjs="folder")
    page = go(path.as_uri())
    assert bars(page) > 50
    assert not page.locator("#missing").is_visible()
    assert page.complaints == []


def test_a_page_without_its_folder_s_library_says_so(go: Callable[..., Any], tmp_path: Path) -> None:
    path = export_html(synthetic.gemm(), tmp_path / "page.html", plotlyjs="folder")
    for content in (None, b"", get_plotlyjs().encode()[:100_000]):
        if content is None:
            (tmp_path / LIBRARY).unlink()
        else:
            (tmp_path / LIBRARY).write_bytes(content)
        page = go(path.as_uri())
        page.get_by_text(f"the file {LIBRARY} beside it is missing or damaged").wait_for()
        assert not any("Plotly" in complaint for complaint in page.complaints)


def test_a_page_draws_with_the_cdn_s_library(go: Callable[..., Any], tmp_path: Path) -> None:
    path = export_html(synthetic.gemm(), tmp_path / "page.html", plotlyjs="cdn")
    asked = []

    def serve(route: Any) -> None:
        asked.append((route.request.url, route.request.headers.get("referer")))
        headers = {"Access-Control-Allow-Origin": "*", "Content-Type": "text/javascript; charset=utf-8"}
        route.fulfill(body=get_plotlyjs(), headers=headers)

    page = go(path.as_uri(), cdn=serve)
    assert bars(page) > 50
    assert asked == [(CDN, None)]
    assert page.complaints == []


def wait_for_complaints(page: Any, text: str, count: int) -> None:
    """The browser tells what it refuses when it comes to it, perhaps after the page is there."""
    for _ in range(300):
        if sum(text in complaint for complaint in page.complaints) >= count:
            return
        page.wait_for_timeout(100)
    pytest.fail(f"fewer than {count} with {text!r}: {page.complaints}")


@pytest.mark.parametrize("network", ["none", "another file"])
def test_a_page_says_what_the_cdn_did_not_bring(network: str, go: Callable[..., Any], tmp_path: Path) -> None:
    path = export_html(synthetic.gemm(), tmp_path / "page.html", plotlyjs="cdn")

    def serve(route: Any) -> None:
        if network == "none":
            route.abort("internetdisconnected")
        else:
            route.fulfill(body="alert(1)", headers={"Access-Control-Allow-Origin": "*"})

    page = go(path.as_uri(), cdn=serve)
    page.get_by_text(f"{CDN} could not be reached").wait_for()
    wait_for_complaints(page, "", 1)
    # What the browser says about the file, and nothing of the page's.
    assert len(page.complaints) == 1
    assert page.complaints[0].startswith("console error")


@pytest.mark.parametrize("plotlyjs", ["embed", "folder", "cdn"])
def test_no_script_runs_that_was_slipped_in(plotlyjs: str, go: Callable[..., Any], tmp_path: Path) -> None:
    path = export_html(synthetic.empty(), tmp_path / "page.html", plotlyjs=plotlyjs)
    (tmp_path / "other.js").write_text("window.slipped = 1")
    asked = []
    text = path.read_text(encoding="utf-8")
    slipped = (
        "<script>window.slipped = 2</script><script src=other.js></script>"
        "<script src=https://cdn.plot.ly/other.js></script><img src=x onerror='window.slipped = 3'>"
    )
    path.write_text(text.replace("<noscript>", slipped + "<noscript>"), encoding="utf-8")
    page = go(path.as_uri(), cdn=lambda route: (asked.append(route.request.url), route.abort()))
    wait_for_complaints(page, "Content Security Policy", 4)
    assert page.evaluate("window.slipped") is None
    assert set(asked) <= {CDN}


def test_what_enable_chose_is_what_dump_writes(tmp_path: Path) -> None:
    trace, timeline = Trace(), synthetic.empty()
    sizes = {}
    for choice in ("folder", "cdn"):
        trace.enable(str(tmp_path / choice), plotlyjs=choice)
        page = Path(f"{trace.dump(timeline)}.html")
        sizes[choice] = page.stat().st_size
        assert (page.parent / LIBRARY).exists() == (choice == "folder")
    assert max(sizes.values()) < 200_000
    trace.enable(str(tmp_path / "default"))
    assert Path(f"{trace.dump(timeline)}.html").stat().st_size > 4_000_000


# ---------------------------------------------------------------------------------------------------------------------
# Notebooks and browsers


def test_a_timeline_imports_no_exporter_before_it_is_shown() -> None:
    code = (
        "import sys, tileops.trace; heavy = ('plotly', 'tileops.trace.export.html', 'webbrowser')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_notebook_shows_the_page_in_a_sandbox(go: Callable[..., Any], tmp_path: Path) -> None:
    timeline = synthetic.gemm()
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><meta charset=utf-8><h1>Notebook</h1>{timeline._repr_html_()}", "utf-8")
    page = go(notebook.as_uri())
    element = page.locator("iframe")
    assert element.get_attribute("sandbox") == "allow-scripts allow-downloads"
    assert box_of(element)["height"] == 720
    assert box_of(element)["width"] > 1200
    frame = page.frame_locator("iframe")
    frame.locator("#figure .barlayer .point path").first.wait_for()
    assert frame.locator("#title").inner_text() == "gemm"
    frame.locator("#tabs [role=tab][data-position='3']").click()
    assert "#3" in frame.locator("#cta").inner_text()
    assert page.complaints == []


def test_hostile_names_do_not_leave_the_notebook_s_frame(go: Callable[..., Any], tmp_path: Path) -> None:
    timeline = synthetic.hostile()
    name = "\"></iframe><script>alert('kernel')</script>\ud800"
    timeline = replace(timeline, meta={**timeline.meta, "kernel": name})
    element = timeline._repr_html_()
    assert element.count("<") == 2  # the frame's own tags
    element.encode("utf-8")
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><meta charset=utf-8>{element}", "utf-8")
    page = go(notebook.as_uri())
    page.frame_locator("iframe").locator("html[data-ready]").wait_for()
    assert page.locator("script").count() == 0
    assert page.complaints == []


def test_show_opens_a_page(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    first = synthetic.gemm().show(title="mine", plotlyjs="folder")
    second = synthetic.empty().show()
    assert opened == [first.as_uri(), second.as_uri()]
    assert first.is_relative_to(tmp_path)
    assert first != second
    assert "<title>mine</title>" in first.read_text(encoding="utf-8")
    assert (first.parent / LIBRARY).exists()
    assert first.parent.stat().st_mode & 0o077 == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("failure", [False, webbrowser.Error("could not locate runnable browser")])
def test_show_says_where_the_page_is(
    failure: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def open_none(address: str) -> bool:
        if failure:
            raise failure
        return False

    monkeypatch.setattr(webbrowser, "open", open_none)
    path = synthetic.empty().show()
    assert path.exists()
    assert capsys.readouterr().out == f"No browser can be opened here. The timeline is {path}\n"


# ---------------------------------------------------------------------------------------------------------------------
# The index


def dated(timeline: Timeline, seconds: int, **meta: Any) -> Timeline:
    """The timeline as of so many seconds into an hour."""
    date = datetime.datetime(2026, 11, 30, 12, 0, seconds, tzinfo=datetime.timezone.utc).isoformat()
    return replace(timeline, meta={**timeline.meta, "date": date, **meta})


def links(folder: Path) -> list[str]:
    """Where the index's rows lead, in order."""
    return re.findall(r'<a href="([^"]*)"', (folder / "index.html").read_text(encoding="utf-8"))


@pytest.fixture
def tracer(tmp_path: Path) -> Iterator[Trace]:
    made = Trace()
    made.enable(str(tmp_path / "debug"), plotlyjs="folder")
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        yield made


def test_each_dump_rewrites_the_index(tracer: Trace) -> None:
    folder = Path(tracer.output)
    tracer.dump(dated(synthetic.gemm(), 1), stem="x")
    assert links(folder) == ["./x.html"]
    tracer.dump(dated(synthetic.gemm(), 3), stem="y")
    tracer.dump(dated(synthetic.gemm(), 2), stem="x")
    assert links(folder) == ["./y.html", "./x-2.html", "./x.html"]
    (folder / "y.html").unlink()
    again = Trace()  # another run
    again.enable(str(folder), plotlyjs="folder")
    again.dump(dated(synthetic.gemm(), 4), stem="x")
    assert links(folder) == ["./x-3.html", "./x-2.html", "./x.html"]
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["index.html", LIBRARY, "x-2.html", "x-3.html", "x.html"]


def test_launches_of_one_second_are_ordered_by_their_pages(tracer: Trace) -> None:
    for _ in range(11):
        tracer.dump(dated(synthetic.empty(), 1), stem="x")
    folder = Path(tracer.output)
    numbers = [int(re.sub(r"\D", "", link) or 1) for link in links(folder)]
    assert numbers == list(range(11, 0, -1))
    for page in folder.glob("x*.html"):
        os.utime(page, ns=(0, 0))
    write_index(folder)
    numbers = [int(re.sub(r"\D", "", link) or 1) for link in links(folder)]
    assert sorted(numbers[:-1]) == numbers[:-1]


def test_the_index_s_figures(tracer: Trace, go: Callable[..., Any]) -> None:
    perturbation = {"ratio": 1.012, "low": 1.0, "high": 1.02, "stripped_us": 10.0, "traced_us": 10.1, "rounds": 20}
    fine = dated(synthetic.gemm((4, 2, 1)), 2, perturbation=perturbation)
    bad = dated(synthetic.troubled(), 1, kernel="odd one", date="2026-11-30T13:00:01+01:00")
    assert bad.dropped
    tracer.dump(fine, stem="gemm_1")
    tracer.dump(bad, stem="odd")
    page = go((Path(tracer.output) / "index.html").as_uri())
    assert page.title() == "Kernel timelines"
    rows = [row.locator("td").all_inner_texts() for row in page.locator("tbody tr").all()]
    span = (fine.ctas.end_ns.max() - fine.ctas.begin_ns.min()) / 1000
    assert rows[0][:8] == [
        "gemm", "gemm_1", "4 × 2 × 1\n8 CTAs", "2026-11-30\n12:00:02 UTC", "NVIDIA H200", f"{fine.recorded:,}", "0",
        f"{span:,.2f}",
    ]  # fmt: skip
    assert rows[0][8].startswith("tracing made this kernel 1.2% slower (median of 20 rounds' ratios")
    assert "cost of a record unknown" in rows[0][8]
    assert rows[1][0] == "odd one"
    assert rows[1][3] == "2026-11-30\n12:00:01 UTC"
    assert rows[1][6] == f"{bad.dropped:,}\n{len(bad.unfinished)} unfinished"
    assert "perturbation not measured" in rows[1][8]
    weights = page.locator("tbody tr td:nth-child(7)").evaluate_all(
        "all => all.map(one => getComputedStyle(one).fontWeight)"
    )
    assert weights == ["400", "700"]
    page.get_by_text("odd one").click()
    page.wait_for_selector("html[data-ready]")
    assert page.url.endswith("/odd.html")
    assert page.complaints == []


HOSTILE = "<img src=x onerror=alert(1)>&\"'‮{{body}}\n"


def test_hostile_names_are_text_in_the_index(tracer: Trace, go: Callable[..., Any]) -> None:
    stems = ["javascript:alert(1)", "a b?c#d%20&\"'<i>", "ünï", "-- >", os.fsdecode(b"\xff\xfe"), "{{body}}", "  ", "'"]
    meta = {"kernel": HOSTILE, "device": HOSTILE * 50, "date": HOSTILE, "probe": {"error": HOSTILE}}
    for stem in stems:
        tracer.dump(replace(synthetic.empty(), meta=meta), stem=stem)
    folder = Path(tracer.output)
    page = go((folder / "index.html").as_uri())
    assert page.locator("tbody tr").count() == len(stems)
    assert page.locator("img, script, i").count() == 0
    spelled = HOSTILE.replace("‮", "\\u202e").replace("\n", "\\u000a")
    assert page.locator("tbody a").all_inner_texts() == [spelled] * len(stems)
    for number in range(len(stems)):
        page.locator("tbody a").nth(number).click()
        page.wait_for_selector("html[data-ready]")
        page.go_back()
        page.locator("tbody").wait_for()
    assert page.complaints == []


def test_pages_that_only_look_like_timelines(tmp_path: Path, go: Callable[..., Any]) -> None:
    good = {
        "kernel": "k", "device": "d", "date": "2026-11-30T12:00:00", "grid": "1", "ctas": 1, "events": 1, "dropped": 0,
        "unfinished": 0, "span_us": 1.5, "perturbation": "p", "record_cost": "r",
    }  # fmt: skip

    def page(name: str, content: str) -> None:
        (tmp_path / name).write_text(content, encoding="utf-8")

    def forged(name: str, values: Any) -> None:
        page(name, f'<meta name="tileops-timeline" content="{html.escape(json.dumps(values))}">')

    forged("good.html", {**good, "kernel": "</td><script>alert(1)</script>" * 100, "more": 1})
    for number, change in enumerate([
        {"kernel": 3}, {"events": -1}, {"events": True}, {"events": 1.5}, {"dropped": "<b>"}, {"span_us": "<b>"},
        {"span_us": float("nan")}, {"span_us": 10**400}, {"ctas": None},
    ]):  # fmt: skip
        forged(f"bad{number}.html", {**good, **change})
    for number, values in enumerate([None, [], 3, "x", {}]):
        forged(f"other{number}.html", values)
    page("deep.html", f'<meta name="tileops-timeline" content="{"[" * 20_000}">')
    page("late.html", " " * 100_000 + f'<meta name="tileops-timeline" content="{html.escape(json.dumps(good))}">')
    page("plain.html", "<h1>Notes</h1>")
    page("empty.html", "")
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "dangling.html").symlink_to(tmp_path / "nowhere")
    (tmp_path / "unreadable.html").write_bytes(b"\xff" * 100)
    assert write_index(tmp_path)
    assert links(tmp_path) == ["./good.html"]
    opened = go((tmp_path / "index.html").as_uri())
    assert opened.complaints == []
    assert opened.locator("script").count() == 0


def test_odd_dates_do_not_stop_the_index(tmp_path: Path) -> None:
    for number, date in enumerate(["", "yesterday", "0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59-12:00", 3]):
        timeline = replace(synthetic.empty(), meta={"date": date})
        export_html(timeline, tmp_path / f"{number}.html", plotlyjs="cdn")
    assert write_index(tmp_path)
    assert len(links(tmp_path)) == 5


def test_a_long_headline_is_read_back() -> None:
    texts = {"kernel": "\U0001f600" * 10_000, "device": '"&<' * 10_000, "date": "\0" * 10_000}
    made = headline.of(replace(synthetic.empty(), meta={**texts, "probe": {"error": "\U0001f600" * 10_000}}))
    assert len(made.kernel) < 1000
    assert len(render_html(synthetic.empty()).split("<meta name=")[0]) + len(headline.element(made)) < headline._READ


def test_the_recording_in_the_package_has_a_headline(tmp_path: Path) -> None:
    path = Path(index.__file__).parents[3] / "recordings" / "gemm_h200.tltrace"
    page = export_html(Recording.load(path).decode(), tmp_path / "page.html", plotlyjs="cdn")
    read = headline.read(page)
    assert read is not None
    assert (read.kernel, read.device, read.grid, read.dropped) == ("gemm", "NVIDIA H200", "16 × 32 × 1", 0)
    assert read.events == 462_848
    assert read.span_us == pytest.approx(185.5, abs=0.1)


@pytest.mark.parametrize("there", ["file", "empty", "folder", "dangling link", "link"])
def test_an_index_that_is_not_ours_is_left(there: str, tracer: Trace) -> None:
    folder = Path(tracer.output)
    folder.mkdir()
    mine = folder / "index.html"
    if there == "folder":
        mine.mkdir()
    elif there == "dangling link":
        mine.symlink_to(folder / "nowhere")
    elif there == "link":
        (folder / "real.htm").write_text("mine")
        mine.symlink_to("real.htm")
    else:
        mine.write_text("mine" if there == "file" else "")
    before = mine.lstat()
    with pytest.warns(TraceWarning, match=r"no index.*index\.html: it was not written by tileops") as caught:
        tracer.dump(synthetic.empty(), stem="x")
    assert [Path(one.filename) for one in caught] == [Path(__file__)]
    tracer.dump(synthetic.empty(), stem="x")  # says it once
    after = mine.lstat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert len(list(folder.glob("x*.html"))) == 2
    assert not list(folder.glob(".*"))


def test_an_index_that_cannot_be_written_does_not_cost_the_page(tracer: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index, "_put", full)
    with pytest.warns(TraceWarning, match="cannot be written: No space left on device"):
        base = tracer.dump(synthetic.empty(), stem="x")
    assert Path(f"{base}.html").exists()
    assert tracer.dumps == (base,)


def test_no_timeline_takes_the_index_s_name(tracer: Trace) -> None:
    assert [tracer.dump(synthetic.empty(), stem="index").name for _ in range(2)] == ["index-2", "index-3"]
    assert sorted(links(Path(tracer.output))) == ["./index-2.html", "./index-3.html"]


def test_without_hard_links(tracer: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    tracer.dump(synthetic.empty(), stem="x")
    assert links(Path(tracer.output)) == ["./x.html"]


def test_an_index_that_came_meanwhile_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's file that appears between the look and the move."""
    link, mine = os.link, tmp_path / "index.html"

    def late(source: Any, target: Any) -> None:
        mine.write_text("mine")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    assert not write_index(tmp_path)
    assert mine.read_text() == "mine"


def test_the_index_is_made_again_if_a_page_came_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put, calls = index._put, []

    def late(*arguments: Any) -> bool:
        done = put(*arguments)
        calls.append(done)
        if len(calls) == 1:
            export_html(synthetic.empty(), tmp_path / "late.html", plotlyjs="cdn")
        return done

    monkeypatch.setattr(index, "_put", late)
    assert write_index(tmp_path)
    assert calls == [True, True]
    assert links(tmp_path) == ["./late.html"]


def _dump_some(folder: str, number: int, count: int) -> None:
    trace = Trace()
    trace.enable(folder, plotlyjs="folder")
    for _ in range(count):
        trace.dump(synthetic.empty(), stem=f"from{number}")
        trace.dump(synthetic.empty(), stem="all")


def test_processes_that_write_at_once_lose_no_page(tmp_path: Path) -> None:
    workers, count = 4, 6
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_dump_some, args=(str(tmp_path), n, count)) for n in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    pages = {f"./{path.name}" for path in tmp_path.glob("*.html")} - {"./index.html"}
    assert len(pages) == 2 * workers * count
    assert set(links(tmp_path)) == pages
    assert (tmp_path / LIBRARY).read_bytes() == get_plotlyjs().encode()
    assert not list(tmp_path.glob(".*"))
