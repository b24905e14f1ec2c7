"""Simulated missing trials: arms that nobody measured, configs that are far, peak memory."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from orchestrator.analysis.cost_model import Models, NotPredicted, Observation, fit
from orchestrator.analysis.forecast.forecast import Forecast, describe_forecast, forecast
from orchestrator.analysis.forecast.simulation import RemainingTrials, make_draws, simulate
from orchestrator.analysis.forecast.totals import ForecastTotals, forecast_totals
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.trial import Block, Config, FinishedTrial, Outcome, SweepIdentity, make_trial
from orchestrator.hardware import Node, classify, probe
from orchestrator.spec import Price, Search, SweepSpec
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import BlockSuggested, Journal, SweepOpened, TrialFinished
from tests.orchestrator.cli.typed_commands import typed
from tests.orchestrator.sample_hardware import on_cpu, on_gpu
from tests.orchestrator.sample_plans import node, plan

CPU = on_cpu("CPU A", 2)
SIX = tuple(Arm(f"tensorflow/kernel{number}", CPU) for number in range(6))
ALONE = SIX[:1]
ON_GPU = Arm("tensorflow/cudnn", on_gpu("NVIDIA T4", "CPU A", 2))


@pytest.fixture(autouse=True)
def _few_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which method is chosen is not asked here, and Gaussian processes take seconds."""
    quick = partial(fit, methods=["medians", "log-linear"])
    monkeypatch.setattr("orchestrator.analysis.cost_model.expectations.fit", quick)


def measured(
    arms: Sequence[Arm], *, targets: Sequence[str] = ("trial_s",), law: float = 1.0
) -> list[Observation]:
    """Trials of 16 to 128 units, whose costs grow with the units to the power of `law`."""
    dice = random.Random(0)
    return [
        Observation(
            {"units": units},
            arm,
            {t: 100 * (units / 16) ** law * dice.lognormvariate(0, 0.05) for t in targets},
        )
        for units in (16, 23, 32, 45, 64, 91, 110, 128)
        for arm in arms
    ]


def missing(
    arms: Sequence[Arm], units: Sequence[int], *, unknown: int = 0, cell: str = ""
) -> RemainingTrials:
    """Trials of so many units on each arm, and blocks of the same range that were measured."""
    space = {"units": {"low": 16, "high": 128, "log": True}}
    search = Search.model_validate({"sampler": "random", "configs": 40, "space": space})
    fixed: Config = {"cell": cell} if cell else {}
    suggested_configs = tuple(({"units": count, **fixed}, arm) for count in units for arm in arms)
    return RemainingTrials(suggested_configs, unknown, dict.fromkeys(arms, 1), search, (), {})


def look(ahead: RemainingTrials, observations: list[Observation], *prices: Price) -> ForecastTotals:
    return forecast_totals(
        ahead, Models(observations), prices, lambda seconds: sum(seconds.values())
    )


@pytest.mark.parametrize("law", [0.0, 1.0], ids=["medians", "log-linear"])
def test_an_arm_that_no_trial_had_is_not_predicted(law: float) -> None:
    """One of six arms is less than the share of configs that may be far."""
    observations = measured(SIX[:5], law=law)
    look(missing(SIX[:5], [32, 64]), observations)
    for ahead in (missing(SIX, [32, 64]), missing(SIX, [], unknown=9)):
        with pytest.raises(NotPredicted, match=rf"^trial_s: no trial of {SIX[5]} was measured"):
            look(ahead, observations)


def test_energy_that_one_arm_does_not_show_is_not_the_sweeps() -> None:
    measured_trials = measured(SIX[:5], targets=("trial_s", "energy_j"))
    price = Price.model_validate(
        {"hardware": "cpu", "usd_per_kwh": 0.3, "source": "a list", "date": "2026-11-01"}
    )
    whole = look(missing(SIX[:5], [64]), measured_trials, price)
    assert whole.energy_j is not None
    assert whole.usd is not None
    assert whole.refused == {}
    prediction = look(missing(SIX, [64]), [*measured_trials, *measured(SIX[5:])], price)
    assert (prediction.energy_j, prediction.usd) == (None, None)
    assert prediction.refused == {"energy_j": f"energy_j: no trial of {SIX[5]} was measured"}
    assert (
        f"  energy cannot be predicted (energy_j: no trial of {SIX[5]} was measured)"
        in described(prediction)
    )


def described(prediction: ForecastTotals) -> str:
    return describe_forecast(Forecast(0, 1, 1.0, totals=prediction))


def test_what_is_far_is_drawn_with_larger_errors() -> None:
    """Beyond by a factor of four: as wide as a prediction would be, three times what is near."""
    ahead = missing(ALONE, [64] * 8 + [512, 512])
    model = Models(measured(ALONE)).of("trial_s")
    costs = simulate(model, ahead, make_draws(ahead), ALONE)[ALONE[0]]
    spread = np.std(np.log(costs), axis=0)
    assert model.features.beyond({"units": 512}) == pytest.approx(2)
    assert spread[8:].mean() / spread[:8].mean() == pytest.approx(3, rel=0.2)


@pytest.mark.parametrize(
    ("units", "cell", "reason"),
    [
        ([64] * 7 + [512] * 3, "", "units 512 is too far from 16 to 128, which were measured"),
        ([64] * 19 + [2000], "", "units 2000 is too far from 16 to 128, which were measured"),
        ([64] * 20, "gru", 'no trial had cell "gru"'),
    ],
    ids=["too many", "one too far of all", "never seen"],
)
def test_what_nothing_is_known_of_is_refused(units: list[int], cell: str, reason: str) -> None:
    with pytest.raises(NotPredicted, match=reason):
        look(missing(ALONE, units, cell=cell), measured(ALONE))


def test_a_word_that_no_trial_had_is_refused_however_few_have_it() -> None:
    suggested_configs = missing(ALONE, [64] * 19).suggested
    ahead = missing(ALONE, [64], cell="rnn")
    observations = [
        dataclasses.replace(row, params={**row.params, "cell": ("gru", "lstm")[index % 2]})
        for index, row in enumerate(measured(ALONE))
    ]
    seen = tuple(({**config, "cell": "gru"}, arm) for config, arm in suggested_configs)
    look(dataclasses.replace(ahead, suggested=seen), observations)
    with pytest.raises(NotPredicted, match='no trial had cell "rnn"'):
        look(dataclasses.replace(ahead, suggested=(*seen, *ahead.suggested)), observations)


def test_the_most_memory_has_an_interval() -> None:
    observations = measured(SIX, targets=("trial_s", "peak_rss_mib"))
    prediction = look(missing(SIX, [16, 32, 128]), observations)
    value = prediction.peak_mib["peak_rss_mib"]
    low, high = prediction.peak_mib_interval["peak_rss_mib"]
    assert low < value < high
    assert low < 800 * math.exp(0.05) < high  # the largest of six trials of 800 MiB, ± 5 %
    assert high / low < 1.5
    assert f"  peak memory up to {value:,.0f} MiB ({low:,.0f} to {high:,.0f})" in described(
        prediction
    )


def test_the_most_memory_is_not_that_of_the_configs_that_are_near() -> None:
    """One config of twenty is too far, and it is the largest."""
    observations = measured(ALONE, targets=("trial_s", "peak_rss_mib"))
    prediction = look(missing(ALONE, [64] * 19 + [300]), observations)
    assert (prediction.peak_mib, prediction.peak_mib_interval) == ({}, {})
    why = "peak_rss_mib: units 300 is too far from 16 to 128, which were measured"
    assert prediction.refused == {"peak_rss_mib": why}
    assert f"  peak memory cannot be predicted ({why})" in described(prediction)


def test_each_listed_config_is_in_every_run() -> None:
    """The largest of five, of which a draw by chance would leave some out."""
    search = Search.model_validate(
        {"configs": [{"units": count} for count in (16, 17, 18, 19, 128)]}
    )
    ahead = RemainingTrials((), 5, dict.fromkeys(ALONE, 1), search, (), {})
    model = Models(measured(ALONE)).of("trial_s")
    costs = simulate(model, ahead, make_draws(ahead), ALONE)[ALONE[0]]
    assert costs.max(axis=1).min() > 400


def test_a_gpus_memory_is_asked_of_arms_on_gpus() -> None:
    arms = (*ALONE, ON_GPU)
    on_cpu = measured(ALONE, targets=("trial_s", "peak_rss_mib"))
    on_gpu = measured([ON_GPU], targets=("trial_s", "peak_rss_mib", "peak_gpu_mib"))
    prediction = look(missing(arms, [64, 91]), [*on_cpu, *on_gpu])
    assert set(prediction.peak_mib) == {"peak_rss_mib", "peak_gpu_mib"}
    assert "  peak GPU memory up to " in described(prediction)


def write(home: Path, arms: Sequence[Arm], name: str = "mine") -> SweepFolder:
    """The journal of a sweep of what was measured on these arms."""
    folder = SweepFolder(home, name)
    identity = SweepIdentity(name, 1, "image_rows", {}, {}, 0, None)
    seen = measured(ALONE, targets=("trial_s", "step_ms", "peak_rss_mib"))
    with Journal.open(folder.generation(1)) as journal:
        journal.append(SweepOpened(identity, {}))
        for index, row in enumerate(seen):
            journal.append(BlockSuggested(index, row.params, 0.0))
            for arm in arms:
                trial = make_trial(identity, Block(index, row.params), arm, 0)
                took = row.took["trial_s"]
                outcome = Outcome("complete", 100.0, 100.0 + took, node="n", metrics=row.took)
                journal.append(TrialFinished(FinishedTrial(trial, outcome)))
    return folder


def spec_of(search: dict[str, object], name: str = "mine") -> SweepSpec:
    body = {
        "name": name,
        "workload": "image_rows",
        "search": search,
        "arms": {"implementations": ["tensorflow/portable"]},
    }
    return SweepSpec.model_validate(body)


def test_a_plan_with_an_arm_that_no_trial_had_shows_no_time(tmp_path: Path) -> None:
    laid = plan(classify([node("n0")]), implementations=6, blocks=20)
    assert laid.arms == SIX
    search: dict[str, object] = {
        "sampler": "random",
        "configs": 20,
        "space": {"units": {"low": 16, "high": 128, "log": True}},
    }
    ahead = forecast(laid, write(tmp_path, SIX[:5]), spec_of(search))
    assert (ahead.done, ahead.remaining_s, ahead.totals) == (40, None, None)
    assert describe_forecast(ahead) == (
        "how long it takes is known once each arm has run a trial "
        f"(trial_s: no trial of {SIX[5]} was measured)"
    )


def test_each_listed_config_is_predicted_or_shown_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "asked.yaml"
    spec.write_text(
        "name: asked\n"
        "workload: image_rows\n"
        "search: {configs: [{units: 70}, {units: 1000}]}\n"
        "arms: {implementations: [tensorflow/portable], hardware: [cpu]}\n"
    )
    monkeypatch.setenv("RNNSWEEP_HOME", str(tmp_path / "home"))
    code, out, err = typed(capfd, "plan", str(spec), "--format", "json")
    assert (code, err) == (0, "")
    nothing = json.loads(out)
    assert {entry["value"] for entry in nothing["expected"]} == {None}
    assert "at least 5 configs to learn from, received 0" in nothing["expected"][0]["reason"]
    (planned,) = nothing["arms"]
    arm = Arm(planned["implementation"], HardwareUse(Node("", probe(), 1).cpu_class))
    assert (planned["hardware"], planned["class_id"]) == (str(arm.hardware), arm.hardware_class.id)

    write(tmp_path / "home", [arm], name="before")
    _, out, _ = typed(capfd, "plan", str(spec), "--format", "json")
    plan_json = json.loads(out)
    prediction = {
        (entry["config"]["units"], entry["target"]): entry for entry in plan_json["expected"]
    }
    assert len(prediction) == len(plan_json["expected"]) == 2 * 5
    assert plan_json["helped_by"] == ["before"]
    for target in ("trial_s", "step_ms", "peak_rss_mib"):
        near, far = prediction[70, target], prediction[1000, target]
        assert near["low"] < 100 * 70 / 16 < near["high"]
        assert near["low"] < near["value"] < near["high"]
        assert (near["reason"], near["arm"]) == (None, dataclasses.asdict(arm))
        assert (far["value"], far["low"], far["high"]) == (None, None, None)
        assert far["reason"] == (
            f"{target} of {arm}: units 1000 is too far from 16 to 128, which were measured"
        )
    assert "received 0" in prediction[70, "energy_j"]["reason"]
    _, text, _ = typed(capfd, "plan", str(spec))
    assert text.endswith("(trial_s: units 1000 is too far from 16 to 128, which were measured)\n")


def test_what_is_done_is_not_predicted(tmp_path: Path) -> None:
    """Of ten listed configs eight have run: the two others are expected, on the one arm."""
    laid = plan(classify([node("n0")]), implementations=1, blocks=10)
    ran = [outcome.params for outcome in measured(ALONE)]
    more: list[Config] = [{"units": 20}, {"units": 100}]
    spec = spec_of({"configs": [*ran, *more]})
    laid = dataclasses.replace(laid, listed=spec.search.listed)
    folder = write(tmp_path, laid.arms)
    ahead = forecast(laid, folder, spec, each_config=True)
    assert [
        expectation.config for expectation in ahead.expected if expectation.target == "trial_s"
    ] == more
    assert forecast(laid, folder, spec).expected == ()
