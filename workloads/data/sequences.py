"""Samples cut from a token stream: windows of it, or streams for stateful training.

The last share of a stream is kept for validation, and is never trained on.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from workloads.data.samples import Samples
from workloads.data.tokens import Tokens
from workloads.failures import DataError

Parts: TypeAlias = tuple[Samples, Samples]

VALIDATION_SHARE = 0.1


def split_stream(
    tokens: Tokens, validation_share: float = VALIDATION_SHARE
) -> tuple[Tokens, Tokens]:
    """The stream's beginning, to train on, and its last share, to validate on; both are views."""
    at = len(tokens) - round(len(tokens) * validation_share)
    whole = np.asarray(tokens)
    return whole[:at], whole[at:]


def cut_windows(
    tokens: Tokens,
    *,
    sequence_length: int,
    samples: int | None = None,
    validation_samples: int | None = None,
    each_step: bool = False,
    validation_share: float = VALIDATION_SHARE,
) -> Parts:
    """Training and validation samples of `sequence_length` tokens, in the order of the text.

    The stream is cut first: no window reaches across. Windows of a part begin at equal distances,
    the largest whole one that gives as many samples as are asked for, so that they overlap only
    where they must. Without a number of samples each token of a part is predicted once.

    The arrays are read-only views of `tokens` and take no memory of their own; 612,235 windows
    of 64 tokens would be 150 MiB. `Samples.take` copies.

    Args:
        tokens: the stream; shape (tokens,).
        sequence_length: steps of a window.
        samples: windows to train on.
        validation_samples: windows to validate on.
        each_step: whether each step of a window has a target, the token after it, of shape
            (samples, sequence_length); else the window has one, of shape (samples,).
        validation_share: of the stream, put aside for validation.

    Raises:
        DataError: the stream is too short for a window, or for so many.
    """
    training, validation = split_stream(tokens, validation_share)
    return (
        _windows_of(training, sequence_length, samples, each_step, "samples"),
        _windows_of(
            validation, sequence_length, validation_samples, each_step, "validation_samples"
        ),
    )


def tokens_needed(
    samples: int,
    sequence_length: int,
    validation_samples: int = 1,
    validation_share: float = VALIDATION_SHARE,
) -> int:
    """How long a stream gives so many windows, at least."""
    training = (samples + sequence_length) / (1 - validation_share)
    validation = (validation_samples + sequence_length) / validation_share
    return math.ceil(max(training, validation)) + 1  # for the rounding in `cut`


def _windows_of(
    tokens: Tokens, length: int, samples: int | None, each_step: bool, setting: str
) -> Samples:
    available = len(tokens) - length  # the last window needs a target, too
    if available < (samples or 1):
        raise DataError(
            f"settings.{setting}: expected at most {max(0, available):,}, the windows of"
            f" {length:,} tokens in the {len(tokens):,} of this part; received"
            f" {samples if samples is not None else 'a text for one at least'}: use fewer, a"
            " longer text, or dataset zipf, which has any length"
        )
    once = length if each_step else 1  # so far apart, windows predict each token once
    distance = once if samples is None else available // samples
    chosen = slice(None, None if samples is None else samples * distance, distance)
    views = np.lib.stride_tricks.sliding_window_view(tokens, length)
    targets = views[1:] if each_step else tokens[length:]
    return Samples(views[:-1][chosen], targets[chosen])


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
