"""The settings of `image_rows`. Imports no framework."""

from typing import Literal, TypeAlias

from pydantic import Field

from workloads.settings import Layers, Rate, TrainingSamples, ValidationSamples, Width
from workloads.tasks.training_settings import TrainingSettings

ImageSet: TypeAlias = Literal["digits", "mnist"]


class ImageRowsSettings(TrainingSettings):
    """Classification of images whose rows are a sequence; the defaults are the published model.

    LSTM(128, sequences) → Dropout .2 → LSTM(128) → Dropout .1 → Dense(32, relu) → Dropout .2 →
    Dense(10, softmax), as in the mnist-CuDNNLSTM comparison, with tanh on both sides.
    """

    dataset: ImageSet = Field("digits", description="digits (8×8, bundled) or mnist (28×28)")
    data_path: str | None = Field(
        None, description="an .npz with x_train, y_train, x_test, y_test instead of the download"
    )
    samples: TrainingSamples = None
    validation_samples: ValidationSamples = None
    layers: Layers = 2
    dropout: Rate = Field(
        0.2, description="dropout after every layer; half of it after the last recurrent one"
    )
    dense_units: Width = Field(32, description="width of the dense layer")
    decay: float = Field(
        1e-5, ge=0, le=1, description="learning rate at step i is learning_rate / (1 + decay · i)"
    )
    epochs: int = Field(3, ge=1, le=100_000, description="timed epochs")

    datasets_with_path = ("mnist",)
