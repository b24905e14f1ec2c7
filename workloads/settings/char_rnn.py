"""Settings of `char_rnn`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from workloads.settings.text import TextSettings


class CharRnnSettings(TextSettings):
    """A character-level language model; the defaults are those of MyCaffe's Char-RNN.

    Embedding(128 → 15) → LSTM(512) → LSTM(512) → Dense(softmax) at each of 75 characters, 25
    parallel streams of text, whose states continue from batch to batch; SGD 0.05, momentum 0.9.
    """

    batches: Literal["stateful", "windows"] = Field(
        "stateful",
        description="streams that keep states from batch to batch, or windows that start at zero",
    )
    samples: int | None = Field(
        None, ge=1, description="number of training sequences, the first ones"
    )
    validation_samples: int | None = Field(
        None, ge=1, description="number of validation sequences, the first ones"
    )
    sequence_length: int = Field(75, ge=1, le=100_000, description="characters per sequence")
    embedding_units: int = Field(15, ge=1, le=16_384, description="width of the embedding")
    units: int = Field(512, ge=1, le=16_384, description="width of each recurrent layer")
    layers: int = Field(2, ge=1, le=32, description="number of recurrent layers")
    dropout: float = Field(
        0.3,
        ge=0,
        lt=1,
        description="dropout between the recurrent layers (with all: after the last too)",
    )
    dropout_after: Literal["between", "all"] = Field(
        "between", description="between: as MyCaffe's cuDNN version; all: as its Caffe version"
    )
    learning_rate: float = Field(0.05, gt=0, le=10, description="SGD's learning rate")
    momentum: float = Field(0.9, ge=0, lt=1, description="SGD's momentum")
    batch_size: int = Field(25, ge=1, le=1_000_000, description="sequences per step")
    sample_characters: int = Field(
        500, ge=0, le=100_000, description="characters of the text sample; 0: no sample"
    )
    temperature: float = Field(0.8, gt=0, le=10, description="temperature of the text sample")

    @model_validator(mode="after")
    def _reads_forward_only(self) -> Self:
        if self.bidirectional:
            raise ValueError(
                "bidirectional: expected false, because the backward direction would read the"
                " character to predict; see next_token for both directions"
            )
        return self

    @property
    def stateful(self) -> bool:
        """True if a batch starts from the final states of the previous one."""
        return self.batches == "stateful"
