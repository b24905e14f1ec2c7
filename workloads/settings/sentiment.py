"""Settings of `sentiment`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from workloads.data.sources import ReviewSet
from workloads.eligibility import Mask
from workloads.settings.recurrent import RecurrentSettings


class SentimentSettings(RecurrentSettings):
    """Classification of reviews as good or bad; the defaults are those of Keras' IMDb example.

    Embedding(20,000 → 128, padding masked) → bidirectional LSTM(64) → Dropout .5 → Dense(1,
    sigmoid); Adam, batch 32.
    """

    dataset: ReviewSet = Field(
        "imdb", description="imdb (downloaded once by Keras) or python-docs (in every Python)"
    )
    data_path: str | None = Field(
        None, description="an .npz of reviews instead of the download of imdb"
    )
    samples: int | None = Field(
        None, ge=1, description="number of training reviews, the first ones"
    )
    validation_samples: int | None = Field(
        None, ge=1, description="number of validation reviews, the first ones"
    )
    vocabulary: int = Field(20_000, ge=4, le=1_000_000, description="number of different words")
    sequence_length: int = Field(100, ge=1, le=100_000, description="words per review")
    padding: Literal["right", "left"] = Field(
        "right", description="side of the padding of short reviews; cuDNN supports right only"
    )
    masked: bool = Field(
        True, description="skip the padding; PyTorch's and JAX's cudnn kernels take no mask"
    )
    embedding_units: int = Field(128, ge=1, le=16_384, description="width of the embedding")
    units: int = Field(64, ge=1, le=16_384, description="width of each recurrent layer")
    bidirectional: bool = Field(True, description="every layer in both directions, concatenated")
    dropout: float = Field(0.5, ge=0, lt=1, description="dropout after every recurrent layer")

    @model_validator(mode="after")
    def _data_path_is_for_imdb(self) -> Self:
        if self.data_path is not None and self.dataset != "imdb":
            raise ValueError(
                f"data_path is read for dataset imdb only, but dataset is {self.dataset!r}:"
                " remove data_path or set dataset to imdb"
            )
        return self

    @property
    def mask(self) -> Mask:
        """The side of the sequences' padding, if it is masked."""
        return self.padding if self.masked else "none"
