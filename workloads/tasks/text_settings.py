"""The settings that workloads on a text share. Imports no framework."""

from typing import Self

from pydantic import Field, model_validator

from workloads.data.sources import CorpusName, data_digest, expect_available
from workloads.settings import Length, Width
from workloads.tasks.training_settings import TrainingSettings


class TextSettings(TrainingSettings):
    """A stack between an embedding and a softmax over the vocabulary."""

    dataset: CorpusName = Field(
        "python-docs",
        description="python-docs (in every Python), shakespeare (downloaded once), zipf"
        " (synthetic) or file",
    )
    data_path: str | None = Field(None, description="a UTF-8 text for dataset file")
    vocabulary: int = Field(
        128,
        ge=2,
        le=1_000_000,
        description="number of different tokens, including the unknown one",
    )
    sequence_length: Length = Field(64, description="tokens per sequence")
    embedding_units: Width = Field(64, description="width of the embedding")

    data_settings = (*TrainingSettings.data_settings, "data_path")

    @model_validator(mode="after")
    def _a_file_has_a_path(self) -> Self:
        if self.dataset == "file" and self.data_path is None:
            raise ValueError("dataset file: expected data_path, the path of a UTF-8 text")
        if self.dataset != "file" and self.data_path is not None:
            raise ValueError(
                f"data_path is read for dataset file only, but dataset is {self.dataset!r}: remove"
                " data_path or set dataset to file"
            )
        return self

    def data_digest(self) -> str:
        """Return the SHA-256 of the text, or raise `DataError` if it is missing here."""
        return data_digest(self.dataset, self.data_path)

    def expect_data(self) -> None:
        """Raise `DataError` if the text is neither on this machine nor to be downloaded."""
        expect_available(self.dataset, self.data_path)
