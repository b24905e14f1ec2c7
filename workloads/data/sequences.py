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
    """Return the first part of a stream, for training, and the last share, for validation.

    Both are views of `tokens`.
    """
    end = len(tokens) - round(len(tokens) * validation_share)
    stream = np.asarray(tokens)
    return stream[:end], stream[end:]


def cut_windows(
    tokens: Tokens,
    *,
    sequence_length: int,
    samples: int | None = None,
    validation_samples: int | None = None,
    each_step: bool = False,
    validation_share: float = VALIDATION_SHARE,
) -> Parts:
    """Return training and validation samples of `sequence_length` tokens, in the order of the text.

    The stream is split first: no window spans both parts. Windows of a part start at equal
    distances, the largest whole distance that gives the requested number of samples, so that they
    overlap as little as possible. Without a number of samples, every token of a part is predicted
    once.

    The arrays are read-only views of `tokens` and take no memory of their own; 612,235 windows
    of 64 tokens would be 150 MiB. `Samples.take` copies.

    Args:
        tokens: the stream; shape (tokens,).
        sequence_length: steps of a window.
        samples: number of training windows.
        validation_samples: number of validation windows.
        each_step: every step of a window has a target, the token after it, of shape
            (samples, sequence_length); else the window has one, of shape (samples,).
        validation_share: share of the stream for validation.

    Raises:
        DataError: the stream is too short for a window, or for the requested number.
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
    """Return the minimum number of tokens that a stream needs for these windows."""
    training = (samples + sequence_length) / (1 - validation_share)
    validation = (validation_samples + sequence_length) / validation_share
    return math.ceil(max(training, validation)) + 1  # for the rounding in `split_stream`


def _windows_of(
    tokens: Tokens, length: int, samples: int | None, each_step: bool, setting: str
) -> Samples:
    available = len(tokens) - length  # the last window, too, needs a target
    if available < (samples or 1):
        raise DataError(
            f"settings.{setting}: expected at most {max(0, available):,}, the windows of"
            f" {length:,} tokens in the {len(tokens):,} of this part; received"
            f" {samples if samples is not None else 'a request for at least one'}: use fewer, a"
            " longer text, or dataset zipf, which has any length"
        )
    default = length if each_step else 1  # at this distance, windows predict every token once
    distance = default if samples is None else available // samples
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
    """Return training and validation samples in the order that stateful layers need.

    Both parts are cut into `batch_size` parallel streams of equal length. Row b of batch i, which
    is sample i · batch_size + b, contains step i of stream b. Row b of the next batch continues it.
    The rest that does not fill a batch is dropped: all batches are full.

    Args:
        tokens: the stream; shape (tokens,).
        batch_size: rows of a batch.
        sequence_length: tokens of a row.
        validation_share: share of the stream for validation.

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
    stream_length = (len(tokens) - 1) // batch_size
    batches = stream_length // length
    if batches < 1:
        raise DataError(
            f"settings.batch_size × settings.sequence_length: expected at most"
            f" {max(0, len(tokens) - 1):,}, the tokens of the {part} part less one; received"
            f" {batch_size:,} × {length:,}: make one smaller, or use a longer text"
        )
    starts = np.arange(batch_size) * stream_length
    places = (np.arange(batches)[:, None, None] * length + starts[:, None]) + np.arange(length)
    flat = places.reshape(batches * batch_size, length)
    return Samples(tokens[flat], tokens[flat + 1])
