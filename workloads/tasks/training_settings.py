"""The settings of every built-in workload that trains on data. Imports no framework."""

from typing import ClassVar, Literal

from pydantic import Field

from workloads.data.sources import data_digest, expect_available
from workloads.settings import StackSettings, TrainingPlan, UpTo10


class TrainingSettings(StackSettings):
    """A stack that is trained; the settings of a workload add its head, and name its data sets."""

    learning_rate: UpTo10 = Field(1e-3, description="the optimizer's learning rate")
    epochs: int = Field(1, ge=1, le=100_000, description="timed epochs")
    timed_steps: int = Field(
        30,
        ge=0,
        le=10_000,
        description="synchronised steps after the epochs, for step_ms_median and step_ms_p95",
    )
    keep: Literal["best"] | None = Field(
        None, description="best: keep the model of each arm's best trial, as a model in MLflow"
    )
    dataset: str = Field(description="the name of the data set")

    data_settings: ClassVar[tuple[str, ...]] = ("dataset",)
    work_settings: ClassVar[tuple[str, ...]] = (
        "epochs",
        "timed_steps",
        "samples",
        "validation_samples",
    )

    def plan(self) -> TrainingPlan:
        """Return how much a trial trains."""
        return TrainingPlan(
            self.batch_size, self.epochs, self.timed_steps, keeps_model=self.keep is not None
        )

    def data_digest(self) -> str:
        """Return the SHA-256 of the data set, or raise `DataError` if it is missing here."""
        return data_digest(self.dataset)

    def expect_data(self) -> None:
        """Raise `DataError` if the data set is neither on this machine nor to be downloaded."""
        expect_available(self.dataset)
