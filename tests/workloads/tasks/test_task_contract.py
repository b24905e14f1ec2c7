"""What every task promises, built in or a user's own: one suite for all of them.

The foreign one is a file outside of the packages, which nothing registers.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.building.tasks import find_task
from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from tests.workloads.tasks.small_settings import SMALL
from workloads import protocol
from workloads.registry import find_workload
from workloads.settings import check_settings
from workloads.tasks.task import Task

FOREIGN = "tests.workloads.examples.forecast:TASK"


@dataclass(frozen=True)
class Case:
    workload: str
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> Task[Any, Any]:
        return find_task(self.workload)

    @property
    def checked(self) -> Any:
        return self.task.check_settings(self.settings)


FOREIGN_CASE = Case(FOREIGN, {"units": 4, "cell": "gru", "samples": 70})
CASES = {
    "foreign": FOREIGN_CASE,
    **{workload: Case(workload, settings) for workload, settings in SMALL.items()},
}

each_task = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=() if name == "foreign" else pytest.mark.full)
        for name, case in CASES.items()
    ],
)


@each_task
def test_a_whole_trial_runs_its_plan_and_proves_its_kernel(trainer: Trainer, case: Case) -> None:
    events = trainer.ask(case.workload, "tensorflow/portable", settings=case.settings, seed=3)
    metrics, proof = result(events), single_event(events, protocol.KernelProof)
    assert (proof.asked, proof.ran) == ("portable", "portable")
    assert metrics["step_ms"] > 0 and metrics["model_flops_per_step"] > 0
    plan, data = case.task.plan(case.checked), case.task.load(case.checked, 3)
    if case.task.timed == "passes":
        return
    epochs = [event for event in events if isinstance(event, protocol.Epoch)]
    assert [event.index for event in epochs] == list(range(plan.epochs))
    assert epochs[-1].metrics.items() <= metrics.items()
    reported = single_event(events, protocol.Dataset)
    assert (reported.name, reported.digest) == (data.name, data.digest)
    assert reported.samples == len(data.train)


@each_task
def test_a_trial_in_slices_runs_whole_steps_and_proves_its_kernel(
    trainer: Trainer, case: Case
) -> None:
    request = protocol.TrialRequest(
        case.workload, "tensorflow/portable", case.settings, measure="timing", slice_s=0.02
    )
    for line in (request, protocol.Slice(), protocol.Slice(), protocol.Finish()):
        trainer.send(protocol.encode_message(line))
    events = trainer.events_of_trial()
    metrics, proof = result(events), single_event(events, protocol.KernelProof)
    assert proof.ran == proof.asked
    assert metrics["slices"] == 2
    assert not [event for event in events if isinstance(event, protocol.Epoch)]


def test_a_wrong_setting_of_a_foreign_task_is_refused_by_the_trainer(trainer: Trainer) -> None:
    failed = failure(trainer.ask(FOREIGN, "tensorflow/portable", settings={"window": 1}))
    assert (failed.kind, "window" in failed.message) == ("bad_request", True), failed


def test_the_orchestrator_knows_a_foreign_task_by_its_name_alone() -> None:
    foreign = find_workload(FOREIGN)
    assert not foreign.is_built_in
    assert foreign.resolve({"window": 1}) is None


def test_equal_settings_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, checks = find_task(FOREIGN).settings_model, list[dict[str, Any]]()
    validate = model.model_validate

    def count(settings: dict[str, Any]) -> Any:
        checks.append(settings)
        return validate(settings)

    monkeypatch.setattr(model, "model_validate", count)
    settings = {"units": 5, "window": 31}
    assert check_settings(model, settings) is check_settings(model, dict(settings))
    assert len(checks) == 1
    check_settings(model, {**settings, "dropout": 0})
    check_settings(model, {**settings, "dropout": 0.0})
    assert len(checks) == 3, "an integer and a float are not the same setting"
