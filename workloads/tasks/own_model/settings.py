"""The settings of a user's own model that rnnsweep itself reads. Imports no framework."""

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_validator

from workloads.settings import BatchSize, MetricGoal, StartWeights, TaskSettings, TrainingPlan


class OwnModelSettings(TaskSettings):
    """The settings of an own model that rnnsweep reads; all others are the user's.

    `build` and `load` get all settings as a plain dict.
    """

    model_config = ConfigDict(extra="allow")

    epochs: int = Field(1, ge=1, le=100_000, description="timed epochs")
    batch_size: BatchSize = 32
    timed_steps: int = Field(
        30,
        ge=0,
        le=10_000,
        description="steps timed one by one after the epochs, for step_ms_median and step_ms_p95",
    )
    target_accuracy: float | None = Field(
        None, gt=0, le=1, description="report the training time until val_accuracy reaches this"
    )
    keep: Literal["best"] | None = Field(
        None,
        description="best: keep in MLflow, for each arm, the models of its own best config and of"
        " the sweep's best config",
    )
    weights: StartWeights = Field(
        "equal",
        description=(
            "equal: all arms of a block start from the same weights, drawn by NumPy. own: each arm"
            " starts from the weights of the model that build returns"
        ),
    )
    class_weight: dict[int, float] | None = Field(
        None, description="the weight of each class in the loss, by number, as in Keras' fit"
    )

    shuffle: bool | None = Field(
        None,
        description=(
            "false: train in the order of the data. true: shuffle the samples by the seed. The"
            " default is true, or false for a model that carries its state from batch to batch"
        ),
    )

    work_settings: ClassVar[tuple[str, ...]] = ("epochs", "timed_steps")

    @field_validator("class_weight", mode="before")
    @classmethod
    def _classes_are_numbers(cls, weights: Any) -> Any:
        """Turn names such as "0" into numbers: JSON has no others."""
        if not isinstance(weights, dict):
            return weights
        return {
            int(name) if isinstance(name, str) and name.isdecimal() else name: weight
            for name, weight in weights.items()
        }

    def plan(self) -> TrainingPlan:
        """Return how much a trial trains."""
        goal = None
        if self.target_accuracy is not None:
            goal = MetricGoal("val_accuracy", self.target_accuracy, "time_to_accuracy_s")
        return TrainingPlan(
            self.batch_size,
            self.epochs,
            self.timed_steps,
            goal,
            keeps_model=self.keep is not None,
            class_weight=self.class_weight,
            weights=self.weights,
            shuffle=self.shuffle,
        )

    def as_user_settings(self) -> dict[str, Any]:
        """Return the settings as the user's functions get them: all of them, by name."""
        return self.model_dump()
