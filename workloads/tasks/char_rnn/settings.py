"""The settings of `char_rnn`. Imports no framework."""

from typing import Literal, Self

from pydantic import Field, model_validator

from workloads.settings import (
    BatchSize,
    Layers,
    LearningRate,
    Rate,
    SequenceLength,
    TrainingSamples,
    Units,
    UpTo10,
    ValidationSamples,
    Width,
)
from workloads.tasks.text_settings import TextSettings


class CharRnnSettings(TextSettings):
    """A character-level language model, with the defaults of MyCaffe's Char-RNN.

    Embedding(128 → 15) → LSTM(512) → LSTM(512) → Dense(softmax) at each of 75 characters, 25
    parallel streams of text, whose states continue from batch to batch; SGD 0.05, momentum 0.9.
    """

    batches: Literal["stateful", "windows"] = Field(
        "stateful",
        description="stateful: each batch continues the text and the states of the one before;"
        " windows: each sequence starts from zero states",
    )
    samples: TrainingSamples = None
    validation_samples: ValidationSamples = None
    sequence_length: SequenceLength = 75
    embedding_units: Width = Field(15, description="width of the embedding")
    units: Units = 512
    layers: Layers = 2
    dropout: Rate = Field(
        0.3, description="dropout after the recurrent layers that dropout_after chooses"
    )
    dropout_after: Literal["between", "all"] = Field(
        "between",
        description="between: all layers but the last, as in MyCaffe's cuDNN version; all: every"
        " layer, as in its Caffe version",
    )
    learning_rate: LearningRate = 0.05
    momentum: Rate = Field(0.9, description="SGD's momentum")
    batch_size: BatchSize = 25
    sample_characters: int = Field(
        500, ge=0, le=100_000, description="characters of the text sample; 0: no sample"
    )
    temperature: UpTo10 = Field(0.8, description="temperature of the text sample")

    work_settings = (*TextSettings.work_settings, "sample_characters")

    @model_validator(mode="after")
    def _reads_forward_only(self) -> Self:
        if self.bidirectional:
            raise ValueError(
                "bidirectional must be false, because the backward direction would read the"
                " character to predict; next_token can have both directions"
            )
        return self

    @property
    def stateful(self) -> bool:
        """True if a batch starts from the final states of the previous one."""
        return self.batches == "stateful"
