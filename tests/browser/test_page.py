"""The HTML report in a real browser: it draws, sends no request and executes no text."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.analysis.summary import summarise
from orchestrator.core.records import SweepRecord
from orchestrator.report.charts import charts_of
from tests.browser.conftest import Open
from tests.building.arms import PORTABLE
from tests.building.large_records import (
    HOSTILE_TEXTS,
    build_hostile_record,
    build_rich_record,
    build_small_record,
)
from tests.building.records import build_record
from tests.building.trials import build_trial

pytestmark = pytest.mark.full

HERE = Path(__file__).parent


def test_a_page_draws_every_point_without_messages_or_requests(open_page: Open) -> None:
    record = build_rich_record()
    charts = charts_of(summarise(record))
    sections = {chart.section for chart in charts}
    assert sections >= {"speed", "trade_offs", "crossovers", "learning", "phases"}
    opened = open_page(record)
    assert opened.messages == []
    assert [url.split(":")[0] for url in opened.requests] == ["file"]
    page = opened.page
    for chart in charts:
        drawn = page.locator(f"#figure-{chart.key} .plot svg")
        assert drawn.locator(".role-mark path, .role-mark line").count() > 1, chart.key
    points = page.locator("#figure-speedups .plot .mark-symbol path").count()
    assert points >= len(record.arms) - 1


def test_no_text_of_a_sweep_is_executed(open_page: Open) -> None:
    opened = open_page(build_hostile_record())
    page = opened.page
    page.get_by_role("button", name="Details").first.click()
    page.locator("figure summary").first.click()
    assert opened.alerts == []
    assert opened.messages == []
    assert [url.split(":")[0] for url in opened.requests] == ["file"]
    assert page.locator("img, iframe, object, [onerror], [onload], main svg a").count() == 0
    assert page.locator("a:not([href^='#'])").count() == 0
    heading = page.locator("h1").inner_text()
    assert HOSTILE_TEXTS[1] in heading
    assert HOSTILE_TEXTS[0] in page.locator("#trial-table").inner_text()
    titles = page.locator(".plot svg text").all_text_contents()
    assert any("$\\frac{a}{b}$" in title for title in titles)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (build_record([]), "No trial has ended yet"),
        (build_record([], arms=()), "cuDNN kernels need an NVIDIA GPU"),
        (
            build_record([build_trial(b, PORTABLE, train_s=2.0) for b in range(8)], (PORTABLE,)),
            "Raw trials",
        ),
    ],
)
def test_a_sweep_without_comparisons_has_a_page(
    open_page: Open, record: SweepRecord, text: str
) -> None:
    opened = open_page(record)
    assert opened.messages == []
    assert text in opened.page.locator("main").inner_text()
    assert opened.page.locator("#figure-speedups").count() == 0
    assert opened.page.locator("#figure-phases").count() == bool(record.trials)


def test_without_scripts_only_plots_and_trials_are_missing(open_page: Open) -> None:
    page = open_page(build_small_record(), java_script_enabled=False).page
    assert "need JavaScript" in page.locator("noscript").inner_text()
    page.locator("#figure-crossover-units summary").last.click()
    assert "tensorflow/portable" in page.locator("#description-crossover-units").inner_text()
    assert not page.locator("#filters").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("of", [build_small_record, build_hostile_record])
def test_every_width_shows_all_text_with_contrast(
    open_page: Open, of: Callable[[], SweepRecord], scheme: str
) -> None:
    """Require a contrast of at least 4.5 to 1 (WCAG 2.2, 1.4.3, 'relative luminance')."""
    opened = open_page(of(), viewport={"width": 360, "height": 800}, color_scheme=scheme)
    page = opened.page
    page.locator("main summary").last.click()
    page.locator(".side summary").last.click()
    for width in (320, 360, 1440, 2560):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function("width => innerWidth === width", arg=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate((HERE / "contrast.js").read_text()) == []
    assert opened.messages == []
