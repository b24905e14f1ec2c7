"""Settings of `image_rows`."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from workloads.data.sources import ImageSet
from workloads.settings.recurrent import RecurrentSettings


class ImageRowsSettings(RecurrentSettings):
    """Classification of images whose rows are a sequence; the defaults are the published model.

    LSTM(128, sequences) → Dropout .2 → LSTM(128) → Dropout .1 → Dense(32, relu) → Dropout .2 →
    Dense(10, softmax), as in the mnist-CuDNNLSTM comparison, with tanh on both sides.
    """

    dataset: ImageSet = Field("digits", description="digits (8×8, bundled) or mnist (28×28)")
    data_path: str | None = Field(
        None, description="an .npz with x_train, y_train, x_test, y_test instead of the download"
    )
    samples: int | None = Field(None, ge=1, description="number of training images, the first ones")
    validation_samples: int | None = Field(
        None, ge=1, description="number of validation images, the first ones"
    )
    layers: int = Field(2, ge=1, le=32, description="number of recurrent layers")
    dropout: float = Field(
        0.2,
        ge=0,
        lt=1,
        description="dropout after every layer; half of it after the last recurrent one",
    )
    dense_units: int = Field(32, ge=1, le=16_384, description="width of the dense layer")
    learning_rate: float = Field(1e-3, gt=0, le=10, description="Adam's initial learning rate")
    decay: float = Field(
        1e-5, ge=0, le=1, description="learning rate at step i is learning_rate / (1 + decay · i)"
    )
    epochs: int = Field(3, ge=1, le=100_000, description="timed epochs")

    @model_validator(mode="after")
    def _data_path_is_for_mnist(self) -> Self:
        if self.data_path is not None and self.dataset != "mnist":
            raise ValueError(
                f"data_path is read for dataset mnist only, but dataset is {self.dataset!r}:"
                " remove data_path or set dataset to mnist"
            )
        return self
