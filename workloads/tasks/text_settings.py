"""The settings that workloads on a text share. Imports no framework."""

from typing import Self

from pydantic import Field, model_validator

from workloads.data.sources import CorpusName
from workloads.settings import SequenceLength, Width
from workloads.tasks.training_settings import TrainingSettings


class TextSettings(TrainingSettings):
    """A stack between an embedding and a softmax over the vocabulary."""

    dataset: CorpusName = Field(
        "python-docs",
        description="python-docs (in every Python), shakespeare (downloaded once), zipf"
        " (synthetic) or file",
    )
    data_path: str | None = Field(
        None,
        description="a file of UTF-8 text, for dataset file or instead of the download of"
        " shakespeare",
    )
    vocabulary: int = Field(
        128,
        ge=2,
        le=1_000_000,
        description="number of different tokens, including the unknown one",
    )
    sequence_length: SequenceLength = 64
    embedding_units: Width = Field(64, description="width of the embedding")

    datasets_with_path = ("file", "shakespeare")

    @model_validator(mode="after")
    def _expect_path_of_file(self) -> Self:
        if self.dataset == "file" and self.data_path is None:
            raise ValueError("dataset file needs data_path, the path of a UTF-8 text")
        return self
