"""The study of a sweep, read back by Optuna: its trials, values and states."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial
from orchestrator.scheduling.study import STUDY_FILE, write_study
from orchestrator.spec import SweepSpec
from orchestrator.storage.journal import JournalState
from tests.building.arms import CPU, GPU, PORTABLE, XLA
from tests.building.specs import build_spec
from tests.building.trials import IDENTITY, build_trial

ARMS = (PORTABLE, XLA)
SPACE = {"units": {"low": 1, "high": 999, "log": True}, "batch_size": [16, 32]}
SPEC = build_spec(
    objectives={"val_accuracy": "maximize", "step_ms": "minimize"}, space=SPACE, configs=9
)


def read_back(
    folder: Path,
    finished: Collection[FinishedTrial],
    spec: SweepSpec = SPEC,
    arms: Collection[Arm] = ARMS,
) -> optuna.Study:
    state = JournalState(IDENTITY, {}, finished={trial.key: trial for trial in finished})
    write_study(folder, spec, state, arms)
    storage = f"sqlite:///{folder / STUDY_FILE}"
    return optuna.load_study(study_name="quickstart", storage=storage)


def build_block(block: int, **changes: Any) -> list[FinishedTrial]:
    return [
        build_trial(block, arm, started_s=1e9 + block, ended_s=1e9 + block + 5.5, **changes)
        for arm in ARMS
    ]


def states(study: optuna.Study) -> Mapping[int, TrialState]:
    return {trial.user_attrs["block"]: trial.state for trial in study.trials}


def test_a_block_is_a_trial_with_its_values_its_times_and_the_metrics_of_each_arm(
    tmp_path: Path,
) -> None:
    study = read_back(
        tmp_path, [build_trial(0, PORTABLE), build_trial(0, XLA, step_ms=8.0), *build_block(1)]
    )
    assert study.metric_names == ["val_accuracy", "step_ms"]
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    first, second = study.trials
    assert (first.values, first.params) == ([0.9, 9.0], {"units": 16, "batch_size": 32})
    assert first.user_attrs == {
        "block": 0,
        "val_accuracy tensorflow/portable": 0.9,
        "val_accuracy tensorflow/portable+xla": 0.9,
        "step_ms tensorflow/portable": 10.0,
        "step_ms tensorflow/portable+xla": 8.0,
    }
    assert (second.number, second.duration.total_seconds()) == (1, 5.5)
    assert second.datetime_start == datetime.fromtimestamp(1e9 + 1, UTC).astimezone().replace(
        tzinfo=None
    )
    units = second.distributions["units"]
    assert isinstance(units, optuna.distributions.IntDistribution)
    assert (units.low, units.high, units.log) == (16, 32, True)
    assert [trial.number for trial in study.best_trials] == [0]


def test_failed_and_pruned_blocks_have_no_values_and_open_ones_are_left_out(tmp_path: Path) -> None:
    failed = build_trial(1, XLA, status="failed", failure="crash: signal 11", metrics={})
    pruned, still_open = build_trial(2, PORTABLE, status="pruned"), build_trial(3, PORTABLE)
    endless = build_block(4, val_accuracy=float("inf"))
    finished = [*build_block(0), build_trial(1, PORTABLE), failed, pruned, still_open, *endless]
    study = read_back(tmp_path, finished)
    assert states(study) == {
        0: TrialState.COMPLETE,
        1: TrialState.FAIL,
        2: TrialState.PRUNED,
        4: TrialState.FAIL,
    }
    assert [trial.values is None for trial in study.trials] == [False, True, True, True]
    # An arm that is stopped is not waited for.
    assert 3 in states(read_back(tmp_path, finished, arms=(PORTABLE,)))


def test_a_later_start_has_each_block_once(tmp_path: Path) -> None:
    assert len(read_back(tmp_path, build_block(0)).trials) == 1
    finished = [trial for block in range(3) for trial in build_block(block)]
    study = read_back(tmp_path, finished)
    assert [trial.user_attrs["block"] for trial in study.trials] == [0, 1, 2]
    assert [path.name for path in tmp_path.iterdir()] == [STUDY_FILE]
    # Optuna goes on with it, as with a study of its own.
    study.add_trial(study.trials[0])
    assert [trial.number for trial in study.trials] == [0, 1, 2, 3]


def test_a_sweep_without_objectives_has_the_mean_time_per_step(tmp_path: Path) -> None:
    spec = build_spec(objectives={})
    gpu = replace(XLA, hardware=replace(XLA.hardware, hardware_class=GPU.hardware_class))
    finished = [build_trial(0, PORTABLE, step_ms=4.0), build_trial(0, gpu, step_ms=2.0)]
    study = read_back(tmp_path, finished, spec, (PORTABLE, gpu))
    assert (study.metric_names, study.direction.name) == (["step_ms"], "MINIMIZE")
    assert study.trials[0].value == 3.0
    assert {f"step_ms {PORTABLE.short_name} on {CPU}", f"step_ms {gpu}"} < {
        *study.trials[0].user_attrs
    }


def test_parameters_of_any_kind_and_missing_ones(tmp_path: Path) -> None:
    configs: list[dict[str, Any]] = [
        {"cell": "lstm", "deep": True, "rate": 0.5},
        {"cell": "gru", "deep": False, "rate": 1, "clip": 5},
        {"cell": "gru", "deep": False, "rate": 2, "clip": "off"},
        {"cell": "gru", "deep": False, "rate": 2, "clip": None, "layers": (64, 32)},
    ]
    finished = [
        build_trial(block, arm, config=config)
        for block, config in enumerate(configs)
        for arm in ARMS
    ]
    trials: list[FrozenTrial] = read_back(tmp_path, finished).trials
    configs[-1]["layers"] = "[64,32]"  # Optuna has no lists
    assert [trial.params for trial in trials] == configs
