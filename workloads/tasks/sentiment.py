"""`sentiment`: classify a review as good or bad; padded, masked, in both directions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from workloads.context import Context
from workloads.data.reviews import load_reviews
from workloads.data.samples import DataSet
from workloads.failures import DataError
from workloads.measuring.measurement import measure
from workloads.settings.tasks import SentimentSettings

if TYPE_CHECKING:
    from workloads.models.model import WitnessedModel


def run(trial: Context) -> dict[str, float]:
    """Run a trial of `sentiment`."""
    settings = SentimentSettings(**trial.settings)
    return measure(
        trial, settings, load=partial(load, settings), build=partial(build, settings, trial)
    )


def load(settings: SentimentSettings) -> DataSet:
    """Load reviews, padded to one length.

    Raises:
        DataError: the data is missing, or has other classes than bad (0) and good (1).
    """
    reviews = load_reviews(
        settings.dataset,
        settings.data_path,
        vocabulary=settings.vocabulary,
        sequence_length=settings.sequence_length,
        padding=settings.padding,
        samples=settings.samples,
        validation_samples=settings.validation_samples,
    )
    if reviews.classes != 2:
        raise DataError(
            f"{reviews.source}: expected the labels 0 and 1 in y_train and y_test; received labels"
            f" up to {reviews.classes - 1}"
        )
    return reviews


def build(settings: SentimentSettings, trial: Context, data: DataSet) -> WitnessedModel:
    """Build masked embedding → recurrent layers → Dropout → Dense(1, sigmoid); Adam."""
    from workloads.models.built_in import review_model  # noqa: PLC0415 - imports the framework

    return review_model(settings, trial)
