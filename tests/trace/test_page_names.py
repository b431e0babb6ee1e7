"""Names of any kind are shown as text: hostile ones never run, long ones end in an ellipsis."""

from __future__ import annotations

from collections.abc import Callable

from . import synthetic
from .opened import (
    Opened,
    box_of,
    integer,
    spelled,
)

Show = Callable[..., Opened]


def test_names_are_text_and_never_run(show: Callable[..., Opened]) -> None:
    timeline = synthetic.hostile()
    opened = show(timeline, height=1400)
    page = opened.page
    wanted = [spelled(name) for name in synthetic.HOSTILE]

    def texts(selector: str) -> list[str]:
        return page.locator(selector).evaluate_all("all => all.map(one => one.textContent)")

    assert texts("h1") == [spelled(synthetic.HOSTILE[1])]
    assert page.title() == " ".join(spelled(synthetic.HOSTILE[1]).split())
    assert texts("#totals th > .name") == wanted
    assert texts("#legend .chip:not(.edge) .name") == wanted
    assert texts("#figure .row-name .group") == wanted
    assert texts("#figure .row-name .lane") == wanted[::-1]
    assert texts("#alerts li") == wanted
    assert opened.bars == opened.instants == len(wanted)
    for at, row in enumerate(timeline.slices):
        box = box_of(page.locator("#figure .row-name").nth(at))
        opened.hover(opened.across(row.start + 200), box["y"] + 19)
        assert texts("#tooltip .what .name") == [wanted[at]]
        assert f"payload {integer(row.payload)}" in page.locator("#tooltip").inner_text()
    page.locator("#details summary").click()
    assert spelled(synthetic.HOSTILE[3]) in texts("#meta dd")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, b:not(#tooltip b), i").count() == 0


def test_the_map_shows_names_as_text(show: Callable[..., Opened]) -> None:
    opened = show(synthetic.hostile())
    page = opened.page
    opened.open_map()
    options = page.locator("#gpu-colour option").evaluate_all("all => all.map(one => one.textContent)")
    assert options == ["Duration", *(f"Share of {spelled(name)}" for name in synthetic.HOSTILE)]
    for at in range(len(synthetic.HOSTILE)):
        page.locator("#gpu-colour").select_option(value=str(at))
        opened.hover(opened.map_across(1000), opened.map_down(0))
        name = page.locator("#tooltip .name").evaluate("one => one.textContent")
        assert name == spelled(synthetic.HOSTILE[at])
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_long_names_end_in_an_ellipsis(show: Show) -> None:
    opened = show(synthetic.hostile())
    page = opened.page
    cut = page.locator(".row-name span, #totals .name, .chip .name").evaluate_all(
        """all => all.filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth).map((one) => {
          const { display, overflow, textOverflow } = getComputedStyle(one);
          return [/block/.test(display), overflow, textOverflow];
        })"""
    )
    assert len(cut) > 10
    assert set(map(tuple, cut)) == {(True, "hidden", "ellipsis")}
    # The numbers beside them stay in sight.
    assert page.locator("#summary").evaluate("one => one.scrollWidth <= one.clientWidth")
