"""Prints where the metrics grad_norm and steps_per_s appear, which `test_metric` adds."""

import json

import workloads
from orchestrator.analysis.summary import summarise
from orchestrator.cli import reference
from orchestrator.report.best.chosen import choose
from orchestrator.report.query import query_records
from orchestrator.report.render import render
from orchestrator.spec import parse_spec, spec_schema
from tests.building.arms import PORTABLE
from tests.building.records import build_record
from tests.building.trials import build_trial

SPEC = """
name: a-metric
workload: image_rows
settings: {dataset: digits}
search: {configs: 2, space: {units: [8, 16]}, objectives: {grad_norm: minimize}}
arms: {implementations: [tensorflow/portable], hardware: [cpu]}
"""


def main() -> None:
    trials = [build_trial(block, PORTABLE, step_ms=4.0, grad_norm=0.25 + block) for block in (0, 1)]
    record = build_record(trials, (PORTABLE,))
    summary = summarise(record)
    rule = spec_schema.spec_schema()["allOf"][0]["then"]["properties"]["search"]["properties"]
    observed = {
        "place": workloads.__file__,
        "objectives": list(parse_spec(SPEC, source="a test").search.objectives),
        "schema": rule["objectives"]["properties"]["grad_norm"]["description"],
        "pages": [
            page for page, text in reference.generated_parts().items() if "grad_norm" in text
        ],
        "direction": choose(record, "grad_norm").direction,
        "titles": [measure.title for measure in (*summary.measures, *summary.expenses)],
        "report": render(summary, "text", full=True),
        "steps_per_s": summary.arms[0].measures["steps_per_s"].median,
        "rows": query_records(record, "grad_norm < 1", ["grad_norm"])["grad_norm"].tolist(),
        "possible": len(
            query_records(build_record([build_trial(0, PORTABLE)]), "grad_norm IS NULL")
        ),
    }
    print(json.dumps(observed))


if __name__ == "__main__":
    main()
