"""Test predictions for configs that were not measured."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from orchestrator.analysis.cost_model import (
    Expectation,
    MeasuredTrial,
    NotPredicted,
    fit,
    observe,
    predict_from,
    trial_seconds,
)
from orchestrator.core.arms import Arm, Usage, Variant
from orchestrator.core.trial import Config, FinishedTrial
from tests.building.arms import ARMS_OF_CELLS, PORTABLE, XLA
from tests.building.hardware import build_cpu_use, build_timing_use
from tests.building.records import build_paired_record, build_record
from tests.building.trials import (
    build_failed_trial,
    build_full_trial,
    build_timed_trials,
    build_trial,
)

ARMS = (PORTABLE, XLA)


def true_seconds(config: Config, arm: Arm) -> float:
    start, growth = (2.0, 1.0) if arm == PORTABLE else (6.0, 0.8)
    return start * float(config["layers"]) * (float(config["units"]) / 64) ** growth


def drawn(count: int, seed: int = 0, noise: float = 0.05) -> list[MeasuredTrial]:
    rng = random.Random(seed)
    configs: list[Config] = [
        {"units": round(math.exp(rng.uniform(math.log(16), math.log(256)))), "layers": 1 + i % 3}
        for i in range(count)
    ]
    return [
        MeasuredTrial(c, arm, {"trial_s": true_seconds(c, arm) * rng.lognormvariate(0, noise)})
        for c in configs
        for arm in ARMS
    ]


def predicted(shown: Sequence[MeasuredTrial], config: Config, arm: Arm = PORTABLE) -> Expectation:
    (expectation,) = fit(shown, "trial_s").predict([(config, arm)])
    return expectation


def test_sizes_that_were_not_measured_are_predicted_within_their_interval() -> None:
    shown = drawn(40)
    model = fit(shown, "trial_s")
    hidden = [
        observation
        for observation in drawn(60, seed=1)
        if 20 < float(observation.params["units"]) < 240
    ]
    expected = model.predict([(observation.params, observation.arm) for observation in hidden])
    assert (model.method, model.configs) == ("ridge", 40)
    errors, inside = [], []
    for observation, expectation in zip(hidden, expected, strict=True):
        value, low, high = expectation.value, expectation.low, expectation.high
        assert value is not None and low is not None and high is not None
        errors.append(abs(value / true_seconds(observation.params, observation.arm) - 1))
        inside.append(low <= observation.took["trial_s"] <= high)
    assert np.median(errors) < 0.05
    assert 0.8 < np.mean(inside) <= 1
    assert model.median_error == pytest.approx(0.04, abs=0.02)
    few = [o for o in shown if o.arm == PORTABLE] + [o for o in shown if o.arm == XLA][:3]
    config: Config = {"units": 200, "layers": 3}  # an arm with few trials borrows the slopes
    assert predicted(few, config, XLA).value == pytest.approx(true_seconds(config, XLA), rel=0.3)


def test_the_median_is_used_where_sizes_explain_nothing() -> None:
    rng = random.Random(5)
    noise = [
        replace(observation, took={"trial_s": rng.lognormvariate(0, 1)})
        for observation in drawn(12)
    ]
    assert fit(noise, "trial_s").method == "medians"
    for arm in ARMS:
        values = [
            math.log(observation.took["trial_s"]) for observation in noise if observation.arm == arm
        ]
        expectation = predicted(noise, {"units": 64, "layers": 2}, arm)
        assert expectation.value == pytest.approx(math.exp(np.median(values)))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"units": 3000}, "units: expected 32 to 244, as measured; received 3000"),
        ({"units": float("nan")}, "units: expected 32 to 244, as measured; received NaN"),
        ({"units": None}, "units: expected 32 to 244, as measured; received nothing"),
        ({"unit": 37}, "unit: no trial had such a parameter"),
        ({"epochs": 3}, "epochs: expected 2, as measured; received 3"),
        ({"cell": "rnn"}, 'cell: expected "gru" or "lstm", as measured; received "rnn"'),
        ({"cell": None}, 'cell: expected "gru" or "lstm", as measured; received nothing'),
        ({"epochs": None}, None),
        ({"dropout": 0.25}, None),
    ],
)
def test_what_is_outside_of_the_measured_ranges_is_refused(
    config: dict[str, Any], reason: str | None
) -> None:
    cells: list[Config] = [{"cell": "gru"}, {"cell": "lstm", "dropout": 0.2}]
    shown = [
        replace(
            observation, params={**observation.params, "epochs": 2, **cells[index // 2 % 2], **more}
        )
        for index, observation in enumerate(drawn(24))
        for more in ({}, {"dropout": 0.3})
    ]
    usual: Config = {"units": 100, "layers": 2, "epochs": 2, "cell": "gru"}
    asked = {name: value for name, value in {**usual, **config}.items() if value is not None}
    expectation = predicted(shown, asked)
    assert (expectation.value is None) is (reason is not None)
    assert expectation.reason == (None if reason is None else f"trial_s of {PORTABLE}: {reason}")


def test_a_record_predicts_for_its_arms_from_enough_configs() -> None:
    record = build_paired_record(6)
    predictions = predict_from(record, record.trials[0].config, targets=["step_ms"])
    assert [prediction.arm for prediction in predictions] == list(record.arms)
    with pytest.raises(NotPredicted, match=r"expected an arm of it \(.*\); got 'jax/portable'"):
        predict_from(record, {}, "jax/portable")
    with pytest.raises(NotPredicted, match=r"expected of trial_s, .*; received 'accuracy'"):
        predict_from(record, {}, targets=["accuracy"])
    with pytest.raises(NotPredicted, match="of at least 5 configs to learn from, received 4"):
        fit(drawn(4), "trial_s")
    other = Arm("torch/fused", build_cpu_use())
    reason = predicted(drawn(8), {"units": 64, "layers": 2}, other).reason
    assert reason == f"trial_s of {other}: no trial of {other} was measured"


def test_all_parameters_that_are_missing_or_unknown_are_named_at_once() -> None:
    trials = [
        build_trial(block, config={"units": 16 + block, "layers": 1 + block % 2, "batch_size": 32})
        for block in range(6)
    ]
    record = build_record(trials, (PORTABLE,))
    cases: list[tuple[Config, str]] = [
        ({}, "missing: units, layers"),
        ({"unit": 1, "layer": 2}, "'unit', 'layer'"),
    ]
    for config, named in cases:
        with pytest.raises(NotPredicted, match=named):
            predict_from(record, config)


def test_variants_are_arms_of_the_same_configs() -> None:
    few = build_record(
        build_timed_trials(dict.fromkeys(ARMS_OF_CELLS, 10.0), 4),
        ARMS_OF_CELLS,
        settings={"cell": "lstm"},
    )
    config = few.trials[0].config
    reasons = [
        str(prediction.reason) for prediction in predict_from(few, config, "gru", ["step_ms"])
    ]
    assert ["received 4" in reason for reason in reasons] == [True, True]
    with pytest.raises(NotPredicted, match=r"has cell \w+ of its own; received gru"):
        predict_from(few, {**config, "cell": "gru"})
    less = Arm("torch/fused", build_cpu_use("AMD EPYC", 2, Usage(settings={"epochs": 1})))
    with pytest.raises(NotPredicted, match="has epochs 1 of its own; received 3"):
        predict_from(replace(few, arms=(less,), settings={"epochs": 5}), {"epochs": 3})


def lasting(seconds: float, arm: Arm = PORTABLE, block: int = 0, **changes: Any) -> FinishedTrial:
    return build_full_trial(block, arm, **{"started_s": 0.0, "ended_s": seconds, **changes})


def test_complete_trials_are_observed_with_all_that_their_cost_depends_on() -> None:
    """Times leave out the start-up of trainers, and memory is from first trials alone."""
    hardware = build_cpu_use("CPU", 2, Usage(settings={"epochs": 1}))
    less = Arm(PORTABLE.implementation, hardware, Variant("gru", {"cell": "gru"}))
    trials = [lasting(3.0, less), build_failed_trial()]
    (seen,) = observe(trials, {"epochs": 3, "cell": "lstm", "layers_of": [1]})
    assert seen.params == {**trials[0].trial.config, "epochs": 1, "cell": "gru"}
    assert seen.took == {"trial_s": 3.0, "step_ms": pytest.approx(8.123456789)}
    peak = {"peak_rss_mib": 400.0}
    first, warm = (lasting(3.0, block=n, metrics=peak, trainer_trials=n) for n in (0, 1))
    assert [observed.took for observed in observe([first])] == [{"trial_s": 3.0, **peak}]
    assert [observed.took for observed in observe([first, warm])] == [peak, {"trial_s": 3.0}]
    slices = [Arm(arm.implementation, build_timing_use(arm.hardware)) for arm in ARMS]
    taking_turns = [lasting(10.0, slices[0]), lasting(12.0, slices[1], started_s=2.0)]
    assert trial_seconds([*taking_turns, lasting(5.0, block=3)]) == [6.0, 6.0, 5.0]
