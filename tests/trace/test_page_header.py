"""What the page says ahead of the figure: the launch, its clocks, and trouble that the recording had."""

from __future__ import annotations

from collections.abc import Callable

from . import synthetic
from .opened import (
    MISSING,
    Opened,
    integer,
)


def test_the_header_says_what_is_known(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((4, 2, 1), 5)
    opened = show(timeline, title="A title")
    page = opened.page
    assert page.title() == page.locator("h1").inner_text() == "A title"
    launch = page.locator("#launch").inner_text()
    for text in ("gemm", "NVIDIA H200", "cuda", "4 × 2 × 1", "2025-11-03 14:05:09 UTC"):
        assert text in launch
    assert page.locator("#told span").all_inner_texts() == [
        "cost of a record unknown: the recording does not say", "perturbation not measured",
    ]  # fmt: skip
    clocks = timeline.ctas["ghz"]
    assert opened.facts("#facts") == {
        "CTAs": "8", "Events": integer(timeline.recorded), "Dropped": "0", "Unfinished": "0",
        "Clock, measured": f"{clocks.min():.3f} to {clocks.max():.3f} GHz", "Axis error": "± 21.5 ns",
    }  # fmt: skip
    assert page.locator("#alerts .alert").count() == 0
    assert "tilelang 0.1.15" in page.locator("footer .versions").inner_text()
    opened.open(3)
    row = list(timeline.ctas)[3]
    facts = opened.facts("#cta-facts")
    assert facts["SM"] == integer(row.sm)
    assert facts["Cycles"] == integer(row.cycles)
    assert facts["Clock, measured"] == f"{row.ghz:.3f} GHz"
    page.locator("#details summary").click()
    assert opened.facts("#meta")["max_events"] == "512"


def test_the_header_says_what_tracing_did_to_the_kernel(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((1, 1, 1), 4)
    timeline.meta.update(
        probe={"plain": 14.4, "payload": 18.6, "device": "NVIDIA <b>H200</b>"},
        perturbation={
            "ratio": 1.012, "low": 1.008, "high": 1.016, "stripped_us": 189.7, "traced_us": 192.0, "rounds": 20,
        },
        slots_bytes=5_234_000,
    )  # fmt: skip
    said = show(timeline).page.locator("#told span")
    assert said.all_inner_texts() == [
        "a record costs 14 cycles (19 with a payload), measured on NVIDIA <b>H200</b>",
        (
            "tracing made this kernel 1.2% slower (median of 20 rounds' ratios, 80% of them between +0.8% and +1.6%; "
            "189.70 µs stripped)"
        ),
        "trace buffer 5.2 MB",
    ]
    timeline.meta["probe"] = {"error": "</script><b>no\ncompiler"}
    assert show(timeline).page.locator("#told span").first.inner_text() == (
        "cost of a record unknown: </script><b>no\\ncompiler"
    )


def test_trouble_is_loud(show: Callable[..., Opened]) -> None:
    timeline = synthetic.troubled()
    opened = show(timeline)
    page = opened.page
    alerts = opened.alerts()
    needed = int((timeline.rows["recorded"] + timeline.rows["dropped"]).max())
    assert "7 events dropped" in alerts
    assert f"max_events={needed} " in alerts
    assert "2 CTAs did not finish and cannot be trusted: (2, 0) #2, (0, 1) #3." in alerts
    page.get_by_text("2 markers never fired in this launch").click()
    assert page.locator("#alerts li").all_inner_texts() == list(timeline.never_fired)
    assert opened.facts("#facts")["Dropped"] == "7"
    assert page.locator("#facts .bad dt").all_inner_texts() == ["Dropped", "Unfinished"]
    assert page.locator("#tabs .unfinished").all_inner_texts() == ["(2, 0) #2", "(0, 1) #3"]
    opened.open(1)
    alerts = opened.alerts("#cta-alerts")
    assert "producer: 7 events dropped after the first 10." in alerts
    assert "2 ranges cut" in alerts
    text = opened.hover(*opened.place(800, "producer", "main"))
    assert "Cut: its end was not recorded" in text
    rows = {line.split("\t")[0]: line.split("\t")[2:] for line in page.locator("#totals tr").all_inner_texts()}
    assert [cell.strip() for cell in rows["tile"]] == ["0 + 1 cut", *[MISSING] * 6]
    assert rows["tma"][:3] == ["4 + 1 cut", "800", "200"]
    opened.open(2)
    assert "This CTA did not finish" in opened.alerts("#cta-alerts")
    assert page.locator("#nothing").inner_text() == "Nothing is known of this CTA, since it did not finish."
    assert opened.facts("#cta-facts")["Clock, measured"] == MISSING


def test_what_a_ring_dropped_came_ahead_of_what_it_kept(show: Callable[..., Opened]) -> None:
    timeline = synthetic.troubled()
    timeline.meta["keep"] = "last"
    opened = show(timeline)
    opened.open(1)
    assert "producer: 7 events dropped ahead of the last 10." in opened.alerts("#cta-alerts")
