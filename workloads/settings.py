"""The settings of each built-in workload: names, bounds, defaults, and what each one means.

Imports no framework: a spec is checked against these models before anything runs.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from workloads.data.sources import ImageSet
from workloads.implementations import LayerTraits

Activation = Literal["tanh", "sigmoid", "relu", "hard_sigmoid", "linear"]


class ImageRowsSettings(BaseModel):
    """An image's rows as a sequence, classified; the defaults are the published model.

    LSTM(128, sequences) → Dropout .2 → LSTM(128) → Dropout .1 → Dense(32, relu) → Dropout .2 →
    Dense(10, softmax), as in the mnist-CuDNNLSTM comparison, with tanh on both sides.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    dataset: ImageSet = Field("digits", description="digits (8×8, bundled) or mnist (28×28)")
    data_path: str | None = Field(
        None, description="an .npz with x_train, y_train, x_test, y_test, instead of the download"
    )
    samples: int | None = Field(None, ge=1, description="train on the first so many images only")
    validation_samples: int | None = Field(
        None, ge=1, description="validate on the first so many images only"
    )
    cell: Literal["lstm", "gru"] = Field("lstm", description="the recurrent cell")
    units: int = Field(128, ge=1, le=16_384, description="width of each recurrent layer")
    layers: int = Field(2, ge=1, le=32, description="number of recurrent layers")
    activation: Activation = Field("tanh", description="cuDNN can do tanh only")
    recurrent_activation: Activation = Field("sigmoid", description="cuDNN can do sigmoid only")
    recurrent_dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout on the recurrent state; cuDNN has none"
    )
    use_bias: bool = Field(True, description="bias in the recurrent layers; cuDNN needs it")
    dropout: float = Field(
        0.2,
        ge=0,
        lt=1,
        description="after every layer; half of it after the last recurrent one, as published",
    )
    dense_units: int = Field(32, ge=1, le=16_384, description="width of the dense layer")
    learning_rate: float = Field(1e-3, gt=0, le=10, description="Adam's initial learning rate")
    decay: float = Field(
        1e-5, ge=0, le=1, description="learning rate at step i is learning_rate / (1 + decay · i)"
    )
    batch_size: int = Field(32, ge=1, le=1_000_000, description="samples per step")
    epochs: int = Field(3, ge=1, le=100_000, description="timed epochs")
    precision: Literal["float32", "tf32"] = Field(
        "float32", description="tf32 lets a GPU's tensor cores round the inputs of float32 products"
    )
    target_accuracy: float | None = Field(
        None, gt=0, le=1, description="report the training seconds until val_accuracy reaches this"
    )

    @model_validator(mode="after")
    def _data_path_is_for_mnist(self) -> Self:
        if self.data_path is not None and self.dataset != "mnist":
            raise ValueError(
                f"data_path is read for dataset mnist only, but dataset is {self.dataset!r}:"
                " remove data_path or set dataset to mnist"
            )
        return self

    def traits(self) -> LayerTraits:
        """What decides which kernel may run these layers."""
        return LayerTraits(
            cell=self.cell,
            activation=self.activation,
            recurrent_activation=self.recurrent_activation,
            recurrent_dropout=self.recurrent_dropout,
            use_bias=self.use_bias,
        )
