"""The HTML report in a real browser: it draws, sends no request and executes no text."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from orchestrator.analysis.summary import summarise
from orchestrator.report.charts import charts_of
from tests.browser.conftest import Open
from tests.building.large_records import (
    HOSTILE_TEXTS,
    build_hostile_record,
    build_rich_record,
    build_small_record,
)

pytestmark = pytest.mark.full

HERE = Path(__file__).parent


def test_a_page_draws_every_chart_without_messages_or_requests(open_page: Open) -> None:
    record = build_rich_record()
    charts = charts_of(summarise(record))
    assert {chart.section for chart in charts} == {"comparisons", "quality", "sizes"}
    opened = open_page(record)
    assert opened.messages == []
    assert [url.split(":")[0] for url in opened.requests] == ["file"]
    page = opened.page
    for chart in charts:
        drawn = page.locator(f"#plot-{chart.key} svg")
        assert drawn.locator(".role-mark path, .role-mark line").count() > 1, chart.key
    points = page.locator("#plot-speedups .mark-symbol path")
    assert points.count() >= len(record.arms) - 1
    points.first.hover()
    assert " × (" in page.locator("#vg-tooltip-element").inner_text()


def test_no_text_of_a_sweep_is_executed(open_page: Open) -> None:
    opened = open_page(build_hostile_record())
    page = opened.page
    page.locator("figure summary").first.click()
    assert opened.alerts == []
    assert opened.messages == []
    assert [url.split(":")[0] for url in opened.requests] == ["file"]
    assert page.locator("img, iframe, object, [onerror], [onload], main svg a").count() == 0
    assert page.locator("a:not([href^='#'])").count() == 0
    heading = page.locator("h1").inner_text()
    assert HOSTILE_TEXTS[1] in heading
    titles = page.locator(".plot svg text").all_text_contents()
    assert any("$\\frac{a}{b}$" in title for title in titles)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_width_shows_all_text_with_contrast(open_page: Open, scheme: str) -> None:
    """Require a contrast of at least 4.5 to 1 (WCAG 2.2, 1.4.3, 'relative luminance')."""
    page = open_page(build_hostile_record(), color_scheme=scheme).page
    page.locator("main summary").last.click()
    for width in (320, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function("width => innerWidth === width", arg=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate((HERE / "contrast.js").read_text()) == []


def background_of_charts(page: Page) -> str:
    style = "getComputedStyle(document.querySelector('.plot svg')).backgroundColor"
    colour: str = page.evaluate(style)
    return colour


def test_a_page_is_printed_light_with_all_details_open(open_page: Open) -> None:
    page = open_page(build_small_record(), color_scheme="dark").page
    dark = background_of_charts(page)
    page.evaluate(
        """() => addEventListener("beforeprint", () => {
            window.closed = document.querySelectorAll("main details:not([open])").length;
        })"""
    )
    assert page.pdf(format="A4").count(b"/Type /Page") > 3
    assert page.evaluate("window.closed") == 0
    assert page.locator("main details[open]").count() == 0
    assert background_of_charts(page) == dark
    page.emulate_media(media="print")
    assert background_of_charts(page) == "rgb(255, 255, 255)" != dark
    assert not page.locator("nav").is_visible()
    assert page.locator("#plot-speedups").is_visible()
