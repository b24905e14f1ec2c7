"""The settings of a user's own model that rnnsweep itself reads. Imports no framework."""

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from workloads.settings import BatchSize, StartWeights, TaskSettings, TrainingPlan


class OwnModelSettings(TaskSettings):
    """What rnnsweep reads of the settings of an own model; any other setting is the user's.

    `build` and `load` get all of them as a plain dict.
    """

    model_config = ConfigDict(extra="allow")

    epochs: int = Field(1, ge=1, le=100_000, description="timed epochs")
    batch_size: BatchSize = 32
    timed_steps: int = Field(
        30,
        ge=0,
        le=10_000,
        description="synchronised steps after the epochs, for step_ms_median and step_ms_p95",
    )
    keep: Literal["best"] | None = Field(
        None, description="best: keep the model of each arm's best trial, as a model in MLflow"
    )
    weights: StartWeights = Field(
        "equal",
        description=(
            "equal: all arms of a block start from the same weights, drawn by NumPy. own: each arm"
            " starts from the weights that build gave its model"
        ),
    )

    work_settings: ClassVar[tuple[str, ...]] = ("epochs", "timed_steps")

    def plan(self) -> TrainingPlan:
        """Return how much a trial trains."""
        return TrainingPlan(
            self.batch_size,
            self.epochs,
            self.timed_steps,
            keeps_model=self.keep is not None,
            weights=self.weights,
        )

    def as_user_settings(self) -> dict[str, Any]:
        """Return the settings as the user's functions get them: all of them, by name."""
        return self.model_dump()
