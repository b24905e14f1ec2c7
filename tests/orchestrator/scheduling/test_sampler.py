"""Optuna's samplers, asked block by block: no config twice, and a stopped sweep resumes."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import optuna
import pytest

from orchestrator.core.arms import Variant
from orchestrator.core.failure_limit import FailureLimit
from orchestrator.core.trial import Config, FinishedTrial, canonical, make_trial
from orchestrator.hardware import classify
from orchestrator.sampling import Tpe
from orchestrator.scheduling.suggester import Suggester
from orchestrator.scheduling.suggestions import Suggestions
from orchestrator.spec import Objective, Search
from tests.building.hardware import build_node
from tests.building.scheduling import ConfigLog, build_ledger, build_plan
from tests.building.trials import IDENTITY, build_failed_outcome

SPACE = {
    "units": {"low": 16, "high": 128, "log": True},
    "layers": [1, 2],
    "dropout": {"low": 0.0, "high": 0.5, "when": {"layers": 2}},
}
OBJECTIVES = {"val_accuracy": "maximize", "step_ms": "minimize"}
ONE_OBJECTIVE = {"val_accuracy": "maximize"}


class ForgetfulTpe(Tpe):
    sees: ClassVar[int | None] = 20


def search(sampler: str, **changes: object) -> Search:
    body = {"sampler": sampler, "configs": 20, "space": SPACE, "objectives": OBJECTIVES}
    return Search.model_validate({**body, **changes})


def values(config: Mapping[str, Any]) -> list[float]:
    units = float(config["units"])
    return [1.0 - 1.0 / units, units * float(config["layers"])]


def run(suggester: Suggester, count: int) -> list[Config]:
    return run_from(suggester, 0, count)


def run_from(suggester: Suggester, begin: int, count: int) -> list[Config]:
    seen_configs = []
    for index in range(begin, count):
        config = suggester.suggest(index)
        assert config is not None
        suggester.report(index, values(config))
        seen_configs.append(config)
    return seen_configs


def test_beyond_what_a_sampler_sees_no_config_comes_twice_and_a_stopped_search_resumes() -> None:
    wanted = search("tpe").model_copy(update={"sampler": ForgetfulTpe()})
    configs = run(Suggester(wanted, seed=3), 40)
    assert len({canonical(config) for config in configs}) == 40
    second = Suggester(wanted, seed=3)
    for index, config in enumerate(configs):
        if index < 30:
            second.replay(index, config)
        else:
            assert second.suggest(index) == config
        second.report(index, values(config))
    assert len(second._finished.numbers) == 20
    assert len(second._memory.get_all_trials(0)) >= 40, "pruners see all"


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_configs_to_begin_with_come_before_suggestions(sampler: str) -> None:
    first = [{"units": 100, "layers": 1}, {"units": 20, "layers": 2, "dropout": 0.25}]
    wanted = search(sampler, first=first)
    configs = run(Suggester(wanted, seed=3), 12)
    assert configs[:2] == first
    assert len({canonical(config) for config in configs}) == 12
    resumed = Suggester(wanted, seed=3)
    resumed.replay(0, configs[0])
    resumed.report(0, values(configs[0]))
    assert run_from(resumed, 1, 12) == configs[1:]


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc", "grid"])
def test_null_and_lists_are_suggested_as_they_are_and_again(sampler: str) -> None:
    space = {"layers": [[64], [64, 32], []], "dropout": [None, 0.1], "flag": [1, True]}
    first = [] if sampler == "grid" else [{"layers": [64, 32], "dropout": None, "flag": True}]
    wanted = search(sampler, space=space, first=first, configs=12, objectives=ONE_OBJECTIVE)
    suggester = Suggester(wanted, seed=3)

    def suggest_from(suggester: Suggester, begin: int) -> list[Config | None]:
        found = list[Config | None]()
        for index in range(begin, 12):
            found.append(suggester.suggest(index))
            suggester.report(index, [float(index)])
        return found

    configs = suggest_from(suggester, 0)
    assert {canonical(config) for config in configs} == {
        canonical(config) for config in wanted.grid()
    }
    assert {type(config["layers"]) for config in configs if config} == {tuple}
    resumed = Suggester(wanted, seed=3)
    for index, config in enumerate(configs[:5]):
        assert config is not None
        resumed.replay(index, config)
        resumed.report(index, [float(index)])
    assert suggest_from(resumed, 5) == configs[5:]


@pytest.mark.parametrize(("over", "follows"), [("mean", True), ("tensorflow/kernel0", False)])
def test_without_a_stopped_arm_the_pruner_follows_another_one_that_is_read(
    over: str, follows: bool
) -> None:
    """Of the other variant: until then it trained another model than the one that is followed."""
    laid = build_plan(classify([build_node("a")]))
    first, second = (
        replace(planned, arm=replace(planned.arm, variant=Variant(name)))
        for planned, name in zip(laid.possible, "ab", strict=True)
    )
    objectives = {"val_accuracy": Objective(direction="maximize", over=over)}
    ledger = build_ledger(replace(laid, possible=(first, second)), FailureLimit(1))
    suggestions = Suggestions(ledger, ConfigLog(), objectives)
    block = suggestions.suggest()
    assert block is not None
    ended = FinishedTrial(make_trial(IDENTITY, block, first.arm, 0), build_failed_outcome())
    assert ledger.add_outcome(ended)
    suggestions.observe(ended, stops_its_arm=True)
    other = make_trial(IDENTITY, block, second.arm, 0)
    assert suggestions.take_epoch(other, 0, {"val_accuracy": 0.1}) == follows
    assert suggestions.unread == ([] if follows else ["val_accuracy"])


def test_a_sampler_that_only_repeats_itself_is_helped_out() -> None:
    space = {"cell": ["lstm", "gru"], "drop": {"low": 0.0, "high": 0.5, "when": {"cell": "gru"}}}
    wanted = search("tpe", configs=15, space=space, objectives={"val_accuracy": "maximize"})
    suggester = Suggester(wanted, seed=0)
    for index in range(15):
        config = suggester.suggest(index)
        assert config is not None, f"only {index} configs of an infinite space"
        suggester.report(index, [float(config["cell"] == "lstm")])


class Exhaustive(optuna.samplers.BruteForceSampler):
    """Looks up its own trial in the study, and ends it when all configs were suggested."""


class OverGrid(optuna.samplers.GridSampler):
    """Ends the study when its grid is done."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__({"units": [16, 32, 64]}, seed)


@pytest.mark.parametrize(("sampler", "most"), [(Exhaustive, 6), (OverGrid, 3)])
def test_a_sampler_of_a_user_that_ends_its_study_ends_the_search_and_a_resumed_one(
    sampler: type, most: int
) -> None:
    space = {"units": [16, 32, 64], **({"layers": [1, 2]} if sampler is Exhaustive else {})}
    wanted = search(f"{__name__}:{sampler.__name__}", space=space, objectives=ONE_OBJECTIVE)
    first, second = Suggester(wanted, seed=3), Suggester(wanted, seed=3)
    configs = list[Config]()
    for index in range(most + 2):
        config = first.suggest(index)
        if config is None:
            break
        configs.append(config)
        first.report(index, [0.5])
    assert len({canonical(config) for config in configs}) == most
    for index, config in enumerate(configs):
        second.replay(index, config)
        second.report(index, [0.5])
    assert second.suggest(most) is None


def test_a_sampler_learns_to_avoid_configs_whose_training_diverges() -> None:
    space = {"learning_rate": {"low": 1e-4, "high": 1.0, "log": True}}
    suggester = Suggester(search("tpe", space=space, objectives=ONE_OBJECTIVE), seed=3)
    diverged = list[bool]()
    for index in range(60):
        config = suggester.suggest(index)
        assert config is not None
        rate = config["learning_rate"]
        assert isinstance(rate, float)
        diverged.append(rate > 0.01)
        value = -abs(math.log10(rate) + 2.2)
        suggester.report(index, None if diverged[-1] else [value], is_bad=diverged[-1])
    assert sum(diverged[-20:]) <= 10, "as failed ones, all of the last 20 diverge"
