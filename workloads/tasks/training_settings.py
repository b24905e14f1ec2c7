"""The settings of every built-in workload that trains on data. Imports no framework."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from workloads.data.sources import data_digest, expect_available
from workloads.settings import LearningRate, MetricGoal, StackSettings, TrainingPlan


class TrainingSettings(StackSettings):
    """A stack that is trained; the settings of a workload add its head, and name its data sets."""

    learning_rate: LearningRate = 1e-3
    epochs: int = Field(1, ge=1, le=100_000, description="timed epochs")
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
    dataset: str = Field(description="the name of the data set")
    data_path: str | None = Field(None, description="the file of the data set")

    data_settings: ClassVar[tuple[str, ...]] = ("dataset", "data_path")
    work_settings: ClassVar[tuple[str, ...]] = (
        "epochs",
        "timed_steps",
        "samples",
        "validation_samples",
    )

    datasets_with_path: ClassVar[tuple[str, ...]] = ()
    """The data sets that are read from `data_path`."""

    @model_validator(mode="after")
    def _data_path_goes_with_the_dataset(self) -> Self:
        if self.data_path is not None and self.dataset not in self.datasets_with_path:
            raise ValueError(
                f"data_path is only for dataset {' or '.join(self.datasets_with_path)}, not for"
                f" {self.dataset!r}: remove data_path, or set dataset to"
                f" {self.datasets_with_path[0]}"
            )
        return self

    def plan(self) -> TrainingPlan:
        """Return how much a trial trains."""
        goal = None
        if self.target_accuracy is not None:
            goal = MetricGoal("val_accuracy", self.target_accuracy, "time_to_accuracy_s")
        return TrainingPlan(
            self.batch_size, self.epochs, self.timed_steps, goal, keeps_model=self.keep is not None
        )

    def data_digest(self) -> str:
        """Return the SHA-256 of the data set, or raise `DataError` if it is missing here."""
        return data_digest(self.dataset, self.data_path)

    def expect_data(self) -> None:
        """Raise `DataError` if the data set is neither on this machine nor to be downloaded."""
        expect_available(self.dataset, self.data_path)
