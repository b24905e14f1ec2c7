"""The settings of `next_token`. Imports no framework."""

from pydantic import Field

from workloads.data.sources import TokenKind
from workloads.settings import BatchSize
from workloads.tasks.text_settings import TextSettings


class NextTokenSettings(TextSettings):
    """Prediction of the token that follows a window of text.

    Embedding → recurrent layers → Dense(vocabulary, softmax); Adam. With `samples: 612235` and one
    epoch it reproduces the published comparison of Keras' LSTM and CuDNNLSTM.
    """

    tokens: TokenKind = Field("character", description="kind of token (zipf: words only)")
    samples: int = Field(100_000, ge=1, le=100_000_000, description="number of training windows")
    validation_samples: int = Field(
        10_000, ge=1, le=100_000_000, description="number of validation windows"
    )
    batch_size: BatchSize = 128
