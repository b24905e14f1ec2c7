"""Settings of recurrent layers and of training that the built-in workloads share."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from workloads.eligibility import SIMPLE_CELLS, Cell, LayerTraits, Mask

Activation: TypeAlias = Literal["tanh", "sigmoid", "relu", "hard_sigmoid", "linear"]
Units: TypeAlias = Annotated[
    int, Field(ge=1, le=16_384, description="width of each recurrent layer")
]
Layers: TypeAlias = Annotated[int, Field(ge=1, le=32, description="number of recurrent layers")]
BatchSize: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000, description="samples per step")]
Rate: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
UpTo10: TypeAlias = Annotated[float, Field(gt=0, le=10)]
Width: TypeAlias = Annotated[int, Field(ge=1, le=16_384)]
Length: TypeAlias = Annotated[int, Field(ge=1, le=100_000)]
Count: TypeAlias = Annotated[int | None, Field(ge=1)]
Bidirectional: TypeAlias = Annotated[
    bool, Field(description="every layer in both directions, concatenated")
]


class StackSettings(BaseModel):
    """A stack of equal recurrent layers, and the batch size."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cell: Cell = Field("lstm", description="the recurrent cell")
    units: Units = 128
    layers: Layers = 1
    bidirectional: Bidirectional = False
    activation: Activation = Field(
        "tanh", description="activation of lstm and gru; cuDNN has tanh only; rnn_relu has its own"
    )
    recurrent_activation: Activation = Field(
        "sigmoid", description="activation of the gates of lstm and gru; cuDNN has sigmoid only"
    )
    recurrent_dropout: Rate = Field(
        0.0, description="dropout on the recurrent state; cuDNN has none"
    )
    use_bias: bool = Field(True, description="bias in the recurrent layers; cuDNN needs it")
    dropout: Rate = Field(0.0, description="dropout after every recurrent layer")
    batch_size: BatchSize = 32

    @model_validator(mode="after")
    def _simple_cells_are_named_by_their_activation(self) -> Self:
        usual = ("tanh", "sigmoid")
        if self.cell in SIMPLE_CELLS and (self.activation, self.recurrent_activation) != usual:
            raise ValueError(
                f"cell {self.cell!r} has a fixed activation: remove activation and"
                " recurrent_activation"
            )
        return self

    @property
    def directions(self) -> int:
        """1 or 2."""
        return 2 if self.bidirectional else 1

    @property
    def mask(self) -> Mask:
        """The side of the sequences' padding."""
        return "none"

    @property
    def stateful(self) -> bool:
        """True if a batch starts from the final states of the previous one."""
        return False

    def traits(self) -> LayerTraits:
        """Return the traits that decide which kernel may run these layers."""
        names = LayerTraits.__dataclass_fields__
        return LayerTraits(**{name: getattr(self, name) for name in names})


class RecurrentSettings(StackSettings):
    """A stack that is trained; the settings of a workload add its data and its head."""

    learning_rate: UpTo10 = Field(1e-3, description="the optimizer's learning rate")
    epochs: int = Field(1, ge=1, le=100_000, description="timed epochs")
    timed_steps: int = Field(
        30,
        ge=0,
        le=10_000,
        description="synchronised steps after the epochs, for step_ms_median and step_ms_p95",
    )
    target_accuracy: float | None = Field(
        None, gt=0, le=1, description="report the training seconds until val_accuracy reaches this"
    )


def expect_data_path(settings: Any, dataset: str, *others: str) -> None:
    """Refuse a path of data for any other data set.

    Raises:
        ValueError: `data_path` is set, and the data set is not one of these.
    """
    if settings.data_path is not None and settings.dataset not in (dataset, *others):
        raise ValueError(
            f"data_path is read for dataset {' or '.join((dataset, *others))} only, but dataset is"
            f" {settings.dataset!r}: remove data_path or set dataset to {dataset}"
        )
