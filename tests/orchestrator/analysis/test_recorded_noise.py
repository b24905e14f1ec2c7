"""Error rates of verdicts and stopping rules on simulated sweeps with the noise of real trials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.benchmarks.trusting import adaptive, synthetic
from tests.orchestrator.sample_records import changed


def test_equal_arms_differ_as_rarely_as_promised() -> None:
    findings = synthetic.run(60)
    assert [finding.kept for finding in findings] == [True, True], findings


def test_the_check_detects_arms_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a second arm 30 % slower, the intervals exclude 1 and the verdicts are differences."""
    equal_sweep = synthetic.made

    def unequal_sweep(*arguments: Any) -> Any:
        record = equal_sweep(*arguments)
        trials = [
            changed(trial, metrics={"step_ms": 1.3 * trial.metrics["step_ms"]})
            if "again" in trial.arm.implementation
            else trial
            for trial in record.trials
        ]
        return replace(record, trials=tuple(trials))

    monkeypatch.setattr(synthetic, "made", unequal_sweep)
    findings = synthetic.run(60)
    assert [finding.kept for finding in findings] == [False, False], findings
    assert findings[0].text().startswith("BROKEN synthetic: at least")


def test_sweeps_that_stop_when_precise_are_unbiased() -> None:
    for finding in adaptive.stopping(60):
        assert {"blocks", "turns"} & set(finding.details[0].replace(",", "").split())
        assert finding.kept, finding
