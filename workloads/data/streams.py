"""A token stream as batches for stateful training: each row goes on where it stopped."""

from __future__ import annotations

import numpy as np

from workloads.data.samples import Samples
from workloads.data.tokens import Tokens
from workloads.data.windows import VALIDATION_SHARE, Parts, split_stream
from workloads.failures import DataError


def cut_streams(
    tokens: Tokens,
    *,
    batch_size: int,
    sequence_length: int,
    validation_share: float = VALIDATION_SHARE,
) -> Parts:
    """Training and validation samples, batch by batch, in the one order that keeps states true.

    Each part is cut into `batch_size` streams of equal length that run side by side. Row b of
    batch i, which is sample i · batch_size + b, holds step i of stream b, and row b of the next
    batch goes on from there. What does not fill a last batch is dropped: all batches are full.

    Args:
        tokens: the stream; shape (tokens,).
        batch_size: rows of a batch.
        sequence_length: tokens of a row.
        validation_share: of the stream, put aside for validation.

    Returns:
        Inputs and targets of shape (batches · batch_size, sequence_length); the target of a step
        is the token after it.

    Raises:
        DataError: a part is too short for one batch.
    """
    training, validation = split_stream(tokens, validation_share)
    return (
        _batches(training, batch_size, sequence_length, "training"),
        _batches(validation, batch_size, sequence_length, "validation"),
    )


def _batches(tokens: Tokens, batch_size: int, length: int, part: str) -> Samples:
    apart = (len(tokens) - 1) // batch_size  # from one stream's beginning to the next one's
    batches = apart // length
    if batches < 1:
        raise DataError(
            f"settings.batch_size × settings.sequence_length: expected at most"
            f" {max(0, len(tokens) - 1):,}, the tokens of the {part} part less one; received"
            f" {batch_size:,} × {length:,}: make one smaller, or use a longer text"
        )
    begins = np.arange(batch_size) * apart
    places = (np.arange(batches)[:, None, None] * length + begins[:, None]) + np.arange(length)
    flat = places.reshape(batches * batch_size, length)
    return Samples(tokens[flat], tokens[flat + 1])
