"""The JSON format keeps to its published schema: real reports, and degenerate ones."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.criteria import PublishedRow, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Telemetry
from orchestrator.report.formats import json_schema
from orchestrator.report.render import render, summarise
from tests.orchestrator.report.large_sweep import large
from tests.orchestrator.sample_records import CPU, PORTABLE, XLA, paired, sweep, trial

PUBLISHED = Path(json_schema.__file__).with_name("report.schema.json")
VALIDATOR = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text(encoding="utf-8")))
ROW = PublishedRow("a paper", "tensorflow/portable", "Tesla P100", {"units": 64}, {"fit_s": 1.0})
HOSTILE = Arm('名 <script> "quoted" \n \x1b', CPU)


def test_the_published_schema_is_that_of_the_code() -> None:
    """Else: python -m orchestrator.report.formats.json_schema >
    orchestrator/report/formats/report.schema.json
    """
    assert PUBLISHED.read_text(encoding="utf-8") == json_schema.text()
    VALIDATOR.check_schema(VALIDATOR.schema)


@pytest.mark.parametrize(
    "record",
    [
        large(blocks=8, kernels=3),
        replace(large(blocks=7, kernels=2), criteria=ReportCriteria(published=(ROW,))),
        paired(12, lambda block: 0.8 + block / 20),
        sweep([]),
        sweep([], arms=()),
        sweep([trial(PORTABLE, 0)], (PORTABLE,)),
        sweep([trial(arm, 0, status="failed", failure="crash: 11") for arm in (PORTABLE, XLA)]),
        sweep([trial(arm, 0, step_ms=math.nan, energy_j=math.inf) for arm in (PORTABLE, XLA)]),
        sweep([trial(HOSTILE, 0, config={"rate": math.inf, "<b>": "=1"})], (HOSTILE,)),
    ],
)
def test_reports_are_valid(record: SweepRecord) -> None:
    curves = {
        t.run_id: Telemetry(at_s=(1.0, 2.0), curves={"system/x": (None, 3.0)})
        for t in record.trials
    }
    VALIDATOR.validate(json.loads(render(summarise(record, curves=curves), "json")))


def test_the_schema_refuses_what_is_none() -> None:
    content = json.loads(render(summarise(paired(7)), "json"))
    for spoiled in (
        {**content, "version": 1},
        {**content, "trials": None},
        {key: value for key, value in content.items() if key != "crossovers"},
        {**content, "more": 1},
    ):
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(spoiled)
