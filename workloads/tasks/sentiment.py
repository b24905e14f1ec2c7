"""`sentiment`: classify a review as good or bad; padded, masked, in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.context import Context
from workloads.data.reviews import Reviews, load_reviews
from workloads.failures import DataError
from workloads.measuring.measurement import measure
from workloads.models.flops import dense_flops, recurrent_flops
from workloads.settings.sentiment import SentimentSettings

if TYPE_CHECKING:
    from workloads.models.model import WitnessedModel


def run(trial: Context) -> dict[str, float]:
    """Run a trial of `sentiment`."""
    settings = SentimentSettings(**trial.settings)
    return measure(
        trial,
        settings,
        load=lambda: load(settings),
        build=lambda _: build(settings, trial),
        forward_flops=lambda _: _flops(settings),
    )


def load(settings: SentimentSettings) -> Reviews:
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


def build(settings: SentimentSettings, trial: Context) -> WitnessedModel:
    """Build masked embedding → recurrent layers → Dropout → Dense(1, sigmoid); Adam."""
    import keras  # noqa: PLC0415 - imports the framework

    from workloads.models.compile import compile_model, seed_of  # noqa: PLC0415
    from workloads.models.layers import recurrent_stack  # noqa: PLC0415

    layers = [
        keras.Input((settings.sequence_length,), dtype="int32"),
        keras.layers.Embedding(
            settings.vocabulary,
            settings.embedding_units,
            mask_zero=settings.masked,
            name="embedding",
        ),
        *recurrent_stack(
            settings, trial.implementation, return_sequences=False, seed=seed_of(trial, 0)
        ),
        keras.layers.Dropout(
            settings.dropout, seed=seed_of(trial, 3 * settings.layers), name="dropout"
        ),
        keras.layers.Dense(1, activation="sigmoid", dtype="float32", name="good"),
    ]
    return compile_model(
        layers,
        trial,
        name="sentiment",
        optimizer=keras.optimizers.Adam(settings.learning_rate),
        loss=keras.losses.BinaryCrossentropy(),
    )


def _flops(settings: SentimentSettings) -> int:
    """Return the FLOPs of one review; padding counts, since kernels without a mask compute it."""
    outputs = (2 if settings.bidirectional else 1) * settings.units
    return recurrent_flops(
        settings, inputs=settings.embedding_units, steps=settings.sequence_length
    ) + dense_flops(outputs, 1)
