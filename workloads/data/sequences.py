"""Samples cut from a token stream, its last share for validation: windows, or streams."""

import math

import numpy as np

from workloads.data.samples import Samples, Tokens
from workloads.failures import DataError

VALIDATION_SHARE = 0.1


def split_stream(tokens: Tokens) -> tuple[Tokens, Tokens]:
    """Return views of the first part of a stream, for training, and the last, for validation."""
    end = len(tokens) - round(len(tokens) * VALIDATION_SHARE)
    stream = np.asarray(tokens)
    return stream[:end], stream[end:]


def cut_windows(
    tokens: Tokens,
    *,
    sequence_length: int,
    samples: int | None = None,
    validation_samples: int | None = None,
    each_step: bool = False,
) -> tuple[Samples, Samples]:
    """Return training and validation samples of `sequence_length` tokens, in the order of the text.

    The stream is split first: no window spans both parts. Windows of a part start at equal
    distances, the largest that give the requested number of samples; without a number, every token
    of a part is predicted once. The arrays are read-only views of `tokens`.

    With `each_step` every step of a window has a target, the token after it, of shape (samples,
    sequence_length); else the window has one, of shape (samples,). Raise `DataError` if the stream
    is too short for a window, or for the requested number.
    """

    def cut(part: Tokens, count: int | None, setting: str) -> Samples:
        available = len(part) - sequence_length  # the last window, too, needs a target
        if available < (count or 1):
            raise DataError(
                f"settings.{setting}: expected at most {max(0, available):,}, the windows of"
                f" {sequence_length:,} tokens in the {len(part):,} of this part; received"
                f" {count if count is not None else 'a request for at least one'}: use fewer, a"
                " longer text, or dataset zipf, which has any length"
            )
        default = sequence_length if each_step else 1  # predicts every token once
        distance = default if count is None else available // count
        chosen = slice(None, None if count is None else count * distance, distance)
        views = np.lib.stride_tricks.sliding_window_view(part, sequence_length)
        targets = views[1:] if each_step else part[sequence_length:]
        return Samples(views[:-1][chosen], targets[chosen])

    training, validation = split_stream(tokens)
    return cut(training, samples, "samples"), cut(
        validation, validation_samples, "validation_samples"
    )


def tokens_needed(samples: int, sequence_length: int, validation_samples: int = 1) -> int:
    """Return the minimum number of tokens that a stream needs for these windows."""
    training = (samples + sequence_length) / (1 - VALIDATION_SHARE)
    validation = (validation_samples + sequence_length) / VALIDATION_SHARE
    return math.ceil(max(training, validation)) + 1  # for the rounding in `split_stream`


def cut_streams(
    tokens: Tokens, *, batch_size: int, sequence_length: int
) -> tuple[Samples, Samples]:
    """Return training and validation samples in the order that stateful layers need.

    Both parts are cut into `batch_size` parallel streams of equal length. Sample i · batch_size +
    b, row b of batch i, is step i of stream b. A rest that does not fill a batch is dropped. Inputs
    and targets have the shape (batches · batch_size, sequence_length); the target of a step is the
    token after it. Raise `DataError` if a part is too short for one batch.
    """

    def cut(stream: Tokens, part: str) -> Samples:
        stream_length = (len(stream) - 1) // batch_size
        batches = stream_length // sequence_length
        if batches < 1:
            raise DataError(
                f"settings.batch_size × settings.sequence_length: expected at most"
                f" {max(0, len(stream) - 1):,}, the tokens of the {part} part less one; received"
                f" {batch_size:,} × {sequence_length:,}: make one smaller, or use a longer text"
            )
        starts = np.arange(batch_size) * stream_length
        steps = np.arange(batches)[:, None, None] * sequence_length + starts[:, None]
        places = (steps + np.arange(sequence_length)).reshape(-1, sequence_length)
        return Samples(stream[places], stream[places + 1])

    training, validation = split_stream(tokens)
    return cut(training, "training"), cut(validation, "validation")
