"""`sentiment`: classifies a review as good or bad; padded, masked, in both directions."""

from typing import Any

from workloads.context import Context
from workloads.data.labelled import LabelledData
from workloads.tasks.sentiment.data import load_sentiment
from workloads.tasks.sentiment.settings import SentimentSettings
from workloads.tasks.task import Task


def load(settings: SentimentSettings, seed: int) -> LabelledData:
    """Load the reviews, always in the same order."""
    return load_sentiment(settings)


def build(settings: SentimentSettings, trial: Context, data: LabelledData) -> Any:
    """Build the model; its last layer computes in float32 at any precision."""
    import keras  # noqa: PLC0415 - the framework of this process

    from workloads.models.layers import dropout, recurrent_stack  # noqa: PLC0415

    model = keras.Sequential(
        [
            keras.Input((settings.sequence_length,), dtype="int32"),
            keras.layers.Embedding(
                settings.vocabulary,
                settings.embedding_units,
                mask_zero=settings.masked,
                name="embedding",
            ),
            *recurrent_stack(settings, return_sequences=False, seed=trial.seed),
            dropout(settings.dropout, trial.seed + 3 * settings.layers, "dropout"),
            keras.layers.Dense(1, activation="sigmoid", dtype="float32", name="good"),
        ],
        name="sentiment",
    )
    model.compile(
        optimizer=keras.optimizers.Adam(settings.learning_rate),
        loss=keras.losses.BinaryCrossentropy(),
        metrics=["accuracy"],
    )
    return model


TASK = Task(settings_model=SentimentSettings, load=load, build=build, plan=SentimentSettings.plan)
