"""Error rates of verdicts and stopping rules on simulated sweeps with the noise of real trials."""

from __future__ import annotations

from tests.benchmarks.trusting import adaptive, synthetic
from tests.profiles import draws


def test_equal_arms_differ_as_rarely_as_promised() -> None:
    findings = synthetic.run(draws(60, 400))
    assert [finding.kept for finding in findings] == [True, True], findings


def test_the_check_detects_arms_that_differ() -> None:
    findings = synthetic.run(60, speeds=(1.0, 1 / 1.3))
    assert [finding.kept for finding in findings] == [False, False], findings


def test_sweeps_that_stop_when_precise_are_unbiased() -> None:
    for finding in adaptive.stopping(draws(60, 400)):
        assert finding.kept, finding
