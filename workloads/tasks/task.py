"""The interface of a task: a model, its data, and what is special about its training.

Each built-in workload is one, in a folder of `workloads/tasks/`. A spec can name your own as
`workload: package.module:NAME`, where `NAME` is a `Task`.

The life of a trial:

1. In the orchestrator, without any framework, `settings_model` has checked the settings of a built-
   in task, and said whether its layers can run on each implementation (`traits`) and which data it
   reads (`data_digest`). A user's own task is not imported there: its settings are checked in step
   2.
2. In a trainer process of the arm's backend, `workloads.trainer` imports the task, checks settings
   and implementation, and calls `workloads.measuring.measurement.measure`.
3. In the phase `load`, `measure` calls `load`, then `build`, which returns a compiled Keras model.
   Its weights are then set to initial values that depend on the trial's seed and on the names and
   shapes of the variables only: they are equal on all arms of a block. The model then gets the
   kernel and the compilation of the implementation (`workloads.models.rewriting`).
4. In the phase `compile`, all functions run once on every shape of a batch; then model and
   optimizer are set back to their start.
5. The timed part: whole epochs, as many as `plan` says, or slices on command (`measure: timing`).
   For a task with `timed="passes"` it is passes of the model instead, without an optimizer.
6. The kernel that ran is read from the backend, for the recurrent layers that the model has.
7. After a whole training, `finish` may add metrics and texts; single steps are timed; the model is
   kept if `plan` says so, as its author wrote it: `build` is called once more.

Nothing outside the task's own modules knows its settings, its layers, its loss or its metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from workloads.context import Context
from workloads.settings import SettingsType, TrainingPlan, check_settings

if TYPE_CHECKING:
    from workloads.data.samples import DataSet

DataType = TypeVar("DataType", bound="DataSet")

Timed: TypeAlias = Literal["training", "passes"]


@dataclass(frozen=True, slots=True)
class Trained(Generic[DataType]):
    """A model after its whole training: its data, and the metrics of its last epoch."""

    model: Any
    data: DataType
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[SettingsType, DataType]):
    """A workload that rnnsweep trains and times: its settings, its data, its model.

    The functions run in a trainer process. Import Keras inside them, or in a module that only they
    use. An example is `workloads.tasks.next_token.task`.
    """

    settings_model: type[SettingsType]
    """The settings, with bounds and defaults; each function gets an instance first."""

    load: Callable[[SettingsType, int], DataType]
    """Returns the data, as arrays whose first axis counts samples; raises `DataError`.

    Called once in a trial, with the settings and the trial's seed. All trials of a sweep must get
    the same data, so use the seed only for random input, as `synthetic` does.
    """

    build: Callable[[SettingsType, Context, DataType], Any]
    """Returns an ordinary compiled Keras model for the data.

    Called once in a trial, and again if the model is kept. Build the same model for every arm: its
    recurrent layers get the arm's kernel afterwards. Use `trial.seed` for dropout; initial weights
    need no seed, because they are replaced.
    """

    plan: Callable[[SettingsType], TrainingPlan]
    """Returns the batch size, the epochs and so on. Called once, after `build`."""

    finish: Callable[[SettingsType, Context, Trained[DataType]], Mapping[str, float]] | None = None
    """Returns more metrics of a trained model.

    Called once after a whole training, but not for a pruned trial or one in slices. It may time
    phases of its own (`trial.phase`) and store texts (`trial.artifact`).
    """

    callbacks: Callable[[SettingsType], list[Any]] | None = None
    """Returns new Keras callbacks for a whole training, which work at the edges of its epochs.

    Called once in a trial, after the warm-up; never for a trial in slices.
    """

    timed: Timed = "training"
    """What is timed: training as by Keras' `fit`, or passes of the model over its first batch."""

    def check_settings(self, settings: Mapping[str, Any]) -> SettingsType:
        """Return the checked settings with all defaults, or raise pydantic's `ValidationError`."""
        return check_settings(self.settings_model, settings)
