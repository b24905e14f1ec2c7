"""`next_token`: predicts the token that follows a window of text."""

from functools import partial
from typing import Any

from workloads.context import Context
from workloads.data.corpora import Corpus, TextData, cut_windows, load_text, tokens_needed
from workloads.tasks.next_token.settings import NextTokenSettings
from workloads.tasks.task import Task


def load(settings: NextTokenSettings, seed: int) -> TextData:
    """Load the number of windows in the settings, with the token after each window as target."""
    windows = partial(
        cut_windows,
        sequence_length=settings.sequence_length,
        samples=settings.samples,
        validation_samples=settings.validation_samples,
    )
    return load_text(
        Corpus(settings.dataset, settings.data_path, settings.tokens, settings.vocabulary),
        cut=windows,
        zipf_words=tokens_needed(
            settings.samples, settings.sequence_length, settings.validation_samples
        ),
    )


def build(settings: NextTokenSettings, trial: Context, data: TextData) -> Any:
    """Build a model from token ids `(batch, steps)` to logits `(batch, vocabulary)`."""
    import keras  # noqa: PLC0415 - the framework of this process

    from workloads.models.layers import dropout, recurrent_stack  # noqa: PLC0415

    layers = [
        keras.Input((settings.sequence_length,), dtype="int32"),
        keras.layers.Embedding(data.vocabulary, settings.embedding_units, name="embedding"),
        *recurrent_stack(settings, return_sequences=False, seed=trial.seed),
    ]
    if settings.dropout:
        layers.append(dropout(settings.dropout, trial.seed + 3 * settings.layers, "dropout"))
    layers.append(keras.layers.Dense(data.vocabulary, dtype="float32", name="logits"))
    model = keras.Sequential(layers, name="next_token")
    model.compile(
        optimizer=keras.optimizers.Adam(settings.learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


TASK = Task(settings_model=NextTokenSettings, load=load, build=build, plan=NextTokenSettings.plan)
