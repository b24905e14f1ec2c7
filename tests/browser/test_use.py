"""Use of the HTML report: by keyboard, with a screen reader, in dark mode, on paper."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.orchestrator.report import samples
from tests.orchestrator.sample_records import CPU, GPU

pytestmark = pytest.mark.full

HERE = Path(__file__).parent
_COLUMNS = ("arm", "config", "outcome", "val_accuracy", "step_ms", "train_s", "block", "repeat")


def column(page: Page, name: str) -> list[str]:
    place = _COLUMNS.index(name)
    cells = "row => [...row.cells].map(cell => cell.innerText)"
    rows = page.evaluate(f"[...document.querySelectorAll('#trial-table tbody tr')].map({cells})")
    return [row[place] for row in rows]


def test_trials_are_filtered_by_keyboard_and_counted(open_page: Open) -> None:
    page = open_page(samples.rich()).page
    count = page.locator("#trial-count[role=status]")
    page.get_by_label("Hardware", exact=True).focus()
    page.keyboard.type("NVIDIA")
    record = samples.rich()
    assert set(column(page, "arm")) == {str(arm) for arm in record.arms if arm.hardware == GPU}
    assert count.inner_text() == "Showing 1–50 of 112 matching trials of 224"
    page.keyboard.press("Tab")
    page.keyboard.type("tensorflow/cudnn")
    assert set(column(page, "arm")) == {f"tensorflow/cudnn on {GPU}"}
    page.get_by_role("button", name="Clear filters").press("Enter")
    page.get_by_text("Showing 1–50 of 224 trials").wait_for()
    page.get_by_label("Outcome").select_option("failed")
    assert column(page, "outcome") == ["failed", "failed"]
    page.get_by_label("Text (config, node, run, failure)").fill("15,109 mib")
    assert len(column(page, "arm")) == 2
    page.get_by_label("Text (config, node, run, failure)").fill("no such thing")
    assert count.inner_text() == "None of 224 trials matches"


def test_trials_are_sorted_by_keyboard(open_page: Open) -> None:
    page = open_page(samples.small()).page
    button = page.get_by_role("button", name="step_ms")
    button.press("Enter")
    up = [float(text) for text in column(page, "step_ms")]
    assert up == sorted(up)
    assert page.locator("th[aria-sort=ascending]").inner_text().strip() == "step_ms"
    button.press("Enter")
    down = [float(text) for text in column(page, "step_ms")]
    assert down == sorted(down, reverse=True)
    assert down == up[::-1] != up
    assert page.locator("th[aria-sort=descending]").count() == 1


def test_a_trials_details_show_its_run_config_and_failure(open_page: Open) -> None:
    record = samples.rich()
    failed = next(trial for trial in record.trials if trial.status == "failed")
    page = open_page(record).page
    page.get_by_label("Text (config, node, run, failure)").fill(failed.run_id)
    button = page.get_by_role("button", name="Details of")
    assert button.get_attribute("aria-expanded") == "false"
    button.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    details = page.locator("#trial-table .more").inner_text()
    for text in (failed.run_id, failed.failure_text or "", *map(str, failed.config.values())):
        assert text in details
    button.press("Enter")
    assert page.locator("#trial-table .more").count() == 0


def test_pages_of_trials_are_turned(open_page: Open) -> None:
    page = open_page(samples.rich()).page
    assert page.locator("#trial-table tbody tr").count() == 50
    assert page.get_by_role("button", name="Previous").is_disabled()
    for _ in range(4):
        page.get_by_role("button", name="Next").press("Enter")
    assert page.locator("#trial-count").inner_text() == "Showing 201–224 of 224 trials"
    assert page.get_by_role("button", name="Next").is_disabled()


def test_plotted_series_can_be_chosen_by_keyboard(open_page: Open) -> None:
    page = open_page(samples.small()).page
    bars = page.locator("#figure-phases .plot .mark-rect.role-mark path")
    before = bars.count()
    page.locator("#figure-phases summary").first.press("Enter")
    page.locator("#figure-phases").get_by_label("compile").press("Space")
    expect(bars).to_have_count(before - len(samples.small().arms))
    points = page.locator("#figure-speedups .plot .mark-symbol.role-mark path")
    all_points = points.count()
    page.get_by_label("Hardware in plots").select_option(str(CPU))
    expect(points).not_to_have_count(all_points)
    assert points.count() > 0
    page.get_by_label("Hardware in plots").select_option("")
    expect(points).to_have_count(all_points)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(open_page: Open, scheme: str) -> None:
    """Require a contrast of at least 4.5 to 1 (WCAG 2.2, 1.4.3, 'relative luminance')."""
    page = open_page(samples.small(), color_scheme=scheme).page
    page.locator("#figure-crossover-units summary").last.click()
    weak = page.evaluate((HERE / "contrast.js").read_text())
    assert weak == []


def test_the_theme_follows_the_system_and_the_readers_choice(open_page: Open) -> None:
    page = open_page(samples.small(), color_scheme="dark").page
    dark = paper(page)
    assert max(dark) < 60
    assert plotted(page) == dark
    page.get_by_label("Theme").select_option("light")
    assert paper(page) == plotted(page) == (255, 255, 255)
    page.get_by_label("Theme").select_option("")
    page.emulate_media(color_scheme="light")
    assert paper(page) == plotted(page) == (255, 255, 255)


def paper(page: Page) -> tuple[int, ...]:
    return background(page, "document.documentElement")


def plotted(page: Page) -> tuple[int, ...]:
    return background(page, "document.querySelector('.plot svg')")


def background(page: Page, element: str) -> tuple[int, ...]:
    colour = page.evaluate(f"getComputedStyle({element}).backgroundColor")
    return tuple(map(int, re.findall(r"\d+", colour)[:3]))


def test_a_page_is_printed_light_with_all_details_open(open_page: Open) -> None:
    page = open_page(samples.small(), color_scheme="dark").page
    page.evaluate(
        """() => addEventListener("beforeprint", () => {
            const closed = "figure details:not([open]):not(.shown)";
            window.closed = document.querySelectorAll(closed).length;
        })"""
    )
    pdf = page.pdf(format="A4")
    assert pdf.count(b"/Type /Page") > 3
    assert page.evaluate("window.closed") == 0
    assert page.locator("figure details[open]").count() == 0
    assert max(plotted(page)) < 60
    page.emulate_media(media="print")
    assert plotted(page) == (255, 255, 255)
    assert not page.locator("nav").is_visible()
    assert not page.locator("#trial-filters").is_visible()
    assert page.locator("#figure-speedups .plot").is_visible()


def test_headings_landmarks_labels_and_ids_are_in_order(open_page: Open) -> None:
    page = open_page(samples.small()).page
    structure = page.evaluate((HERE / "structure.js").read_text())
    levels = structure.pop("levels")
    assert levels.index(1) == 0 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert (structure.pop("lang"), structure.pop("landmarks")) == ("en", [1, 1, 1, 1])
    assert structure == {"twice": [], "unnamed": [], "plots": [], "headless": []}


def test_the_keyboard_reaches_every_control_and_the_focus_is_visible(open_page: Open) -> None:
    page = open_page(samples.small()).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for _ in range(25):
        page.keyboard.press("Tab")
        style = page.evaluate("getComputedStyle(document.activeElement).outline")
        assert "solid" in style and "0px" not in style.split()
