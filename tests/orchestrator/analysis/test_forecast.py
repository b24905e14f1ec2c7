"""The time, energy and money that the rest of a sweep may take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.forecast import Forecast, describe_forecast, forecast, makespan
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Block, Config, FinishedTrial, Outcome, SweepIdentity, make_trial
from orchestrator.hardware import classify
from orchestrator.planning.plan import make_plan
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import BlockSuggested, Journal, SweepOpened, TrialFinished
from tests.orchestrator.sample_plans import node, plan
from tests.orchestrator.sample_specs import spec

ForecastAfter = Callable[..., Forecast]
CONFIGS: list[Config] = [{"units": 8 + 4 * (7 * n % 30), "layers": 1 + n % 3} for n in range(30)]
PRICES = [{"hardware": "cpu", "usd_per_hour": 3.6, "source": "a list", "date": "2026-11-01"}]
SPACE = {"units": {"low": 8, "high": 128}, "layers": [1, 2, 3]}


def seconds_of(config: Config, arm: Arm) -> float:
    speed = 1.0 if arm.implementation.startswith("torch") else 3.0
    return speed * float(config["units"]) * float(config["layers"])


@pytest.fixture
def forecast_after(tmp_path: Path) -> ForecastAfter:
    """Return a function that runs some blocks of a sweep of 30 on two arms, and forecasts it."""

    def forecast_of(blocks: int, *, each_config: bool = False, **changes: Any) -> Forecast:
        usual = {"configs": 30, "space": SPACE, "prices": PRICES}
        arms = {"implementations": ["tensorflow/portable", "torch/portable"]}
        swept = spec(**{**usual, **arms, **changes})
        made = make_plan(swept, classify([node("n0")]))
        folder = SweepFolder(tmp_path, swept.name)
        identity = SweepIdentity(swept.name, 1, "image_rows", {}, {}, 0, None)
        with Journal(folder.generation(1)) as journal:
            journal.append(SweepOpened(identity, {}))
            for index, config in enumerate(CONFIGS[:blocks]):
                journal.append(BlockSuggested(index, config, 0.0))
                for arm in made.arms:
                    took = seconds_of(config, arm)
                    outcome = Outcome("complete", 0.0, took, metrics={"energy_j": 50 * took})
                    trial = make_trial(identity, Block(index, config), arm, 0)
                    journal.append(TrialFinished(FinishedTrial(trial, outcome)))
        return forecast(made, folder, swept, each_config=each_config)

    return forecast_of


def test_the_rest_is_predicted_in_time_energy_and_money(forecast_after: ForecastAfter) -> None:
    ahead = forecast_after(15)
    assert (ahead.done, ahead.remaining, ahead.model_error) == (30, 30, None)
    arms = [Arm(text.partition(" on ")[0], None) for text in ahead.trial_s]  # type: ignore[arg-type]
    truth = sum(seconds_of(config, arm) for config in CONFIGS[15:] for arm in arms)
    assert ahead.seconds is not None and ahead.energy_j is not None and ahead.usd is not None
    assert ahead.seconds.low < truth < ahead.seconds.high < 2 * truth
    assert ahead.energy_j.value == pytest.approx(50 * ahead.seconds.value)
    assert ahead.usd.value == pytest.approx(ahead.seconds.value / 3600 * 3.6)
    text = describe_forecast(ahead)
    assert text.startswith("30 trials are done; the other 30 may take ")
    assert " kWh in their timed epochs" in text and " USD\n" in text


def test_known_configs_are_predicted_by_their_sizes(forecast_after: ForecastAfter) -> None:
    ahead = forecast_after(20, sampler=None, space=None, configs=CONFIGS, each_config=True)
    assert (ahead.done, ahead.remaining, len(ahead.expected)) == (40, 20, 20 * 5)
    hidden = [one for one in ahead.expected if one.target == "trial_s"]
    assert ahead.model_error is not None and ahead.model_error < 0.05
    assert ahead.seconds is not None
    truth = sum(seconds_of(one.config, one.arm) for one in hidden)
    assert ahead.seconds.value == pytest.approx(truth, rel=0.1)
    assert "off by " in describe_forecast(ahead)


@pytest.mark.parametrize("blocks", [0, 1])
def test_nothing_is_predicted_from_less_than_two_trials(
    blocks: int, forecast_after: ForecastAfter
) -> None:
    ahead = forecast_after(blocks)
    assert (ahead.done, ahead.remaining, ahead.seconds) == (2 * blocks, 60 - 2 * blocks, None)
    assert len(ahead.trial_s) == 2 * blocks
    assert "once each arm has run two trials" in describe_forecast(ahead)


def test_few_trials_have_a_wide_interval(forecast_after: ForecastAfter) -> None:
    few, many = forecast_after(3).seconds, forecast_after(15, name="other").seconds
    assert few is not None and many is not None
    assert (few.high - few.low) / few.value > 2 * (many.high - many.low) / many.value
    assert few.low >= 0


def test_a_finished_sweep_has_no_forecast(forecast_after: ForecastAfter) -> None:
    ahead = forecast_after(30)
    assert (ahead.remaining, ahead.seconds) == (0, None)
    assert describe_forecast(ahead, at_most=True) == "all 60 trials are done"


@pytest.mark.parametrize("prices", [None, [{**PRICES[0], "hardware": "NVIDIA T4"}]])
def test_money_is_unknown_without_a_price(prices: Any, forecast_after: ForecastAfter) -> None:
    assert forecast_after(6, prices=prices).usd is None


def test_nodes_share_the_work_and_classes_that_share_a_node_its_time() -> None:
    three = plan(classify([node(f"n{index}") for index in range(3)]))
    assert makespan(three, dict.fromkeys(three.arms, 30.0)) == 20.0
    mixed = plan(classify([node("a", gpus=1), node("b", gpus=1)]), implementations=1)
    assert makespan(mixed, dict.fromkeys(mixed.arms, 30.0)) == 30.0
    apart = plan(classify([node("a"), node("b", cpu_model="CPU B")]), implementations=1)
    assert makespan(apart, dict(zip(apart.arms, (30.0, 12.0), strict=True))) == 30.0
