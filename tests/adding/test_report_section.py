"""A part and a chart of another package (`retries`) are in the report, on the page and in files."""

from pathlib import Path

import pytest

from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.report.charts import CHARTS, charts_of
from orchestrator.report.document import PARTS
from orchestrator.report.formats.images import draw
from orchestrator.report.names import arm_names
from orchestrator.report.parts import PARTS_OF_A_REPORT, full_report
from orchestrator.report.render import render
from tests.adding.retries import page, retries_part, retry_bars
from tests.building.arms import PORTABLE, XLA
from tests.building.large_records import build_small_record
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_trial


@pytest.fixture(scope="module")
def summary() -> ReportSummary:
    retried = build_trial(1, XLA, attempt=2)
    return summarise(
        build_record(
            [build_trial(0, PORTABLE), build_trial(0, XLA), build_trial(1, PORTABLE), retried]
        )
    )


def test_a_part_of_another_package_is_in_text_and_markdown(summary: ReportSummary) -> None:
    builders = {**PARTS_OF_A_REPORT, "retries": retries_part}
    *_, added = full_report(summary, builders=builders).sections
    assert added.part == "retries"
    assert added.tables[0].rows == (("tensorflow/portable+xla", "1"),)
    for form in ("text", "markdown"):
        assert "retried trials" in render(summary, form, full=True, builders=builders)
    assert "retried trials" not in render(summary, "text", full=True)


def test_a_part_of_another_package_without_figures_is_left_out() -> None:
    summary = summarise(build_paired_record(7))
    builders = {**PARTS_OF_A_REPORT, "retries": retries_part}
    assert full_report(summary, builders=builders) == full_report(summary)
    assert [*retry_bars(summary, arm_names(summary), {})] == []


def test_a_foreign_chart_is_on_the_page_below_its_part_and_in_a_file(
    summary: ReportSummary, tmp_path: Path
) -> None:
    html = page(
        build_record(
            [
                build_trial(0, PORTABLE),
                build_trial(0, XLA),
                build_trial(1, PORTABLE),
                build_trial(1, XLA, attempt=2),
            ]
        )
    )
    others, _, retries = html.partition('id="retries"')
    assert 'id="figure-retries"' in retries.partition("</section>")[0]
    assert 'id="figure-retries"' not in others
    drawn = draw(summary, tmp_path, (retry_bars,))
    assert [path.name for path in drawn] == ["retries.png", "retries.svg"]
    assert charts_of(summary, (*CHARTS, retry_bars))[-1].key == "retries"


def test_charts_refer_to_parts() -> None:
    charts = charts_of(summarise(build_small_record()))
    assert {chart.section for chart in charts} <= set(PARTS_OF_A_REPORT) == set(PARTS)
