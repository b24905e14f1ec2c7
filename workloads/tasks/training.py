"""The workloads that train on data, on each arm with equal weights, batches and dropout seeds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from workloads.context import Context
from workloads.data.labelled import load_image_rows, load_sentiment
from workloads.data.samples import DataSet
from workloads.data.text import load_char_rnn, load_next_token
from workloads.measuring.measurement import measure
from workloads.settings import (
    CharRnnSettings,
    ImageRowsSettings,
    NextTokenSettings,
    RecurrentSettings,
    SentimentSettings,
)

if TYPE_CHECKING:
    from workloads.models.model import WitnessedModel


def image_rows(trial: Context) -> dict[str, float]:
    """Read the rows of an image as a sequence, and predict its class."""
    return measure(trial, ImageRowsSettings(**trial.settings), load_image_rows, build)


def sentiment(trial: Context) -> dict[str, float]:
    """Classify a review as good or bad; padded, masked, in both directions."""
    return measure(trial, SentimentSettings(**trial.settings), load_sentiment, build)


def next_token(trial: Context) -> dict[str, float]:
    """Predict the token that follows a window of text."""
    return measure(trial, NextTokenSettings(**trial.settings), load_next_token, build)


def char_rnn(trial: Context) -> dict[str, float]:
    """Train a character-level language model; the text that it writes is `sample.txt`."""
    settings = CharRnnSettings(**trial.settings)

    def write_sample(model: WitnessedModel, data: DataSet) -> None:
        if settings.sample_characters:
            with trial.phase("sample"):
                text = _sample_text(settings, trial, model, data)
            trial.artifact("sample.txt", text)

    metrics = measure(trial, settings, load_char_rnn, build, write_sample)
    if trial.measure == "full":
        metrics["bits_per_char"] = metrics["loss"] / math.log(2)
        metrics["val_bits_per_char"] = metrics["val_loss"] / math.log(2)
    return metrics


def build(settings: RecurrentSettings, trial: Context, data: DataSet) -> WitnessedModel:
    """Build the compiled model of these settings, with the initial weights of the trial's seed."""
    from workloads.models import built_in  # noqa: PLC0415 - imports the framework

    if isinstance(settings, ImageRowsSettings):
        return built_in.image_model(settings, trial, data)
    if isinstance(settings, SentimentSettings):
        return built_in.review_model(settings, trial)
    assert isinstance(settings, NextTokenSettings | CharRnnSettings)
    return built_in.text_model(settings, trial, data.classes)


def _sample_text(
    settings: CharRnnSettings, trial: Context, model: WitnessedModel, data: DataSet
) -> str:
    """Return the start of the validation text, and the text that the model writes after it."""
    # The draws depend on the trial's seed only: arms with equal weights write equal texts.
    from workloads.models.built_in import text_model  # noqa: PLC0415 - imports the framework
    from workloads.models.run import reset_states  # noqa: PLC0415

    writer = text_model(settings, trial, data.classes, is_writer=True)
    trained = model.trainable_variables
    for copy, original in zip(writer.trainable_variables, trained, strict=True):
        copy.assign(np.array(original))  # a copy: JAX would share the buffer, and then donate it
    reset_states(writer)

    def read(token: int) -> Any:
        logits = writer.predict_on_batch(np.array([[token]], np.int32))
        return np.asarray(logits, np.float64).reshape(-1)

    prime, tokens = data.validation.inputs[0], list[int]()
    draw = np.random.default_rng(trial.seed)
    for token in prime:
        logits = read(int(token))
    for _ in range(settings.sample_characters):
        # The Gumbel-max trick draws with the probabilities of these logits.
        tokens.append(int(np.argmax(logits / settings.temperature + draw.gumbel(size=logits.size))))
        logits = read(tokens[-1])
    mark = f"--- written at temperature {settings.temperature}:"
    assert data.encoded is not None
    return f"{data.encoded.decode(prime)}\n{mark}\n{data.encoded.decode(tokens)}\n"
