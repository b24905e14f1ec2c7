"""Test values that are derived from trial records: finite values and energy scopes."""

from __future__ import annotations

import math

import pytest

from orchestrator.analysis.measures import finite, scopes_of
from orchestrator.core.trial import EpochRecord
from tests.orchestrator.sample_records import PORTABLE, trial

EPOCHS = (EpochRecord(0, 1.0), EpochRecord(1, 3.0))


@pytest.mark.parametrize(
    ("metric", "values"), [("step_ms", [3.0, 1.0]), ("epoch_s", [2.0]), ("fit_s", [9.0])]
)
def test_absent_and_non_finite_values_are_excluded(metric: str, values: list[float]) -> None:
    trials = [
        trial(PORTABLE, 0, step_ms=3.0, train_s=8.0, validate_s=1.0),
        trial(PORTABLE, 1, step_ms=math.nan, train_s=math.inf),
        trial(PORTABLE, 2, step_ms=None, epochs=EPOCHS),
        trial(PORTABLE, 3, step_ms=1.0),
    ]
    assert finite(trials, metric) == values


def test_scopes_are_those_of_complete_trials_with_an_energy() -> None:
    trials = [
        trial(PORTABLE, 0, energy_j=1.0, mean_power_w=2.0, energy_scope="gpu"),
        trial(PORTABLE, 1, energy_j=1.0, energy_scope="gpu+cpu_package"),
        trial(PORTABLE, 2, energy_scope="cpu_package"),
        trial(PORTABLE, 3, status="wrong_kernel", energy_j=1.0, energy_scope="another"),
    ]
    assert scopes_of(trials) == {"gpu", "gpu+cpu_package"}
    assert scopes_of(trials, ("step_ms", "mean_power_w")) == {"gpu"}
    assert scopes_of(trials, ("step_ms",)) == set()
    assert scopes_of([trial(PORTABLE, 0, energy_j=1.0)]) == {""}  # as the workload reported it
