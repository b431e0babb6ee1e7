"""Reports: the same facts in the same order as text, as JSON and as a page; and the page in a browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.profile.compare import compare
from tileops.profile.diagnosis import Measured, diagnose
from tileops.profile.errors import ProfileError
from tileops.profile.facts import SCHEMA, Candidate, Report, Times
from tileops.profile.peaks import Ceilings
from tileops.profile.reading import read_trace
from tileops.profile.report import units
from tileops.profile.report.build import report_on
from tileops.profile.report.data import schema, to_data, to_json
from tileops.profile.report.document import Paragraph, document
from tileops.profile.report.html import sections_page, to_html
from tileops.profile.report.text import shortened, to_text
from tileops.profile.report.units import duration, share, size

from .kineto import Maker

HOSTILE = "</script><script>alert(1)</script><b>[red]x[/red] & 'q' \u202e \x1b[31m\x1b]0;title\x07"
# As C++ names kernels: longer than any column.
LONG = (
    "void at::native::(anonymous namespace)::apply_kernel<" + ", ".join(["at::native::functor<float>"] * 40) + ">(int)"
)
ORDER = ["Objective", "Summary table", "Diagnosis", "Trace", "Memory"]


def busy_trace() -> Maker:
    """Something of everything that a report can show."""
    maker = Maker(distributedInfo={"rank": 1, "world_size": 4}, cuda_runtime_version=12080)
    for number in range(6):
        begin = 1000.0 * number
        maker.label(f"ProfilerStep#{number}", begin, 900)
        maker.label("forward_pass", begin + 10, 500)
        maker.label(HOSTILE, begin + 20, 300)
        maker.op("aten::mm", begin + 30, 50)
        maker.launch(begin + 40, 10, begin + 70, 300, f"void gemm<{HOSTILE}>(int)")
        maker.launch(begin + 60, 10, begin + 380, 20, "copy_kernel", stream=8)
        maker.launch(begin + 50, 5, begin + 405, 21, LONG, stream=8)
        maker.call("cudaStreamSynchronize", begin + 80, 300)
        maker.events.append(
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 101, "ts": begin + 35,
             "args": {"Bytes": 4096, "Total Allocated": 4096 * (number + 1), "Total Reserved": 1 << 20,
                      "Addr": 4096 * (number + 1), "Device Id": 0, "Device Type": 1}}
        )  # fmt: skip
    for number in range(30):
        maker.launch(7000 + 10 * number, 3, 7005 + 10 * number, 2, "tiny")
    maker.call("cudaMalloc", 6500, 200)
    return maker


@pytest.fixture
def report(tmp_path) -> Report:
    made = report_on(busy_trace().trace(tmp_path))
    times = Times.of([95e3, 100e3, 101e3, 104e3, 120e3])
    measured = Measured(
        HOSTILE, gpu_ns=100e3, low_ns=99e3, high_ns=102e3, repeats=5, wall_ns=110e3, flops=6e10, bytes_moved=1e8,
        ceilings=Ceilings("H200 SXM", "float16", 4800, 989.5, 67),
    )  # fmt: skip
    candidate = Candidate(HOSTILE, 2e9, 12, True, times, times, times, rank=1, notes=["Something was seen."])
    return replace(made, candidates=[candidate], verdicts=[diagnose(measured), *made.verdicts], missing=["A limit."])


class Visible(HTMLParser):
    """The texts of a page's main part, in order."""

    def __init__(self, page: str):
        super().__init__()
        self.parts: list[str] = []
        self.tags: list[str] = []
        self.feed(page[page.index("<main>") : page.index("</main>")])
        self.text = "".join(self.parts)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.parts.append(data)


def spelled(text: str) -> str:
    """As the page and the terminal show a text: what acts on its surroundings by its number."""
    return re.sub("[\x00-\x1f\u202e]", lambda found: f"\\u{ord(found[0]):04x}", text)


def texts(report: Report) -> list[str]:
    found = []
    for section in document(report):
        found.append(section.title)
        for block in section.blocks:
            if isinstance(block, Paragraph):
                found.append(block.text)
            else:
                found += [block.title, *block.headings, *(cell for row in block.rows for cell in row)]
    return [text for text in found if text]


def test_the_same_facts_in_the_same_order(report):
    said = texts(report)
    assert len(said) > 150
    page = Visible(to_html(report)).text
    squeezed = re.sub(r"\s+", "", to_text(report, width=4000)).replace("\\x", "\\u00")
    at_page = at_text = 0
    for text in said:
        at_page = page.index(spelled(text), at_page) + len(spelled(text))
    # On the terminal long names are cut, cells of a line stand side by side, and lines are broken.
    for section in document(report):
        for block in section.blocks:
            if isinstance(block, Paragraph):
                at_text = squeezed.index(re.sub(r"\s+", "", spelled(block.text)), at_text)
    for text in said:
        shown = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
        forms = (shown, shortened(shown))
        assert any(re.sub(r"\s+", "", form).replace("\\x", "\\u00") in squeezed for form in forms), text
    assert [section["title"] for section in to_data(report)["sections"]] == ORDER
    data = json.loads(to_json(report))
    in_json = []
    for section in data["sections"]:
        in_json.append(section["title"])
        for block in section["blocks"]:
            if "text" in block:
                in_json.append(block["text"])
            else:
                in_json += [block["title"], *block["headings"], *(cell for row in block["rows"] for cell in row)]
    assert [text for text in in_json if text] == said


def test_long_lines_are_broken_and_commands_are_not(report):
    sentence, command = " ".join(["word"] * 99) + " end.", "python -c " + "x" * 400
    verdict = replace(report.verdicts[0], next_step=sentence, command=command)
    text = to_text(replace(report, verdicts=[verdict]))
    assert f"  {command}" in text.splitlines()
    assert f"Next: {sentence}" in " ".join(text.split())
    assert f"Next: {sentence}" not in text


def test_nothing_from_a_trace_steers_the_terminal(report):
    for text in (to_text(report), to_text(replace(report, objective=HOSTILE, missing=[HOSTILE], trace=HOSTILE))):
        assert HOSTILE.split()[0] in text
        assert [letter for letter in text if not (letter.isprintable() or letter == "\n")] == []


def test_names_are_cut_where_they_say_least():
    assert shortened("aten::mm") == "aten::mm"
    kernel = (
        "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int, float const*, long, long)"
    )
    assert shortened(kernel) == "max_pool_forward_nchw<float, float>"
    one, other = (
        f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}<float>, at::detail::Array<char*, 3> >"
        f"(int, at::native::{functor}<float>, at::detail::Array<char*, 3>)"
        for functor in ("CUDAFunctor_add", "BinaryFunctor")
    )
    assert shortened(one) != shortened(other)
    assert max(map(len, map(shortened, (one, other, LONG)))) <= 64


def test_json_has_a_schema_and_all_figures(report):
    data = json.loads(to_json(report))
    assert data["schema"] == SCHEMA
    described = schema()
    named = described["$defs"]["Report"]["properties"]
    assert set(data["figures"]) == set(named) - {"schema"}
    assert data["figures"]["structure"]["launches"]["count"] == 48
    assert data["figures"]["verdicts"][0]["bound"] == "tensor-core bound"
    assert data["figures"]["memory"][0]["peak_bytes"] == 6 * 4096


def test_what_the_report_says(report):
    text = to_text(report)
    for said in (
        "rank", "1 of 4", "A limit.", "Something was seen.", "tensor-core bound", "pipeline of many small kernels",
        "cudaStreamSynchronize", "cudaMalloc", "Launch queue of GPU 0", "synchronization", "grows over the 6 passages",
        "Streams in use", "Self CUDA %", "self_cuda_time_total",
    ):  # fmt: skip
        assert said in text, said
    # What is unknown is never shown as a zero.
    assert "unknown" in text


def test_a_trace_without_a_gpu_shows_no_zeros_for_it(tmp_path):
    maker = Maker()
    maker.label("work", 0, 50)
    maker.op("aten::mm", 10, 20)
    found = report_on(maker.trace(tmp_path))
    text = to_text(found)
    assert "CUDA total" not in text.split("Diagnosis")[0].replace("[CPU total]", "")
    assert "There is no GPU activity" in text
    assert (found.verdicts[0].bound, found.verdicts[0].strength) == ("no verdict", "none")
    assert "There is no GPU activity" in found.verdicts[0].evidence[0]
    label = next(line for line in text.splitlines() if line.strip().startswith("work ") and "unknown" in line)
    assert label.count("unknown") == 3
    assert found.structure.labels[0].gpu_ns is None


def test_the_page_holds_no_markup_from_a_trace(report):
    page = to_html(report)
    assert "<script>alert" not in page
    assert page.count("<script") == 1
    assert not re.search(r"<\w[^>]*\s(src|href)=\"(?!#)", page)
    assert "style=" not in page
    tags = set(Visible(page).tags)
    assert "script" not in tags
    assert "svg" in tags


def test_files(report, tmp_path):
    written = report.save(str(tmp_path / "out" / "deep"))
    assert [Path(path).name for path in written] == ["trace.json.gz", "report.txt", "report.json", "report.html"]
    kept = read_trace(written[0])
    assert len(kept.events) == sum(event["ph"] == "X" for event in busy_trace().events)
    assert str(report) == to_text(report)
    assert "deep/trace.json.gz" in Path(written[1]).read_text()
    again = replace(report, trace=written[0]).save(str(tmp_path / "out" / "deep"))
    assert again == written
    assert len(read_trace(written[0]).events) == len(kept.events)
    with pytest.raises(ProfileError, match="cannot be written"):
        report.save(str(Path(written[1]) / "below"))


def test_units():
    assert [duration(ns) for ns in (None, 0, 1, 999, 1500, 12_345, 123_456, 9_999_999, 2.5e9)] == [
        "unknown", "0", "1.00 ns", "999 ns", "1.50 µs", "12.3 µs", "123 µs", "10.0 ms", "2.50 s",
    ]  # fmt: skip
    assert [size(count) for count in (None, 0, 512, 4096, 10 << 20, -(3 << 30))] == [
        "unknown", "0 B", "512 B", "4.00 KiB", "10.0 MiB", "-3.00 GiB",
    ]  # fmt: skip
    assert (share(None), share(0.123)) == ("unknown", "12.3%")
    assert (units.number(None), units.number(1234.5, "GB/s")) == ("unknown", "1,234 GB/s")


def test_roofline_places(report):
    page = to_html(report)
    plot = page[page.index("Roofline") : page.index("</figure>", page.index("Roofline"))]
    assert plot.count("<circle") == 1
    assert "4,800 GB/s" in plot
    assert "tensor cores: 990 TFLOP/s" in plot
    assert "ordinary cores" in plot or "67 TFLOP/s" in plot
    # The point lies below the roof: 600 of 989 TFLOP/s, at 600 operations per byte.
    y = float(re.search(r'<circle[^>]* cy="([\d.]+)"', plot)[1])
    top = float(re.search(r'<polyline class="roof" points="[^"]* [\d.]+,([\d.]+)"', plot)[1])
    assert y > top
    # The slanted part rises by a decade a decade: the rate is the intensity times the bandwidth.
    across, up = (
        sorted(float(x) for x in re.findall(pattern, plot))
        for pattern in (
            r'<text class="tick" x="([\d.]+)" y="[\d.]+" text-anchor="middle">[\d.,]+<',
            r'<text class="tick" x="[\d.]+" y="([\d.]+)" text-anchor="end">[\d.,]+<',
        )
    )
    places = re.search(r'<polyline class="roof" points="([^"]*)"', plot)[1].split()
    (x1, y1), (x2, y2) = (map(float, place.split(",")) for place in places[:2])
    assert (x2 - x1) / (across[1] - across[0]) == pytest.approx((y1 - y2) / (up[1] - up[0]), rel=0.02)
    low, high = map(float, re.search(r'class="spread"[^>]* y1="([\d.]+)" y2="([\d.]+)"', plot).groups())
    assert low > y > high


def test_comparison(tmp_path):
    before, after = Maker(), Maker()
    for number in range(4):
        before.launch(100 * number, 5, 100 * number + 10, 50, "same")
        before.launch(100 * number + 20, 5, 100 * number + 62, 20, "faster later")
        after.launch(100 * number, 5, 100 * number + 10, 51, "same")
        after.launch(100 * number + 20, 5, 100 * number + 62, 5, "faster later")
    before.launch(500, 5, 510, 7, "gone")
    after.launch(500, 5, 510, 9, "new")
    found = compare(before.trace(tmp_path, "a.json"), after.trace(tmp_path, "b.json"))
    assert found.column == "Self CUDA"
    assert [(c.name, c.before_ns, c.after_ns) for c in found.changes] == [
        ("faster later", 80_000, 20_000), ("new", None, 9_000), ("gone", 7_000, None), ("same", 200_000, 204_000),
    ]  # fmt: skip
    (section,) = found.sections()
    rows = section.blocks[-1].rows
    assert [row[0] for row in rows] == ["faster later", "new", "gone"]
    assert rows[0][4:6] == ["−60.0 µs", "-75.0%"]
    totals = {name: (old, new) for name, old, new in found.totals}
    assert totals["GPU busy"] == (287_000, 233_000)
    # Four times 2 µs, resp. 1, between two kernels; from there to the next pair, and to the last kernel.
    assert totals["GPU idle in gaps"] == (4 * 2_000 + 3 * 28_000 + 128_000, 4 * 1_000 + 3 * 43_000 + 143_000)
    assert totals["launch calls"] == (45_000, 45_000)
    assert "faster later" in Visible(sections_page("c", found.sections())).text
    same = compare(before.trace(tmp_path, "a.json"), before.trace(tmp_path, "a.json"))
    assert "No row" in same.sections()[0].blocks[-1].text


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_any_trace_has_a_report(tmp_path_factory, seed):
    """Events of all kinds, at random: nested, overlapping, unlinked, of no length."""
    random = np.random.default_rng(seed)
    maker = Maker()
    kinds = (
        "cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "cuda_sync", "overhead", "python_function",
        "gpu_user_annotation", "other",
    )  # fmt: skip
    names = (
        "cudaLaunchKernel",
        "cudaMalloc",
        "cudaDeviceSynchronize",
        "ProfilerStep#1",
        "ProfilerStep#2",
        "x",
        HOSTILE,
    )
    for _ in range(int(random.integers(1, 60))):
        maker.add(
            str(random.choice(kinds)), str(random.choice(names)), float(random.integers(0, 200)),
            float(random.integers(0, 60)), tid=int(random.integers(0, 3)), correlation=int(random.integers(-1, 20)),
            device=int(random.integers(-1, 2)), stream=int(random.integers(-1, 3)),
        )  # fmt: skip
    for address in random.integers(0, 5, int(random.integers(0, 20))).tolist():
        maker.events.append(
            {"ph": "i", "name": "[memory]", "pid": 100, "tid": int(random.integers(0, 3)), "ts": 10.0,
             "args": {"Bytes": int(random.integers(-9, 9)), "Addr": address, "Device Type": int(random.integers(0, 2))}}
        )  # fmt: skip
    report = report_on(maker.trace(tmp_path_factory.mktemp("trace")))
    assert [section.title for section in document(report)] == ORDER
    assert json.loads(to_json(report))["schema"] == SCHEMA
    assert "nan" not in to_text(report).lower()
    assert "NaN" not in to_html(report)


def test_the_page_in_a_browser(browser, report, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(to_html(report))
    said: list[str] = []
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    assert page.locator("h2").all_inner_texts() == ORDER
    assert page.locator("svg").count() >= 2
    # The policy lets the page's own style and script through.
    assert page.evaluate("getComputedStyle(document.querySelector('.lead')).borderLeftWidth") == "4px"
    table = page.locator("table", has=page.locator("th", has_text="Self CUDA %"))
    heading = table.locator("th", has_text="Calls")
    heading.click()
    calls = [int(text.replace(",", "")) for text in table.locator("tbody tr td:last-child").all_inner_texts()]
    assert calls == sorted(calls, reverse=True)
    heading.press("Enter")
    calls = [int(text.replace(",", "")) for text in table.locator("tbody tr td:last-child").all_inner_texts()]
    assert calls == sorted(calls)
    # What is unknown is last both ways.
    heading = page.locator("table", has=page.locator("th", has_text="CPU total")).locator("th", has_text="CPU total")
    for _ in range(2):
        heading.click()
        column = page.locator("table", has=page.locator("th", has_text="CPU total")).first
        cells = column.locator("tbody tr td:nth-child(4)").all_inner_texts()
        assert set(cells[cells.index("–") :]) == {"–"}
    # Short words are whole, however long the names beside them; and one click shows all of those.
    words = """() => [...document.querySelectorAll("td.text")].filter(cell => /^\\S{2,24}$/.test(cell.textContent))
        .map(cell => { const range = document.createRange(); range.selectNodeContents(cell);
                       const tops = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
                       return [cell.textContent, tops.size]; })"""
    for width in (1200, 360):
        page.set_viewport_size({"width": width, "height": 900})
        lines = page.evaluate(words)
        assert len(lines) > 20
        assert [line for line in lines if line[1] != 1] == []
    opened = page.locator("details", has_text="apply_kernel").first
    assert opened.bounding_box()["height"] < 120
    assert opened.text_content() == LONG
    opened.locator("summary").click()
    assert opened.bounding_box()["height"] > 120
    # Narrow: the tables scroll, the page does not.
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert said == []
    assert requests == [path.as_uri()]
    page.close()


def test_without_a_gpu_a_label_can_dominate(tmp_path):
    """A kernel of TileLang's CPU target is no operator: of 150 µs, 100 are its label's own."""
    maker = Maker()
    maker.label("tilelang_kernel", 0, 100)
    maker.label("torch_ref", 200, 50)
    maker.op("aten::mm", 200, 50)
    answer = report_on(maker.trace(tmp_path)).answers[0]
    assert answer.text.startswith("tilelang_kernel: 67% of the time on the host, 100 µs in 1 call")
    assert answer.column == "Self CPU"


@pytest.mark.parametrize(
    ("host", "said"), [(49, "It is small"), (51, "It is notable"), (99, "It is notable"), (101, "It is large")]
)
def test_how_large_the_hosts_time_is(tmp_path, host, said):
    maker = Maker()
    maker.op("aten::mm", 0, host)
    maker.launch(200, 5, 210, 100)
    (answer,) = [entry for entry in report_on(maker.trace(tmp_path)).answers if "host's own" in entry.question]
    assert answer.text.startswith(f"{said}: operators took {duration(host * 1000)}, {host / 100:.2f} times")
    assert ("hints at host overhead" in answer.text) == (host > 100)
