"""The settings of `sentiment`. Imports no framework."""

from typing import Literal, TypeAlias

from pydantic import Field

from workloads.layer_traits import Mask
from workloads.settings import (
    Bidirectional,
    Dropout,
    SequenceLength,
    TrainingSamples,
    Units,
    ValidationSamples,
    Width,
)
from workloads.tasks.training_settings import TrainingSettings

ReviewSet: TypeAlias = Literal["imdb", "python-docs"]


class SentimentSettings(TrainingSettings):
    """Classification of reviews as good or bad, with the defaults of Keras' IMDb example.

    Embedding(20,000 → 128, padding masked) → bidirectional LSTM(64) → Dropout .5 → Dense(1,
    sigmoid); Adam, batch 32.
    """

    dataset: ReviewSet = Field(
        "imdb", description="imdb (downloaded once by Keras) or python-docs (in every Python)"
    )
    data_path: str | None = Field(
        None, description="an .npz of padded reviews instead of the download of imdb"
    )
    samples: TrainingSamples = None
    validation_samples: ValidationSamples = None
    vocabulary: int = Field(20_000, ge=4, le=1_000_000, description="number of different words")
    sequence_length: SequenceLength = 100
    padding: Literal["right", "left"] = Field(
        "right",
        description="side of the padding of short reviews, right or left (cuDNN: right only)",
    )
    masked: bool = Field(
        True, description="skip the padding; PyTorch's and JAX's cudnn kernels take no mask"
    )
    embedding_units: Width = Field(128, description="width of the embedding")
    units: Units = 64
    bidirectional: Bidirectional = True
    dropout: Dropout = 0.5

    datasets_with_path = ("imdb",)

    @property
    def mask(self) -> Mask:
        """The side of the sequences' padding, if it is masked."""
        return self.padding if self.masked else "none"
