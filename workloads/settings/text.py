"""Settings that the text workloads share."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from workloads.data.sources import CorpusName
from workloads.settings.recurrent import RecurrentSettings


class TextSettings(RecurrentSettings):
    """A stack between an embedding and a softmax over the vocabulary."""

    dataset: CorpusName = Field(
        "python-docs",
        description="python-docs (in every Python), shakespeare (downloaded once), zipf (synthetic)"
        " or file",
    )
    data_path: str | None = Field(
        None, description="a UTF-8 text for dataset file, or instead of the download of shakespeare"
    )
    vocabulary: int = Field(
        128, ge=2, le=1_000_000, description="number of different tokens, including the unknown one"
    )
    sequence_length: int = Field(64, ge=1, le=100_000, description="tokens per sequence")
    embedding_units: int = Field(64, ge=1, le=16_384, description="width of the embedding")

    @model_validator(mode="after")
    def _data_path_goes_with_the_dataset(self) -> Self:
        if self.dataset == "file" and self.data_path is None:
            raise ValueError("dataset file: expected data_path, the path of a UTF-8 text")
        if self.dataset in ("python-docs", "zipf") and self.data_path is not None:
            raise ValueError(
                f"data_path is read for dataset file or shakespeare, but dataset is"
                f" {self.dataset!r}: remove data_path or set dataset to file"
            )
        return self
