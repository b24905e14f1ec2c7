"""A section and a chart of another package: the example of docs/adding/report_section.md, run."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.report.charts import CHARTS, charts_of
from orchestrator.report.formats.images import draw
from orchestrator.report.render import render
from orchestrator.report.sections.document import SECTIONS, document
from tests.building.arms import PORTABLE, XLA
from tests.building.large_records import build_small_record
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_trial
from tests.documents import ROOT, blocks

PAGE = ROOT / "docs" / "adding" / "report_section.md"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """The names that the page's code defines."""
    names: dict[str, Any] = {}
    for _, code in blocks("python", PAGE):
        exec(code, names)
    return names


@pytest.fixture(scope="module")
def summary() -> ReportSummary:
    retried = build_trial(1, XLA, attempt=2)
    return summarise(
        build_record(
            [build_trial(0, PORTABLE), build_trial(0, XLA), build_trial(1, PORTABLE), retried]
        )
    )


def test_a_foreign_section_is_in_its_part_and_explained_at_the_end(
    example: dict[str, Any], summary: ReportSummary
) -> None:
    sections = (*SECTIONS, example["RETRIES"])
    *_, added, reading = document(summary, sections).sections
    assert (added.key, added.part) == ("retries", "trust")
    assert added.tables[0].rows == (("tensorflow/portable+xla", "1"),)
    assert any(text.startswith("Retries: A retried trial") for text in reading.paragraphs)
    for form in ("text", "markdown"):
        text = render(summary, form, full=True, sections=sections)
        assert "retried trials" in text
    assert "retried trials" not in render(summary, "text", full=True)


def test_a_foreign_section_without_content_is_left_out(example: dict[str, Any]) -> None:
    summary = summarise(build_paired_record(7))
    assert len(document(summary, (*SECTIONS, example["RETRIES"])).sections) == len(
        document(summary).sections
    )
    assert [*example["retry_bars"](summary, str, {})] == []


def test_a_foreign_chart_is_on_the_page_below_its_section_and_in_a_file(
    example: dict[str, Any], summary: ReportSummary, tmp_path: Path
) -> None:
    page = example["page"](
        build_record(
            [
                build_trial(0, PORTABLE),
                build_trial(0, XLA),
                build_trial(1, PORTABLE),
                build_trial(1, XLA, attempt=2),
            ]
        )
    )
    section, _, rest = page.partition("<h3>Retries</h3>")
    assert 'id="figure-retries"' in rest.partition("<h3>")[0]
    assert 'id="figure-retries"' not in section
    drawn = draw(summary, tmp_path, (example["retry_bars"],))
    assert [path.name for path in drawn] == ["retries.png", "retries.svg"]
    assert charts_of(summary, (*CHARTS, example["retry_bars"]))[-1].key == "retries"


def test_the_keys_of_sections_are_unique_and_charts_refer_to_them() -> None:
    keys = [section.key for section in SECTIONS]
    assert len(set(keys)) == len(keys)
    assert {chart.section for chart in charts_of(summarise(build_small_record()))} <= set(keys)
