"""Test the prediction of configs that were not measured, on draws with known truth."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.analysis.cost_model import (
    CostModel,
    NotPredicted,
    Observation,
    draw_configs,
    fit,
    observe,
    trial_seconds,
)
from orchestrator.analysis.forecast.forecast import Forecast, describe_forecast, forecast
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Block, Config, FinishedTrial, Outcome, SweepIdentity, make_trial
from orchestrator.hardware import classify
from orchestrator.planning.plan import make_plan
from orchestrator.spec import Search, SweepSpec, parse
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import BlockSuggested, Journal, SweepOpened, TrialFinished
from tests.orchestrator.sample_hardware import in_slices, on_cpu
from tests.orchestrator.sample_plans import node

CPU = on_cpu("CPU A", 2)
SMALL, LARGE = Arm("tensorflow/portable", CPU), Arm("torch/portable", CPU)
ARMS = (SMALL, LARGE)


def seconds_of(config: Config, arm: Arm) -> float:
    """Return the true seconds: overhead and arithmetic, in different shares on the two arms."""
    units, layers = float(config["units"]), float(config["layers"])
    overhead, speed = (2.0, 1.0) if arm == SMALL else (6.0, 0.4)
    return overhead * layers + speed * layers * (units / 64) ** 2


def drawn(count: int, seed: int = 0, noise: float = 0.05) -> list[Observation]:
    rng = random.Random(seed)
    configs: list[Config] = [
        {"units": round(math.exp(rng.uniform(math.log(16), math.log(256)))), "layers": layers}
        for layers in (1 + index % 3 for index in range(count))
    ]
    return [
        Observation(
            config, arm, {"trial_s": seconds_of(config, arm) * rng.lognormvariate(0, noise)}
        )
        for config in configs
        for arm in ARMS
    ]


@pytest.fixture(scope="module")
def model() -> CostModel:
    return fit(drawn(24), "trial_s")


def test_configs_that_were_not_measured_are_predicted(model: CostModel) -> None:
    truth = drawn(40, seed=1, noise=0.0)
    errors = [
        abs(
            model.predict(observation.params, observation.arm).value / observation.took["trial_s"]
            - 1
        )
        for observation in truth
        if not model.features.refusal_reason(observation.params, observation.arm)
    ]
    assert len(errors) > 60
    assert statistics.median(errors) < 0.1
    assert model.held_out.median < 0.15
    assert model.method != "medians"


def test_intervals_hold_what_is_then_measured(model: CostModel) -> None:
    """Of 80 new trials 90 % are promised: fewer than 62 would be rarer than 1 in 1000."""
    inside = 0
    for observation in drawn(40, seed=2):
        with_interval = model.predict(dict(observation.params), observation.arm)
        inside += with_interval.low <= observation.took["trial_s"] <= with_interval.high
    assert inside >= 62
    assert 0.75 <= model.held_out.coverage <= 1


def test_the_method_with_the_smallest_error_is_chosen(model: CostModel) -> None:
    assert set(model.tried) == {"medians", "log-linear", "quadratic", "gaussian process"}
    alike = [
        Observation(
            observation.params,
            observation.arm,
            {"trial_s": 5.0 if observation.arm == SMALL else 9.0},
        )
        for observation in drawn(8)
    ]
    flat = fit(alike, "trial_s")
    assert flat.predict({"units": 64, "layers": 1}, LARGE).value == pytest.approx(9.0)


def test_an_arm_with_few_trials_leans_on_the_others() -> None:
    """Arms are of one shape; the second was measured at its smallest sizes only."""
    every = [
        Observation(
            observation.params, arm, {"trial_s": seconds_of(observation.params, SMALL) * factor}
        )
        for observation in drawn(24, noise=0.0)[::2]
        for arm, factor in ((SMALL, 1.0), (LARGE, 3.0))
        if arm == SMALL or float(observation.params["units"]) < 60
    ]
    pooled = fit(every, "trial_s", ["log-linear", "quadratic"])
    asked: Config = {"units": 128, "layers": 2}
    assert pooled.predict(asked, LARGE).value == pytest.approx(
        3 * seconds_of(asked, SMALL), rel=0.25
    )


@pytest.mark.parametrize(
    ("changes", "arm", "message"),
    [
        ({"units": 1000}, SMALL, "units 1000 is too far from"),
        ({"units": 4}, SMALL, "units 4 is too far from"),
        ({"units": 0}, SMALL, "units 0 is too far from"),
        ({"units": "many"}, SMALL, "units many is too far from"),
        ({"batch_size": 64}, SMALL, "every trial had batch_size 32, none 64"),
        ({"cell": "rnn"}, SMALL, 'no trial had cell "rnn"'),
        ({}, Arm("jax/portable", on_cpu("CPU A", 2)), "no trial of jax/portable on CPU A"),
    ],
)
def test_what_is_too_far_from_what_was_measured_is_refused(
    changes: Config, arm: Arm, message: str
) -> None:
    observations = [
        dataclasses.replace(
            observation,
            params={**observation.params, "batch_size": 32, "cell": ("gru", "lstm")[index % 2]},
        )
        for index, observation in enumerate(drawn(9))
    ]
    narrow = fit(observations, "trial_s", ["log-linear"])
    asked: Config = {"units": 64, "layers": 2, "batch_size": 32, "cell": "gru"}
    narrow.predict(asked, SMALL)
    with pytest.raises(NotPredicted) as refused:
        narrow.predict({**asked, **changes}, arm)
    assert str(refused.value).startswith("trial_s of ")
    assert message in str(refused.value)


def test_the_interval_grows_beyond_what_was_measured(model: CostModel) -> None:
    highest = max(param.high for param in model.features.numeric if param.name == "units")

    def width(units: float) -> float:
        prediction = model.predict({"units": units, "layers": 2}, SMALL)
        return prediction.high / prediction.low

    assert width(highest) < width(highest * 1.5) < width(highest * 1.99)


def layered(sizes: list[tuple[int, int]]) -> CostModel:
    rng = random.Random(3)
    return fit(
        [
            Observation(
                (config := {"units": units, "layers": layers}),
                SMALL,
                {"trial_s": seconds_of(config, SMALL) * rng.lognormvariate(0, 0.05)},
            )
            for units, layers in sizes
        ],
        "trial_s",
        ["log-linear"],
    )


UNITS = (16, 23, 32, 45, 64, 91, 128, 181, 256)


def test_sizes_that_were_never_large_together_are_beyond_what_was_measured() -> None:
    """Many units at one layer, many layers at 16 units: both at once is no config like these."""
    corner: Config = {"units": 256, "layers": 3}
    ell = layered([*((units, 1) for units in UNITS), (16, 2), (16, 3)])
    assert ell.features.beyond({"units": 256, "layers": 1}) == 0
    assert ell.features.beyond({"units": 16, "layers": 3}) == 0
    inside, outside = ell.predict({"units": 256, "layers": 1}, SMALL), ell.predict(corner, SMALL)
    assert math.log(outside.high / outside.low) > 2 * math.log(inside.high / inside.low)
    whole = layered([(units, layers) for units in UNITS for layers in (1, 2, 3)])
    assert whole.features.beyond(corner) == pytest.approx(0, abs=1e-9)
    assert whole.features.beyond({"units": 512, "layers": 3}) == pytest.approx(1)


def test_sizes_that_changed_only_together_predict_none_alone() -> None:
    diagonal = layered([(16 * layers, layers) for layers in range(1, 17)])
    diagonal.predict({"units": 88, "layers": 5}, SMALL)
    message = "each of layers 16, units 16 was measured, but no config like this combination"
    with pytest.raises(NotPredicted, match=message):
        diagonal.predict({"units": 16, "layers": 16}, SMALL)


def test_too_few_configs_teach_nothing() -> None:
    with pytest.raises(NotPredicted, match="at least 5 configs to learn from, received 4"):
        fit(drawn(4), "trial_s")
    with pytest.raises(NotPredicted, match=r"energy_j: .* received 0"):
        fit(drawn(9), "energy_j")


def test_params_of_other_kinds_and_those_switched_off() -> None:
    """`clip` is a number or a word, `dropout` there in some configs only, and may be 0."""
    observations = [
        Observation(
            {"clip": (1, 5, "off")[i % 3], **({"dropout": 0.1 * (i % 5)} if i % 2 else {})},
            SMALL,
            {"trial_s": 4.0 * (1 + i % 3)},
        )
        for i in range(18)
    ]
    narrow = fit(observations, "trial_s", ["log-linear"])
    off = narrow.predict({"clip": "off"}, SMALL).value
    assert off == pytest.approx(12.0, rel=0.1)
    assert narrow.predict({"clip": 5, "dropout": 0.0}, SMALL).value < off
    with pytest.raises(NotPredicted, match='no trial had clip "on"'):
        narrow.predict({"clip": "on"}, SMALL)


def finished(
    config: Config, arm: Arm, block: int, seconds: float, **changes: object
) -> FinishedTrial:
    identity = SweepIdentity("mine", 1, "image_rows", {}, {}, 0, None)
    outcome = Outcome("complete", 100.0, 100.0 + seconds, node="n", trainer_trials=1)
    trial = make_trial(identity, Block(block, config), arm, 0)
    return FinishedTrial(trial, dataclasses.replace(outcome, **changes))  # type: ignore[arg-type]


def test_what_is_observed_of_trials() -> None:
    config: Config = {"units": 8}
    metrics = {"peak_rss_mib": 900.0, "step_ms": 2.0, "energy_j": math.nan}
    seen = observe(
        [
            finished(config, SMALL, 0, 30.0, trainer_trials=0, metrics=metrics),
            finished(config, SMALL, 1, 10.0, metrics=metrics),
            finished(config, LARGE, 0, 40.0, trainer_trials=0),
            finished(config, LARGE, 1, 99.0, status="failed"),
        ],
        {"cell": "gru", "layers": [1, 2]},
    )
    assert [observation.took for observation in seen] == [
        {"peak_rss_mib": 900.0, "step_ms": 2.0},  # its start is in its time, and others are known
        {"step_ms": 2.0, "trial_s": 10.0},
        {"trial_s": 40.0},  # all that is known of this arm
    ]
    assert seen[0].params == {"cell": "gru", "units": 8}


def test_trials_that_take_turns_share_their_time() -> None:
    timed = [Arm(arm.implementation, in_slices(arm.hardware)) for arm in ARMS]
    trials = [finished({"units": 8}, arm, 0, 60.0) for arm in timed]
    assert trial_seconds([*trials, finished({"units": 8}, SMALL, 0, 60.0)]) == [30.0, 30.0, 60.0]


def test_while_one_prepares_the_others_wait_and_that_counts_once() -> None:
    """60 s of which the second one's trainer had the first 20 to itself: 30 s each."""
    timed = [Arm(arm.implementation, in_slices(arm.hardware)) for arm in ARMS]
    first = finished({"units": 8}, timed[0], 0, 60.0)
    second = finished({"units": 8}, timed[1], 0, 60.0)
    began_s = second.outcome.started_s + 20
    late = dataclasses.replace(second.outcome, started_s=began_s)
    assert trial_seconds([first, dataclasses.replace(second, outcome=late)]) == [30.0, 30.0]
    torn = dataclasses.replace(second.outcome, round_id="another")
    assert trial_seconds([first, dataclasses.replace(second, outcome=torn)]) == [60.0, 60.0]


def test_draws_are_of_the_space() -> None:
    search = Search.model_validate(
        {
            "sampler": "random",
            "configs": 4,
            "space": {
                "units": {"low": 16, "high": 128, "log": True},
                "rate": {"low": 1e-4, "high": 1e-1, "log": True},
                "dropout": {"low": 0.0, "high": 0.5},
                "steps": {"low": 10, "high": 50, "step": 10},
                "layers": {"low": 1, "high": 3},
                "cell": ["gru", "lstm"],
                "peephole": {"choices": [True, False], "when": {"cell": "lstm"}},
            },
        }
    )
    draws = draw_configs(search, 400, seed=1)
    assert draws == draw_configs(search, 400, seed=1)
    for config in draws:
        for name, value in config.items():
            assert search.space[name].contains(value), (name, value)
        assert ("peephole" in config) is (config["cell"] == "lstm")
    below = sum(float(config["units"]) < math.sqrt(16 * 128) for config in draws)
    assert 150 < below < 250  # on a logarithmic scale half of them


SPEC = """
name: mine
workload: image_rows
search:
  sampler: random
  configs: 30
  space: {units: {low: 16, high: 256, log: true}, layers: [1, 2, 3]}
arms: {implementations: [tensorflow/portable, torch/portable], hardware: [cpu]}
prices: [{hardware: cpu, usd_per_hour: 3.6, source: a list, date: 2026-11-01}]
"""


@pytest.fixture
def forecast_after(tmp_path: Path) -> Callable[[int], Forecast]:
    """Return a function that makes a sweep of 30 configs, runs some of them, and forecasts it."""
    spec: SweepSpec = parse(SPEC, source="mine.yaml")
    plan = make_plan(spec, classify([node("n0", cpu_model="CPU A")]))
    configs = draw_configs(spec.search, 30, seed=7)

    def forecast_of(number: int) -> Forecast:
        folder = SweepFolder(tmp_path, f"mine{number}")
        identity = SweepIdentity("mine", 1, "image_rows", {}, {}, 0, None)
        with Journal.open(folder.generation(1)) as journal:
            journal.append(SweepOpened(identity, {}))
            for block in range(number):
                journal.append(BlockSuggested(block, configs[block], 0.0))
                for arm in plan.arms:
                    took = seconds_of(configs[block], arm)
                    spent = {"energy_j": 50 * took, "peak_rss_mib": 500 + 10 * took}
                    done = finished(
                        configs[block], arm, block, took, metrics=spent, trainer_trials=0
                    )
                    journal.append(TrialFinished(done))
        return forecast(plan, folder, spec)

    return forecast_of


def test_a_plan_is_judged_by_the_sizes_to_come(forecast_after: Callable[[int], Forecast]) -> None:
    ahead = forecast_after(15)
    assert (ahead.done, ahead.remaining) == (30, 30)
    assert ahead.totals is not None
    seconds, usd = ahead.totals.seconds, ahead.totals.usd
    spec = parse(SPEC, source="mine.yaml")
    hidden = draw_configs(spec.search, 30, seed=7)[15:]
    truth = sum(seconds_of(config, arm) for config in hidden for arm in ARMS)
    assert seconds.low < truth < seconds.high
    assert ahead.remaining_s == seconds.value
    assert usd is not None
    assert usd.value == pytest.approx(seconds.value / 3600 * 3.6, rel=1e-6)
    energy_j = ahead.totals.energy_j
    assert energy_j is not None
    assert energy_j.low < 50 * truth < energy_j.high
    largest = max(seconds_of(one, arm) for one in hidden for arm in ARMS)
    assert 0.6 < ahead.totals.peak_mib["peak_rss_mib"] / (500 + 10 * largest) < 2
    text = describe_forecast(ahead)
    assert "kWh in their timed epochs" in text
    assert "  peak memory up to " in text
    assert "30 trials are done; the other 30 may take " in text
    assert "judged by their sizes: a " in text
    assert " model of 15 configs" in text
    assert " USD\n" in text
    json.dumps(dataclasses.asdict(ahead), allow_nan=False)


def test_few_trials_are_judged_by_their_medians(forecast_after: Callable[[int], Forecast]) -> None:
    unknown = "how long it takes is known once each arm has run a trial"
    assert describe_forecast(forecast_after(0)) == unknown
    ahead = forecast_after(2)
    assert ahead.totals is None
    assert ahead.remaining_s is not None
    assert "judged by these (trial_s: expected complete trials of at least 5" in (
        describe_forecast(ahead)
    )
    bounded = describe_forecast(ahead, at_most=True)
    assert bounded.startswith("4 trials are done; the other at most 56 may take ")


def test_a_finished_sweep_has_no_forecast(forecast_after: Callable[[int], Forecast]) -> None:
    ahead = forecast_after(30)
    assert (ahead.remaining, ahead.remaining_s, ahead.totals) == (0, 0.0, None)


def test_other_sweeps_of_the_home_help_a_new_one(
    tmp_path: Path, forecast_after: Callable[[int], Forecast]
) -> None:
    forecast_after(14)  # leaves the sweep mine14 in the home
    spec = parse(SPEC.replace("configs: 30", "configs: 6"), source="mine.yaml")
    plan = make_plan(spec, classify([node("n0", cpu_model="CPU A")]))
    ahead = forecast(plan, SweepFolder(tmp_path, "new"), spec)
    assert (ahead.done, ahead.remaining) == (0, 12)
    assert ahead.helped_by == ("mine",)
    assert ahead.totals is not None
    draws = draw_configs(spec.search, 2000, seed=3)
    mean_s = sum(seconds_of(config, arm) for config in draws for arm in ARMS) / len(draws)
    assert ahead.totals.seconds.low < 6 * mean_s < ahead.totals.seconds.high
    text = describe_forecast(ahead)
    assert text.startswith("12 trials may take ")
    assert describe_forecast(ahead, at_most=True).startswith("at most 12 trials may take ")
    assert "with those of mine" in text


def test_sweeps_of_another_workload_or_a_broken_journal_do_not_help(
    tmp_path: Path, forecast_after: Callable[[int], Forecast]
) -> None:
    forecast_after(14)
    (tmp_path / "sweeps" / "mine14" / "1" / "journal.jsonl").write_text("{broken\n{broken\n")
    spec = parse(SPEC, source="mine.yaml")
    plan = make_plan(spec, classify([node("n0", cpu_model="CPU A")]))
    ahead = forecast(plan, SweepFolder(tmp_path, "new"), spec)
    assert (ahead.totals, ahead.remaining_s) == (None, None)
