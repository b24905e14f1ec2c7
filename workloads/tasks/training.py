"""The four workloads that train a model on data: `image_rows`, `sentiment`, and two on text.

Every arm starts from the same weights and sees the same batches in the same order. Dropout masks
come from the same seeds, but no two backends, nor XLA and TensorFlow's own kernels, draw the same
masks from a seed. With dropout, the learning curves of arms differ as those of two seeds do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from workloads.context import Context
from workloads.data.images import load_images
from workloads.data.reviews import load_reviews
from workloads.data.samples import DataSet, Samples
from workloads.data.sequences import cut_streams, cut_windows, tokens_needed
from workloads.data.text import load_text
from workloads.data.tokens import EncodedText, Tokens
from workloads.failures import DataError
from workloads.measuring.measurement import measure
from workloads.settings.recurrent import RecurrentSettings
from workloads.settings.tasks import (
    CharRnnSettings,
    ImageRowsSettings,
    NextTokenSettings,
    SentimentSettings,
)

if TYPE_CHECKING:
    from workloads.models.model import WitnessedModel

SAMPLE_FILE = "sample.txt"
SettingsType = TypeVar("SettingsType", bound=RecurrentSettings)


def image_rows(trial: Context) -> dict[str, float]:
    """Read the rows of an image as a sequence, and predict its class."""
    return _measure(trial, ImageRowsSettings(**trial.settings), load_image_rows)


def sentiment(trial: Context) -> dict[str, float]:
    """Classify a review as good or bad; padded, masked, in both directions."""
    return _measure(trial, SentimentSettings(**trial.settings), load_sentiment)


def next_token(trial: Context) -> dict[str, float]:
    """Predict the token that follows a window of text."""
    return _measure(trial, NextTokenSettings(**trial.settings), load_next_token)


def char_rnn(trial: Context) -> dict[str, float]:
    """Train a character-level language model; the text that it writes is `sample.txt`."""
    settings = CharRnnSettings(**trial.settings)

    def write_sample(model: WitnessedModel, data: DataSet) -> None:
        if settings.sample_characters and data.encoded is not None:
            with trial.phase("sample"):
                text = _sample_text(settings, trial, model, data.encoded, data.validation)
            trial.artifact(SAMPLE_FILE, text)

    metrics = _measure(trial, settings, load_char_rnn, write_sample)
    if trial.measure == "full":
        metrics["bits_per_char"] = metrics["loss"] / math.log(2)
        metrics["val_bits_per_char"] = metrics["val_loss"] / math.log(2)
    return metrics


def _measure(
    trial: Context,
    settings: SettingsType,
    load: Callable[[SettingsType], DataSet],
    after: Callable[[WitnessedModel, DataSet], None] | None = None,
) -> dict[str, float]:
    load_data, build_model = partial(load, settings), partial(build, settings, trial)
    return measure(trial, settings, load=load_data, build=build_model, after=after)


def build(settings: RecurrentSettings, trial: Context, data: DataSet) -> WitnessedModel:
    """Build the compiled model of these settings, with the initial weights of the trial's seed."""
    from workloads.models import built_in  # noqa: PLC0415 - imports the framework

    if isinstance(settings, ImageRowsSettings):
        return built_in.image_model(settings, trial, data)
    if isinstance(settings, SentimentSettings):
        return built_in.review_model(settings, trial)
    assert isinstance(settings, NextTokenSettings | CharRnnSettings)
    return built_in.text_model(settings, trial, data.classes)


def load_image_rows(settings: ImageRowsSettings) -> DataSet:
    """Load the images of these settings."""
    return load_images(
        settings.dataset,
        settings.data_path,
        samples=settings.samples,
        validation_samples=settings.validation_samples,
    )


def load_sentiment(settings: SentimentSettings) -> DataSet:
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


def load_next_token(settings: NextTokenSettings) -> DataSet:
    """Load the number of windows in the settings, with the token after each window as target."""
    sizes = settings.samples, settings.sequence_length, settings.validation_samples
    return load_text(
        settings.dataset,
        settings.data_path,
        partial(_windows, settings),
        kind=settings.tokens,
        vocabulary=settings.vocabulary,
        length=tokens_needed(*sizes),
    )


def load_char_rnn(settings: CharRnnSettings) -> DataSet:
    """Load streams of text that continue from batch to batch, or windows of the text."""
    length, samples = settings.sequence_length, settings.samples or 1_000
    min_tokens = tokens_needed(samples, length, settings.validation_samples or samples // 9)

    def streams(tokens: Tokens) -> tuple[Samples, Samples]:
        batch_size = settings.batch_size
        train, held_out = cut_streams(tokens, batch_size=batch_size, sequence_length=length)
        return train.first(settings.samples), held_out.first(settings.validation_samples)

    return load_text(
        settings.dataset,
        settings.data_path,
        streams if settings.stateful else partial(_windows, settings, each_step=True),
        kind="character",
        vocabulary=settings.vocabulary,
        length=length * max(min_tokens, 10 * settings.batch_size + 10),
    )


def _windows(
    settings: NextTokenSettings | CharRnnSettings, tokens: Tokens, *, each_step: bool = False
) -> tuple[Samples, Samples]:
    return cut_windows(
        tokens,
        sequence_length=settings.sequence_length,
        samples=settings.samples,
        validation_samples=settings.validation_samples,
        each_step=each_step,
    )


def _sample_text(
    settings: CharRnnSettings,
    trial: Context,
    model: WitnessedModel,
    encoded: EncodedText,
    validation: Samples,
) -> str:
    """Return the start of the validation text, and the text that the model writes after it.

    The draws depend on the trial's seed only: arms with equal weights write equal texts.
    """
    from workloads.models.built_in import text_model  # noqa: PLC0415 - imports the framework
    from workloads.models.run import reset_states  # noqa: PLC0415

    writer = text_model(settings, trial, len(encoded.vocabulary), is_writer=True)
    trained = model.trainable_variables
    for copy, original in zip(writer.trainable_variables, trained, strict=True):
        copy.assign(np.array(original))  # a copy: JAX would share the buffer, and then donate it
    reset_states(writer)

    def read(token: int) -> Any:
        logits = writer.predict_on_batch(np.array([[token]], np.int32))
        return np.asarray(logits, np.float64).reshape(-1)

    prime, draw, tokens = validation.inputs[0], np.random.default_rng(trial.seed), list[int]()
    for token in prime:
        logits = read(int(token))
    for _ in range(settings.sample_characters):
        # The Gumbel-max trick draws with the probabilities of these logits.
        tokens.append(int(np.argmax(logits / settings.temperature + draw.gumbel(size=logits.size))))
        logits = read(tokens[-1])
    mark = f"--- written at temperature {settings.temperature}:"
    return f"{encoded.decode(prime)}\n{mark}\n{encoded.decode(tokens)}\n"
