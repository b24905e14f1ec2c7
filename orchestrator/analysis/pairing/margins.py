"""Margins: the differences of results that do not matter, never finer than can be told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from orchestrator.analysis.measures import finite
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds
from orchestrator.core.records import SweepRecord

Widened = Literal["one sample", "noise"]
"""To what a margin was widened: one validation sample, or the noise of the validation set."""

_WHOLE = 0.01  # of a sample: the error of single precision and of a mean over batches


@dataclass(frozen=True, slots=True)
class JudgedMargin:
    """The largest difference of a result that does not matter, in the metric's unit.

    Attributes:
        value: The margin.
        share: The margin as a share of the reference, if it was given as one.
        widened: Why the margin was widened; None if it was not.
        samples: The number of validation samples of an accuracy; None for another metric.
    """

    value: float
    share: float | None = None
    widened: Widened | None = None
    samples: int | None = None


def judged_margin(
    record: SweepRecord, matched: CompleteRounds, metric: str, reference: float
) -> JudgedMargin:
    """Return the margin by which a result is judged; `reference` is what a share is of.

    The default for an accuracy is never finer than the noise of the validation set: the standard
    error of a share of so many samples. A margin of the spec is at least one sample.
    """
    margins = record.criteria.margins
    given = margins.of_result(metric)
    if given.is_share:
        return JudgedMargin(given.against(reference), given.value)
    every = [trial for arm in matched.trials for trial in matched.all_trials(arm)]
    values = finite(every, metric)
    samples = _samples_of_accuracy(record, values)
    if samples is None:
        return JudgedMargin(given.value)
    if not margins.is_given(metric) and values:
        noise = accuracy_noise(fmean(values), samples)
        if noise > given.value:
            return JudgedMargin(noise, widened="noise", samples=samples)
    if given.value * samples < 1:
        return JudgedMargin(1 / samples, widened="one sample", samples=samples)
    return JudgedMargin(given.value, samples=samples)


def accuracy_noise(accuracy: float, samples: int) -> float:
    """Return the standard error of an accuracy on this number of samples, at least one sample."""
    return max(1 / samples, math.sqrt(accuracy * (1 - accuracy) / samples))


def _samples_of_accuracy(record: SweepRecord, values: Sequence[float]) -> int | None:
    """Return of how many validation samples these values are shares; None if they are none.

    A value that is not a whole number of samples counts more than one item a sample, or is no
    accuracy.
    """
    sizes = {data.validation_samples for data in record.datasets if data.validation_samples > 0}
    if not sizes:
        return None
    is_whole = all(
        0 <= value <= 1 and any(abs(value * size - round(value * size)) < _WHOLE for size in sizes)
        for value in values
    )
    return min(sizes) if is_whole else None
