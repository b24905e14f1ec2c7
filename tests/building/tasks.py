"""Tasks by their names, and the Keras models that a trial of theirs trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workloads.context import Context
from workloads.entry import load_entry
from workloads.measuring import measurement
from workloads.registry import find_workload
from workloads.tasks.task import Task

if TYPE_CHECKING:
    from workloads.models.training_run import TrainingRun


def find_task(name: str) -> Task[Any, Any]:
    task = load_entry(find_workload(name))
    assert isinstance(task, Task)
    return task


def load_and_build(task: Task[Any, Any], settings: Any, trial: Context) -> tuple[Any, TrainingRun]:
    from workloads.models.training_run import TrainingRun  # noqa: PLC0415 - imports the framework

    data, run = measurement.load_and_build(task, settings, trial)
    assert isinstance(run, TrainingRun)
    return data, run
