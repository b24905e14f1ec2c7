"""Trials and rounds between blocks, journal, store and sampler."""

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from orchestrator.core.arms import Arm, Usage, Variant
from orchestrator.core.records import Direction
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import Outcome
from orchestrator.execution.job import JobProgress
from orchestrator.planning.fleets import known_nodes
from orchestrator.report.best.chosen import choose
from orchestrator.scheduling.best_models import BestModels
from orchestrator.storage.journal import Record, read_running
from tests.building.arms import PORTABLE, XLA
from tests.building.hardware import build_node
from tests.building.records import build_record
from tests.building.scheduling import build_outcome_of
from tests.building.sessions import SampleSession
from tests.building.specs import USER_WORKLOAD, build_spec_text
from tests.building.trials import build_failed_trial, build_full_trial

TRIED = {**USER_WORKLOAD, "settings": {"epochs": 2, "units": 1}, "limits": {"attempts": 2}}
SPEC = build_spec_text(TRIED)
COMPLETE = Outcome("complete", 0.0, 1.0, metrics={"val_accuracy": 0.5})

THREE = {
    **USER_WORKLOAD,
    "configs": 2,
    "space": {"layers": [1, 2]},
    "implementations": ["python/a", "python/b", "python/c"],
    "baseline": "python/b",
    "measure": {"mode": "timing", "interval": 0.02, "slice_s": 0.5},
}
TIMED = build_spec_text(THREE)


@pytest.fixture
def sample(tmp_path: Path) -> SampleSession:
    return SampleSession(tmp_path, SPEC)


def test_the_journal_has_a_trial_before_anybody_else(
    sample: SampleSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sample.assign(), sample.assign()
    sample.session.models = models = mock.Mock()
    sample.session.finish(first, COMPLETE)
    assert [finished.trial for finished in sample.recorded] == [*first.trials]
    stored = sample.state().finished[first.key].outcome
    assert (stored.status, stored.metrics) == (COMPLETE.status, COMPLETE.metrics)

    def full(record: Record) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sample.journal, "append", full)
    with pytest.raises(Stopped, match="No space left"):
        sample.session.finish(second, COMPLETE)
    assert len(sample.recorded) == 1, "the store never has what the journal has not"
    assert (models.write.call_count, models.add.call_count) == (2, 1)


def test_a_file_has_what_runs_and_since_when(sample: SampleSession) -> None:
    first, second = sample.assign(), sample.assign()
    folder = sample.journal.path.parent
    sample.session.show_running()
    ((since_s, text),) = read_running(folder, 0.0)
    assert str(first) in text, "the second one waits for the lane"
    sample.session.finish(first, COMPLETE)
    sample.session.show_running()
    ((later_s, text),) = read_running(folder, since_s)
    assert str(second) in text and later_s > since_s


def test_the_models_of_the_best_trials_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aims: dict[str, Direction] = {"step_ms": "minimize", "val_accuracy": "maximize"}
    accuracies = [(PORTABLE, 0.8), (XLA, 0.5), (PORTABLE, 0.7), (PORTABLE, 0.9), (PORTABLE, 0.85)]
    trials = [
        build_full_trial(
            block, arm, metrics={"val_accuracy": accuracy, "step_ms": 1.0 / (block + 1)}
        )
        for block, (arm, accuracy) in enumerate(accuracies)
    ]
    folder = tmp_path / "models"

    def kept() -> set[str]:
        return {path.stem for path in folder.iterdir()}

    early = build_full_trial(6, metrics={"val_accuracy": 0.99})  # before models were kept
    models = BestModels(folder, aims, [early], newest=1)
    for trial in (*trials[:3], build_failed_trial(5)):
        models.write(trial, b"model")
        models.add(trial)
    models.add(build_full_trial(7, metrics={"val_accuracy": 0.95}))  # one whose model was lost
    first, other, newest, best, _ = (trial.key for trial in trials)
    assert kept() == {first, other, newest}
    (folder / f"{first}.tar").write_bytes(b"")  # the store has it
    models = BestModels(folder, aims, [early, *trials[:3]], newest=1)  # a restart
    with monkeypatch.context() as full, pytest.raises(OSError, match="No space left"):
        full.setattr(Path, "replace", mock.Mock(side_effect=OSError("No space left")))
        models.write(trials[3], b"model")
    assert kept() == {first, other, newest}
    models.write(trials[3], b"model")
    assert kept() == {first, other, newest, best}, "until the better trial is recorded"
    models.add(trials[3])
    assert kept() == {other, best}


def test_the_arm_that_is_chosen_for_the_best_config_keeps_its_model(tmp_path: Path) -> None:
    """XLA is better at another config, and equal to PORTABLE at the best one, and faster."""
    aims: dict[str, Direction] = {"val_mae": "minimize"}
    errors = [(0, XLA, 0.282), (0, PORTABLE, 0.281), (1, XLA, 0.2815), (1, PORTABLE, 0.29)]
    trials = [
        build_full_trial(block, arm, metrics={"val_mae": mae, "train_s": 6.0 if arm == XLA else 70})
        for block, arm, mae in errors
    ]
    models = BestModels(tmp_path, aims, [], newest=1)
    for trial in trials:
        models.write(trial, b"model")
        models.add(trial)
    chosen = choose(build_record(trials, objectives=aims))
    assert (chosen.block, chosen.arm) == (0, XLA)
    assert {trial.key for trial in chosen.trials} <= {trial.key for trial in models.best_trials}
    assert {trial.key for trial in chosen.trials} <= {path.stem for path in tmp_path.iterdir()}


def test_the_settings_of_an_arm_override_those_of_the_spec(sample: SampleSession) -> None:
    (trial,) = sample.assign().trials
    assert sample.session.request(trial).settings == {"epochs": 2, "units": 1, **trial.config}
    short = replace(trial.arm.hardware, usage=Usage(settings={"epochs": 1}))
    deep = Arm("python/a", short, Variant("deep", {"units": 9}))
    settings = sample.session.request(replace(trial, arm=deep)).settings
    assert settings == {**trial.config, "epochs": 1, "units": 9}


@pytest.mark.parametrize(
    ("metric", "hardware", "warned"),
    [("los", ["cpu"], 1), ("val_accuracy", ["cpu", {"class": "cpu", "measure": "timing"}], 0)],
)
def test_an_objective_that_the_arms_it_reads_lack_is_warned_of_once(
    tmp_path: Path, metric: str, hardware: list[Any], warned: int
) -> None:
    sample = SampleSession(
        tmp_path, build_spec_text(TRIED, objectives={metric: "minimize"}, hardware=hardware)
    )
    for _ in range(2 * len(sample.plan.arms)):
        assignment = sample.assign()
        metrics = {"step_ms": 1.0} if assignment.measure == "timing" else COMPLETE.metrics
        sample.session.finish(assignment, replace(COMPLETE, metrics=metrics))
    assert len(sample.warnings) == warned
    assert all("did not report los" in text and ": val_acc" in text for text in sample.warnings)


def test_a_node_is_known_again_with_its_gpus_by_a_trial(tmp_path: Path) -> None:
    node = replace(build_node("a", cpus=4, gpus=4, gpu="Acme 1, 80 GB"), gpu_limit=2)
    sample = SampleSession(tmp_path, build_spec_text(TRIED, hardware=["gpu"]), (node,))
    sample.session.finish(sample.assign(), COMPLETE)
    (known,) = known_nodes([], sample.recorded)
    assert (known.main_class, known.gpus) == (node.main_class, 2)


WHOLE = build_spec_text(THREE, measure="full")


@pytest.mark.parametrize("text", [TIMED, WHOLE], ids=["timing", "full"])
def test_a_round_is_one_record(tmp_path: Path, text: str) -> None:
    sample = SampleSession(tmp_path, text)
    assignment = sample.assign()
    sample.session.finish(
        assignment, *(build_outcome_of(assignment, index, step_ms=5.0) for index in range(3))
    )
    assert len(sample.lines("round_finished")) == 1
    assert sample.lines("trial_finished") == []
    assert list(sample.state().finished) == [trial.key for trial in assignment.trials]
    assert [finished.trial for finished in sample.recorded] == list(assignment.trials)
    assert [finished.round_id for finished in sample.recorded] == ["10.000"] * 3


def test_each_trial_of_a_round_has_its_own_model(tmp_path: Path) -> None:
    sample = SampleSession(tmp_path, WHOLE)
    sample.session.models = models = mock.Mock()
    assignment = sample.assign()
    outcomes = [build_outcome_of(assignment, index) for index in range(3)]
    sample.session.finish(assignment, *outcomes, models=[b"first", b"", b"third"])
    written = [(call.args[0].trial, call.args[1]) for call in models.write.call_args_list]
    assert written == list(zip(assignment.trials, [b"first", b"", b"third"], strict=True))


def test_an_epoch_belongs_to_its_trial_of_the_round(tmp_path: Path) -> None:
    pruned = {"sampler": "tpe", "pruner": "median", "objectives": {"val_accuracy": "maximize"}}
    sample = SampleSession(tmp_path, build_spec_text(THREE, measure="full", **pruned))
    assignment = sample.assign()
    metrics = {"val_accuracy": 0.2}  # which `ConfigLog` prunes
    epochs = [JobProgress(1, metrics, trial=index) for index in (2, 1, 0)]
    ends = [sample.session.take_progress(assignment, epoch) for epoch in epochs]
    assert ends == [False, False, True], "the baseline's epoch decides"
    compiling = JobProgress(0, doing="compiling")
    assert not sample.session.take_progress(assignment, compiling)


FOUR = build_spec_text(THREE, implementations=[f"python/{name}" for name in "abcd"])


@pytest.mark.parametrize("cut", range(5))
def test_an_extended_sweep_that_is_killed_ends_with_whole_rounds(tmp_path: Path, cut: int) -> None:
    sample = SampleSession(tmp_path, TIMED)
    for _ in range(2):
        assignment = sample.assign()
        sample.session.finish(
            assignment, *(build_outcome_of(assignment) for _ in assignment.trials)
        )
    ran = 0
    longer = sample.killed(FOUR)
    while not longer.dispatcher.done:
        assignment = longer.assign()
        if ran == cut:
            longer, ran = longer.killed(FOUR), ran + 1
            continue
        longer.session.finish(
            assignment, *(build_outcome_of(assignment, 100 + ran) for _ in assignment.trials)
        )
        ran += 1
    assert ran <= 3, "each of the two blocks once, and once handed out in vain"
    finished = longer.state().finished.values()
    assert len(finished) == 8
    assert len({(trial.block, trial.round_id) for trial in finished}) == 2


def test_disturbed_trials_are_marked(tmp_path: Path) -> None:
    sample = SampleSession(tmp_path, build_spec_text(TRIED, disturbed={"others_cpu_pct": 40}))
    for others_cpu_pct in (39.0, 41.0):
        assignment = sample.assign()
        outcome = replace(build_outcome_of(assignment), metrics={"others_cpu_pct": others_cpu_pct})
        sample.session.finish(assignment, outcome)
    causes = [list(finished.disturbance) for finished in sample.recorded]
    assert causes == [[], ["other_processes"]]
    assert {finished.status for finished in sample.recorded} == {"complete"}
