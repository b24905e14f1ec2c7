"""MLflow's own UI on a sweep's store, opened by the link that `rnnsweep ui` prints."""

import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from orchestrator.report.formats.tracker_values import to_metrics
from orchestrator.report.render import render, summarise, to_short_markdown
from orchestrator.storage.tracking.limits import ANSWER_LIMIT
from orchestrator.storage.tracking.reader import read_stored_sweep
from orchestrator.storage.tracking.stored_records import Answer
from tests.browser.conftest import PATIENCE_MS, printed_link
from tests.building.arms import PORTABLE, XLA
from tests.building.stores import build_home, build_opening, mlflow_address
from tests.building.trials import build_full_trial
from tests.commands import wait_for
from tests.integration.sweeping import Home, free_port
from tests.orchestrator.storage.tracking.recording import writer

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    path = build_home(tmp_path_factory.mktemp("ui"))
    with writer(path) as opened:
        opened.open(build_opening())
        opened.record(
            [build_full_trial(block, arm) for block in range(4) for arm in (PORTABLE, XLA)]
        )
        summary = summarise(read_stored_sweep(mlflow_address(path), "quickstart"))
        texts = {"report.html": render(summary, "html")}
        answer = Answer(to_short_markdown(summary, ANSWER_LIMIT), to_metrics(summary), {})
        opened.close("complete", texts, answer)
    return Home(path)


@pytest.fixture(scope="module")
def served(home: Home) -> Iterator[str]:
    with home.running("ui", "--port", free_port()) as command:
        yield wait_for(lambda: printed_link(command, "quickstart"), describe=command.printed)
        command.send_signal(signal.SIGHUP)
        command.done().expect(0)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1800, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def test_the_printed_link_shows_the_trials_by_arm(served: str, page: Page) -> None:
    page.goto(served)
    for arm in (PORTABLE, XLA):
        expect(page.get_by_text(f"Group: {arm}", exact=True)).to_be_visible()
    expect(page.get_by_text("lstm 32×2", exact=False).first).to_be_visible()
    columns = page.locator("[role=columnheader][col-id]")
    expect(columns.filter(has_text="val_accuracy")).to_be_visible()
    placed = {
        header.get_attribute("col-id"): int(header.get_attribute("aria-colindex") or 0)
        for header in columns.all()
    }
    shown = sorted(placed, key=placed.__getitem__)  # their order in the page is arbitrary
    assert shown.index("metrics.`val_accuracy`") < shown.index("metrics.`step_ms`")
    assert "attributes.`Source`" not in shown  # part of MLflow's default view


def test_the_charts_have_a_dot_per_trial(served: str, page: Page) -> None:
    page.goto(f"{served}&compareRunsMode=CHART")
    expect(page.get_by_text("Sizes: a dot per trial")).to_be_visible()
    expect(page.get_by_text("Model training")).to_be_visible()
    expect(page.get_by_text("Time against what was learned: a dot per trial")).to_be_visible()
    for place in (1, -1):  # of sizes, and of what the arms differ in
        chart = page.locator(".js-plotly-plot:has(.scatterlayer)").nth(place)
        chart.scroll_into_view_if_needed()
        expect(chart.locator(".scatterlayer .point")).to_have_count(8)


def test_a_click_in_the_list_of_experiments_finds_the_trials(served: str, page: Page) -> None:
    page.goto(served.partition("experiments/")[0] + "experiments")
    page.get_by_role("link", name="quickstart").first.click()
    page.get_by_role("button", name="Got it").click()  # MLflow's advice on traces covers the page
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Trials", exact=True).first.click()
    expect(opened.value.get_by_text(f"Group: {PORTABLE}", exact=True)).to_be_visible()


def test_the_sweeps_run_has_its_report(served: str, home: Home, page: Page) -> None:
    sweep = read_stored_sweep(mlflow_address(home.path), "quickstart")
    run = f"{served.partition('?')[0]}/{sweep.run_id}"
    page.goto(run)
    expect(page.get_by_role("columnheader", name="speed-up")).to_be_visible()
    expect(page.get_by_text("digits", exact=False).first).to_be_visible()
    page.goto(f"{run}/artifacts/report.html")
    report = page.frame_locator("iframe")
    expect(report.get_by_role("heading", name="quickstart ·")).to_be_visible()
    expect(report.locator(".plot svg.marks").first).to_be_visible()  # its scripts may run there
