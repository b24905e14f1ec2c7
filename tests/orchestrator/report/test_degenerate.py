"""Reports of degenerate sweeps: every format renders them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any, get_args

import pytest

from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.criteria import PublishedRow, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import EpochRecord, FinishedTrial, ImpossibleArm
from orchestrator.report.brief import to_short_markdown
from orchestrator.report.render import ReportFormat, render, summarise
from tests.orchestrator.report.large_sweep import large
from tests.orchestrator.sample_hardware import in_slices, on_cpu
from tests.orchestrator.sample_records import CPU, PORTABLE, XLA, sweep, trial

HOSTILE = "<script>alert(1)</script> | `x` \x1b[31m [a](http://b) =cmd"
SLICED = tuple(Arm(name, in_slices(CPU)) for name in ("torch/fused", "tensorflow/portable"))


def several(**changes: Any) -> list[FinishedTrial]:
    return [trial(arm, block, **changes) for block in range(7) for arm in (PORTABLE, XLA)]


def hostile() -> SweepRecord:
    arms = (Arm(f"a/{HOSTILE}", on_cpu(HOSTILE)), Arm(f"b/{HOSTILE}", on_cpu(HOSTILE)))
    trials = [
        trial(
            arm,
            block,
            config={HOSTILE: block + 1, "text": HOSTILE},
            run_id=f"{HOSTILE}{block}",
            node=HOSTILE,
            metrics={HOSTILE: 1.0, "step_ms": 10.0 + place, "val_accuracy": 0.5},
            energy_scope=HOSTILE,
            disturbance={HOSTILE: 1.0},
            epochs=(EpochRecord(0, 1.0, 1.0, {HOSTILE: 1.0, "val_accuracy": 0.5}),),
            failure=HOSTILE,
        )
        for block in range(8)
        for place, arm in enumerate(arms)
    ]
    row = PublishedRow(HOSTILE, arms[0].implementation, HOSTILE, {HOSTILE: HOSTILE}, {HOSTILE: 1.0})
    return sweep(
        trials,
        arms,
        name=HOSTILE,
        workload=HOSTILE,
        environment={HOSTILE: HOSTILE},
        impossible=(ImpossibleArm(RequestedArm(arms[0].implementation, HOSTILE), HOSTILE),),
        criteria=ReportCriteria(published=(row,)),
    )


RECORDS = {
    "no trial": sweep([]),
    "no arm": sweep([], arms=()),
    "one arm": sweep([trial(PORTABLE, block) for block in range(7)], (PORTABLE,)),
    "one block": sweep([trial(PORTABLE, 0), trial(XLA, 0)]),
    "all failed": sweep(several(status="failed", failure="crash: signal 11", metrics={})),
    "all wrong": sweep(several(status="wrong_kernel")),
    "no metric": sweep(several(metrics={})),
    "no number": sweep(several(step_ms=math.nan, val_accuracy=math.inf, train_s=-math.inf)),
    "zeros": sweep(several(step_ms=0.0, energy_j=0.0, energy_per_sample_j=0.0, train_cost_usd=0.0)),
    "no config": sweep(several(config={})),
    "only timed": sweep([trial(a, b, val_accuracy=None) for b in range(7) for a in SLICED], SLICED),
    "all disturbed": sweep(several(disturbance={"other_processes": 90.0})),
    "no common block": sweep([trial(PORTABLE, 0), trial(XLA, 1)]),
    "no objective": replace(sweep(several()), objectives={}),
    "hostile": hostile(),
}


@pytest.mark.parametrize("format", get_args(ReportFormat))
@pytest.mark.parametrize("name", RECORDS)
def test_every_format_renders(name: str, format: ReportFormat) -> None:
    summary = summarise(RECORDS[name])
    report = render(summary, format)
    assert report.endswith("\n")
    assert "\x1b" not in report or format == "csv"  # CSV is data and is not escaped
    if format == "text":
        assert all(len(line) <= 100 for line in report.splitlines() if line.isascii())
        assert not re.search(r"\bnan\b", report.replace("others", ""))
    if format == "json":
        json.loads(report, parse_constant=pytest.fail)
    if format == "markdown":
        short = to_short_markdown(summary, 2000)
        assert len(short) <= 2000
        assert "<script>" not in short
    if format in ("markdown", "html"):
        assert "<script>alert" not in report


# the short report


@pytest.mark.parametrize("limit", [600, 1500, 3000, 8000])
@pytest.mark.parametrize("kernels", [2, 10])
def test_the_short_report_keeps_its_limit_and_names_the_full_report(
    kernels: int, limit: int
) -> None:
    report = to_short_markdown(summarise(large(blocks=8, kernels=kernels)), limit, "report.html")
    assert len(report) <= limit
    assert report.startswith("# Sweep quickstart: image")
    assert report.endswith("The full report is in report.html.\n")
    if limit >= 1500:
        assert "## Verdict\n\n- " in report
    if limit == 8000:
        assert "## Validity in short" in report
        assert "| arm | speed-up (95 %)" in report
