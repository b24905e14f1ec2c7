"""Settings of recurrent layers and of training that the built-in workloads share."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from workloads.eligibility import SIMPLE_CELLS, Cell, LayerTraits, Mask

Activation: TypeAlias = Literal["tanh", "sigmoid", "relu", "hard_sigmoid", "linear"]


class StackSettings(BaseModel):
    """A stack of equal recurrent layers, and the batch size."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cell: Cell = Field("lstm", description="the recurrent cell")
    units: int = Field(128, ge=1, le=16_384, description="width of each recurrent layer")
    layers: int = Field(1, ge=1, le=32, description="number of recurrent layers")
    bidirectional: bool = Field(False, description="every layer in both directions, concatenated")
    activation: Activation = Field(
        "tanh", description="activation of lstm and gru; cuDNN has tanh only; rnn_relu has its own"
    )
    recurrent_activation: Activation = Field(
        "sigmoid", description="activation of the gates of lstm and gru; cuDNN has sigmoid only"
    )
    recurrent_dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout on the recurrent state; cuDNN has none"
    )
    use_bias: bool = Field(True, description="bias in the recurrent layers; cuDNN needs it")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout after every recurrent layer")
    batch_size: int = Field(32, ge=1, le=1_000_000, description="samples per step")

    @model_validator(mode="after")
    def _simple_cells_are_named_by_their_activation(self) -> Self:
        if self.cell in SIMPLE_CELLS and (self.activation, self.recurrent_activation) != (
            "tanh",
            "sigmoid",
        ):
            raise ValueError(
                f"cell {self.cell!r} has a fixed activation: remove activation and"
                " recurrent_activation"
            )
        return self

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
        return LayerTraits(
            cell=self.cell,
            activation=self.activation,
            recurrent_activation=self.recurrent_activation,
            recurrent_dropout=self.recurrent_dropout,
            use_bias=self.use_bias,
            layers=self.layers,
            bidirectional=self.bidirectional,
            dropout=self.dropout,
            mask=self.mask,
            stateful=self.stateful,
        )


class RecurrentSettings(StackSettings):
    """A stack that is trained; the settings of a workload add its data and its head."""

    learning_rate: float = Field(1e-3, gt=0, le=10, description="the optimizer's learning rate")
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
