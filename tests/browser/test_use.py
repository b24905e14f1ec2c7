"""Use of the HTML report: by keyboard, with a screen reader, in dark mode, on paper."""

import re
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from orchestrator.analysis.pairing.pairs import PairedTimes
from orchestrator.analysis.statistics.estimates import exponential, t_interval
from orchestrator.report.render import render, summarise
from orchestrator.report.wording import arm_names
from tests.browser.conftest import Open
from tests.building.arms import CPU, GPU
from tests.building.large_records import build_rich_record, build_small_record

pytestmark = pytest.mark.full

HERE = Path(__file__).parent
_COLUMNS = ("arm", "config", "outcome", "val_accuracy", "step_ms", "train_s", "block", "repeat")


def column(page: Page, name: str) -> list[str]:
    place = _COLUMNS.index(name)
    cells = "row => [...row.cells].map(cell => cell.innerText)"
    rows = page.evaluate(f"[...document.querySelectorAll('#trial-table tbody tr')].map({cells})")
    return [row[place] for row in rows]


def test_filters_act_on_trials_tables_and_plots(open_page: Open) -> None:
    record = build_rich_record()
    page = open_page(record).page
    count = page.locator("#trial-count[role=status]")
    points = page.locator("#figure-speedups .plot .mark-symbol.role-mark path")
    expect(points).to_have_count(7)
    page.get_by_label("Hardware", exact=True).focus()
    page.keyboard.type("NVIDIA")
    expect(count).to_have_text("Showing 1–50 of 112 matching trials of 224")
    expect(points).to_have_count(4)
    name = arm_names(summarise(record))
    own = {name(arm) for arm in record.arms if arm.hardware == GPU}
    assert set(column(page, "arm")) == own
    heads = page.locator("main tbody th[scope=row]:visible").all_inner_texts()
    assert own <= set(heads)
    assert not {name(arm) for arm in record.arms if arm.hardware == CPU} & set(heads)
    page.keyboard.press("Tab")
    page.keyboard.type("tensorflow/cudnn")
    expect(count).to_have_text("Showing 1–28 of 28 matching trials of 224")
    page.get_by_role("button", name="Clear filters").press("Enter")
    expect(count).to_have_text("Showing 1–50 of 224 trials")
    for _ in range(4):
        page.get_by_role("button", name="Next").press("Enter")
    expect(count).to_have_text("Showing 201–224 of 224 trials")
    assert page.get_by_role("button", name="Next").is_disabled()
    page.get_by_label("Outcome").select_option("failed")
    expect(count).to_have_text("Showing 1–2 of 2 matching trials of 224")
    page.get_by_label("Text (config, node, run, failure)").fill("no such thing")
    expect(count).to_have_text("None of 224 trials matches")


def test_a_range_of_configs_recalculates_speedups(open_page: Open) -> None:
    """Compare with the estimate of Python; without enough blocks for a verdict, there is none."""
    record = build_rich_record()
    page = open_page(record).page
    front = page.locator("[id^=figure-pareto] .mark-symbol.role-mark path")
    before = front.count()
    page.get_by_label("units to").fill("48")
    page.wait_for_selector("html[data-configs][data-drawn]", state="attached")
    blocks = {trial.block for trial in record.trials if int(trial.config["units"]) <= 48}
    comparison = summarise(record).comparisons[0]
    chosen = [pair for pair in comparison.pairs if pair.block in blocks]
    estimate = exponential(t_interval(PairedTimes(tuple(chosen)).log_ratios, 0.95))
    assert estimate is not None
    texts = page.locator("#figure-speedups .plot svg text").all_text_contents()
    label = texts[texts.index(str(comparison.arm)) + len(record.arms) - 1]
    assert label.endswith(f"{len(chosen)} of {len(comparison.pairs)} blocks")
    shown = [float(figure) for figure in re.findall(r"[0-9.]+", label)][:3]
    assert shown == pytest.approx([estimate.value, estimate.low, estimate.high], rel=0.01)
    assert front.count() < before
    badge = "getComputedStyle(document.querySelector('#title-phases'), '::after').content"
    assert "over all configs" in page.evaluate(badge)


def test_the_csv_has_the_chosen_trials_as_report_writes_them(open_page: Open) -> None:
    record = build_rich_record()
    page = open_page(record).page
    page.get_by_label("Hardware", exact=True).select_option(str(GPU))
    page.get_by_label("units to").fill("48")
    page.get_by_label("Outcome").select_option("complete")
    report = pd.read_csv(StringIO(render(summarise(record), "csv")))
    chosen = report[report["hardware"].eq(str(GPU)) & report["units"].le(48)]
    chosen = chosen[chosen["outcome"].eq("complete")].reset_index(drop=True)
    button = page.get_by_role("button", name="Download CSV").first
    expect(button).to_have_text(f"Download CSV ({len(chosen)} trials)")
    with page.expect_download() as download:
        button.press("Enter")
    assert download.value.suggested_filename == "quickstart.csv"
    written = pd.read_csv(download.value.path())
    pd.testing.assert_frame_equal(written, chosen, rtol=1e-5, check_dtype=False)


def test_trials_are_sorted_by_keyboard(open_page: Open) -> None:
    page = open_page(build_small_record()).page
    button = page.get_by_role("button", name="step_ms")
    button.press("Enter")
    up = [float(text) for text in column(page, "step_ms")]
    assert up == sorted(up)
    assert page.locator("th[aria-sort=ascending]").inner_text().strip() == "step_ms"
    button.press("Enter")
    assert [float(text) for text in column(page, "step_ms")] == up[::-1] != up
    assert page.locator("th[aria-sort=descending]").count() == 1


def test_a_trials_details_show_its_run_config_and_failure(open_page: Open) -> None:
    record = build_rich_record()
    failed = next(trial for trial in record.trials if trial.status == "failed")
    page = open_page(record).page
    page.get_by_label("Text (config, node, run, failure)").fill(failed.run_id)
    button = page.get_by_role("button", name="Details of")
    assert button.get_attribute("aria-expanded") == "false"
    button.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    details = page.locator("#trial-table .more").inner_text()
    failure = failed.failure.text if failed.failure else ""
    for text in (failed.run_id, failure, *map(str, failed.config.values())):
        assert text in details
    button.press("Enter")
    assert page.locator("#trial-table .more").count() == 0


def test_plotted_series_can_be_chosen_by_keyboard(open_page: Open) -> None:
    page = open_page(build_small_record()).page
    bars = page.locator("#figure-phases .plot .mark-rect.role-mark path")
    before = bars.count()
    page.locator("#figure-phases summary").first.press("Enter")
    page.locator("#figure-phases").get_by_label("compile").press("Space")
    expect(bars).to_have_count(before - len(build_small_record().arms))


def test_the_theme_follows_the_system_and_the_readers_choice(open_page: Open) -> None:
    page = open_page(build_small_record(), color_scheme="dark").page
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
    page = open_page(build_small_record(), color_scheme="dark").page
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
    for absent in ("nav", "#filters", "#trial-filters", ".download"):
        assert not page.locator(absent).first.is_visible()
    assert page.locator("#figure-speedups .plot").is_visible()


def test_headings_landmarks_labels_and_ids_are_in_order(open_page: Open) -> None:
    page = open_page(build_small_record()).page
    structure = page.evaluate((HERE / "structure.js").read_text())
    levels = structure.pop("levels")
    assert levels.index(1) == 0 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert (structure.pop("lang"), structure.pop("landmarks")) == ("en", [1, 1, 1, 1])
    assert structure == {"twice": [], "unnamed": [], "plots": [], "headless": []}


def test_the_keyboard_reaches_every_control_and_the_focus_is_visible(open_page: Open) -> None:
    page = open_page(build_small_record()).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator(".skip").focus()
    parts = {
        "theme": "#theme",
        "contents": "nav a",
        "filters": "#filters input",
        "csv": ".download",
    }
    parts |= {"details": "main summary"}
    reached = list[str]()
    for _ in range(40):
        page.keyboard.press("Tab")
        style = page.evaluate("getComputedStyle(document.activeElement).outline")
        assert "solid" in style and "0px" not in style.split()
        matches = "query => document.activeElement.matches(query)"
        reached += [name for name, query in parts.items() if page.evaluate(matches, query)]
    assert list(dict.fromkeys(reached)) == list(parts)


def test_contents_and_filters_are_closed_panels_of_a_small_screen(open_page: Open) -> None:
    page = open_page(build_small_record(), viewport={"width": 360, "height": 740}).page
    contents, filters = page.locator("nav .panel"), page.locator("#filters .panel")
    assert not contents.is_visible() and not filters.is_visible()
    page.locator(".side summary").first.press("Enter")
    page.locator(".side summary").last.press("Enter")
    expect(contents).not_to_be_visible()
    assert filters.is_visible()
    page.keyboard.press("Escape")
    assert not filters.is_visible()
    page.locator(".side summary").first.press("Enter")
    page.get_by_role("link", name="Can I trust it?").press("Enter")
    expect(contents).not_to_be_visible()
    expect(page.get_by_role("heading", name="Can I trust it?")).to_be_in_viewport()
