"""A config that a sweep did not run, asked of its record in the store."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.analysis.cost_model import NotPredicted
from orchestrator.api import predict
from orchestrator.storage.tracking import SweepNotFound
from tests.orchestrator.sample_sweeps import PORTABLE, XLA, finished, fresh_home
from tests.orchestrator.storage.tracking.recording import record

CONFIG = {"units": 37, "layers": 2, "learning_rate": 1e-3, "bidirectional": False}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose store has a sweep of 32 to 43 units on two arms; XLA takes half the time."""
    made = fresh_home(tmp_path_factory.mktemp("prediction"))
    trials = []
    for block in range(12):
        started_s = 1.7e9 + 60 * block
        for arm, seconds in ((PORTABLE, 20.0 + block), (XLA, 10.0 + block / 2)):
            metrics = {"step_ms": seconds / 4, "peak_rss_mib": 400.0 + block}
            trial = finished(block, arm)
            outcome = replace(
                trial.outcome,
                started_s=started_s,
                ended_s=started_s + seconds,
                metrics=metrics,
                trainer_trials=0,
            )
            trials.append(replace(trial, outcome=outcome))
    record(made, *trials)
    return made


@pytest.fixture(autouse=True)
def home(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That home, for who asks."""
    monkeypatch.setenv("RNNSWEEP_HOME", str(recorded))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_time_and_memory_are_reported_of_each_arm() -> None:
    predictions = {
        (expectation.arm, expectation.target): expectation
        for expectation in predict("quickstart", CONFIG)
    }
    assert len(predictions) == 2 * 5
    for arm, target, truth in (
        (PORTABLE, "trial_s", 25.0),
        (XLA, "trial_s", 12.5),
        (XLA, "step_ms", 12.5 / 4),
        (PORTABLE, "peak_rss_mib", 405.0),
    ):
        prediction = predictions[arm, target]
        assert prediction.value == pytest.approx(truth, rel=0.05)
        assert prediction.low is not None
        assert prediction.value is not None
        assert prediction.high is not None
        assert prediction.low <= prediction.value <= prediction.high
        assert prediction.reason is None
    energy = predictions[XLA, "energy_j"]
    assert (energy.value, energy.low, energy.high) == (None, None, None)
    assert energy.reason == (
        "energy_j: expected complete trials of at least 5 configs to learn from, received 0"
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**CONFIG, "units": 200}, "units 200 is too far from 32 to 43, which were measured"),
        ({**CONFIG, "units": math.nan}, "units nan is too far from 32 to 43"),
        ({**CONFIG, "unit": 37}, "no trial had unit 37"),
        ({**CONFIG, "layers": 3}, "every trial had layers 2, none 3"),
        ({**CONFIG, "cell": "gru"}, 'every trial had cell "lstm", none "gru"'),
        ({"layers": 2}, "units is missing; 32 to 43 were measured"),
    ],
)
def test_what_the_sweep_cannot_show_is_refused(config: dict[str, object], message: str) -> None:
    (prediction,) = predict("quickstart", config, str(XLA), ["step_ms"])  # type: ignore[arg-type]
    assert prediction.value is None
    assert prediction.reason is not None
    assert prediction.reason.startswith(f"step_ms of {XLA}: ")
    assert message in prediction.reason


def test_questions_that_are_none() -> None:
    with pytest.raises(NotPredicted, match=r"expected an arm of it \(.*\); got 'jax/portable'"):
        predict("quickstart", CONFIG, "jax/portable")
    with pytest.raises(NotPredicted, match=r"expected of trial_s, .*; received 'accuracy'"):
        predict("quickstart", CONFIG, targets=["accuracy"])
    with pytest.raises(SweepNotFound):
        predict("slowstart", CONFIG)
