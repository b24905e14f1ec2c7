"""Prints the section and the chart of retried trials, which `test_built_in_section` adds."""

import json

from orchestrator.analysis.summary import summarise
from orchestrator.report.charts import charts_of
from orchestrator.report.render import render
from orchestrator.report.sections import document as module
from tests.building.arms import PORTABLE, XLA
from tests.building.records import build_record
from tests.building.trials import build_trial


def main() -> None:
    trials = [build_trial(block, arm) for block in (0, 1) for arm in (PORTABLE, XLA)]
    summary = summarise(build_record([*trials[:-1], build_trial(1, XLA, attempt=2)]))
    sections = {section.key: section for section in module.document(summary).sections}
    observed = {
        "place": module.__file__,
        "section": sections["retries"].title,
        "chart": next(chart.key for chart in charts_of(summary) if chart.section == "retries"),
        "in text": "retried trials" in render(summary, "text", full=True),
    }
    print(json.dumps(observed))


if __name__ == "__main__":
    main()
