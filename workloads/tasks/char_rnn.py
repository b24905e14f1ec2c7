"""`char_rnn`: a character-level language model, which writes a text after training."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from workloads.context import Context
from workloads.data.samples import DataSet, Samples
from workloads.data.sequences import cut_streams, cut_windows, tokens_needed
from workloads.data.text import load_text
from workloads.data.tokens import EncodedText, Tokens
from workloads.measuring.measurement import measure
from workloads.settings.tasks import CharRnnSettings

if TYPE_CHECKING:
    from workloads.models.model import WitnessedModel

SAMPLE_FILE = "sample.txt"


def run(trial: Context) -> dict[str, float]:
    """Run a trial of `char_rnn`; the text that the model writes is the artifact `sample.txt`."""
    settings = CharRnnSettings(**trial.settings)

    def write_sample(model: WitnessedModel, data: DataSet) -> None:
        if settings.sample_characters and data.encoded is not None:
            with trial.phase("sample"):
                text = _sample_text(settings, trial, model, data.encoded, data.validation)
            trial.artifact(SAMPLE_FILE, text)

    load_data, build_model = partial(load, settings), partial(build, settings, trial)
    metrics = measure(trial, settings, load=load_data, build=build_model, after=write_sample)
    if trial.measure == "full":
        metrics["bits_per_char"] = metrics["loss"] / math.log(2)
        metrics["val_bits_per_char"] = metrics["val_loss"] / math.log(2)
    return metrics


def load(settings: CharRnnSettings) -> DataSet:
    """Load streams of text that continue from batch to batch, or windows of the text.

    Raises:
        DataError: the text is missing, or too short for a batch.
    """
    length, samples = settings.sequence_length, settings.samples or 1_000
    min_tokens = tokens_needed(samples, length, settings.validation_samples or samples // 9)
    return load_text(
        settings.dataset,
        settings.data_path,
        partial(_cut, settings),
        kind="character",
        vocabulary=settings.vocabulary,
        length=length * max(min_tokens, 10 * settings.batch_size + 10),
    )


def build(settings: CharRnnSettings, trial: Context, data: DataSet) -> WitnessedModel:
    """Build embedding → recurrent layers → logits at every step; SGD with momentum."""
    from workloads.models.built_in import text_model  # noqa: PLC0415 - imports the framework

    return text_model(settings, trial, data.classes)


def _cut(settings: CharRnnSettings, tokens: Tokens) -> tuple[Samples, Samples]:
    length, samples, held_out = (
        settings.sequence_length,
        settings.samples,
        settings.validation_samples,
    )
    if not settings.stateful:
        return cut_windows(
            tokens,
            sequence_length=length,
            samples=samples,
            validation_samples=held_out,
            each_step=True,
        )
    train, validation = cut_streams(tokens, batch_size=settings.batch_size, sequence_length=length)
    return train.first(samples), validation.first(held_out)


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
