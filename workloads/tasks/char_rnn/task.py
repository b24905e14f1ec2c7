"""`char_rnn`: a character-level language model, which writes a text after training."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from workloads.context import Context
from workloads.data.corpora import (
    Corpus,
    TextData,
    cut_streams,
    cut_windows,
    load_text,
    tokens_needed,
)
from workloads.data.samples import Samples, Tokens
from workloads.tasks.char_rnn.settings import CharRnnSettings
from workloads.tasks.task import Task, Trained


def load(settings: CharRnnSettings, seed: int) -> TextData:
    """Load streams of text that continue from batch to batch, or windows of the text."""
    length, samples = settings.sequence_length, settings.samples or 1_000
    min_tokens = tokens_needed(samples, length, settings.validation_samples or samples // 9)

    def streams(tokens: Tokens) -> tuple[Samples, Samples]:
        train, held_out = cut_streams(
            tokens, batch_size=settings.batch_size, sequence_length=length
        )
        return train.first(settings.samples), held_out.first(settings.validation_samples)

    windows = partial(
        cut_windows,
        sequence_length=length,
        samples=settings.samples,
        validation_samples=settings.validation_samples,
        each_step=True,
    )
    return load_text(
        Corpus(settings.dataset, settings.data_path, "character", settings.vocabulary),
        cut=streams if settings.stateful else windows,
        zipf_words=length * max(min_tokens, 10 * settings.batch_size + 10),
    )


def build(settings: CharRnnSettings, trial: Context, data: TextData) -> Any:
    """Build a model from token ids `(batch, steps)` to logits `(batch, steps, vocabulary)`."""
    batch_size = settings.batch_size if settings.stateful else None
    return build_language_model(
        settings, trial, data.vocabulary, settings.sequence_length, batch_size
    )


def finish(
    settings: CharRnnSettings, trial: Context, trained: Trained[TextData]
) -> Mapping[str, float]:
    """Store a text that the model writes (`sample.txt`), and return its losses in bits."""
    if settings.sample_characters:
        with trial.phase("sample"):
            text = _sample_text(settings, trial, trained)
        trial.artifact("sample.txt", text)
    return {
        "bits_per_char": trained.metrics["loss"] / math.log(2),
        "val_bits_per_char": trained.metrics["val_loss"] / math.log(2),
    }


def build_language_model(
    settings: CharRnnSettings, trial: Context, vocabulary: int, steps: int, batch_size: int | None
) -> Any:
    """Build the model; a stateful one has a fixed batch size."""
    import keras  # noqa: PLC0415 - the framework of this process

    from workloads.models.layers import dropout, recurrent_stack  # noqa: PLC0415

    layers = [
        keras.Input((steps,), batch_size=batch_size, dtype="int32"),
        keras.layers.Embedding(vocabulary, settings.embedding_units, name="embedding"),
        *recurrent_stack(settings, return_sequences=True, seed=trial.seed),
    ]
    if settings.dropout and settings.dropout_after == "all":
        layers.append(dropout(settings.dropout, trial.seed + 3 * settings.layers, "dropout"))
    layers.append(keras.layers.Dense(vocabulary, dtype="float32", name="logits"))
    model = keras.Sequential(layers, name="char_rnn")
    model.compile(
        optimizer=keras.optimizers.SGD(settings.learning_rate, momentum=settings.momentum),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def _sample_text(settings: CharRnnSettings, trial: Context, trained: Trained[TextData]) -> str:
    """Return the start of the validation text, and the text that the model writes after it."""
    # The draws depend on the trial's seed only: arms with equal weights write equal texts.
    from workloads.models.layers import reset_states  # noqa: PLC0415 - imports the framework
    from workloads.models.prepared import prepare_model  # noqa: PLC0415

    # The writer reads one character at a time, and keeps its states.
    stateful = settings.model_copy(update={"batches": "stateful"})
    writer = prepare_model(
        build_language_model(stateful, trial, trained.data.vocabulary, steps=1, batch_size=1), trial
    )
    originals = trained.model.trainable_variables
    for copy, original in zip(writer.trainable_variables, originals, strict=True):
        copy.assign(np.array(original))  # a copy: JAX would share the buffer, and then donate it
    reset_states(writer)

    def read(token: int) -> Any:
        logits = writer.predict_on_batch(np.array([[token]], np.int32))
        return np.asarray(logits, np.float64).reshape(-1)

    prime, tokens = trained.data.validation.inputs[0], list[int]()
    draw = np.random.default_rng(trial.seed)
    for token in prime:
        logits = read(int(token))
    for _ in range(settings.sample_characters):
        # The Gumbel-max trick draws with the probabilities of these logits.
        tokens.append(int(np.argmax(logits / settings.temperature + draw.gumbel(size=logits.size))))
        logits = read(tokens[-1])
    mark = f"--- written at temperature {settings.temperature}:"
    decode = trained.data.encoded.decode
    return f"{decode(prime)}\n{mark}\n{decode(tokens)}\n"


TASK = Task(
    settings_model=CharRnnSettings,
    load=load,
    build=build,
    plan=CharRnnSettings.plan,
    finish=finish,
)
