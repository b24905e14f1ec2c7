"""`next_token`: predict the token that follows a window of text."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from workloads.context import Context
from workloads.data.samples import DataSet
from workloads.data.sequences import cut_windows, tokens_needed
from workloads.data.text import load_text
from workloads.measuring.measurement import measure
from workloads.settings.tasks import NextTokenSettings

if TYPE_CHECKING:
    from workloads.models.model import WitnessedModel


def run(trial: Context) -> dict[str, float]:
    """Run a trial of `next_token`."""
    settings = NextTokenSettings(**trial.settings)
    return measure(
        trial, settings, load=partial(load, settings), build=partial(build, settings, trial)
    )


def load(settings: NextTokenSettings) -> DataSet:
    """Load the number of windows in the settings, with the token after each window as target.

    Raises:
        DataError: the text is missing, or too short for that number.
    """
    length, samples, held_out = (
        settings.sequence_length,
        settings.samples,
        settings.validation_samples,
    )
    return load_text(
        settings.dataset,
        settings.data_path,
        partial(cut_windows, sequence_length=length, samples=samples, validation_samples=held_out),
        kind=settings.tokens,
        vocabulary=settings.vocabulary,
        length=tokens_needed(samples, length, held_out),
    )


def build(settings: NextTokenSettings, trial: Context, data: DataSet) -> WitnessedModel:
    """Build embedding → recurrent layers → Dropout → logits; Adam."""
    from workloads.models.built_in import text_model  # noqa: PLC0415 - imports the framework

    return text_model(settings, trial, data.classes)
