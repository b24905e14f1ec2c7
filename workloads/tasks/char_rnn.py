"""`char_rnn`: a character-level language model, which writes a text once it is trained."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workloads.context import Context
from workloads.data.corpora import LanguageData, load_corpus, make_language_data
from workloads.data.samples import Samples
from workloads.data.sequences import cut_streams, cut_windows, tokens_needed
from workloads.data.tokens import Tokens
from workloads.measuring.measurement import measure
from workloads.settings.char_rnn import CharRnnSettings

if TYPE_CHECKING:
    from workloads.models.model import WitnessedModel

SAMPLE_FILE = "sample.txt"


def run(trial: Context) -> dict[str, float]:
    """One trial of `char_rnn`; the text that the model writes is the artifact `sample.txt`."""
    settings, loaded = CharRnnSettings(**trial.settings), list[LanguageData]()

    def keep(data: LanguageData) -> WitnessedModel:
        loaded.append(data)
        return build(settings, trial, data.vocabulary)

    def flops(data: LanguageData) -> int:
        from workloads.models.text_model import text_flops  # noqa: PLC0415 - imports the framework

        return text_flops(settings, vocabulary=data.vocabulary, each_step=True)

    def write(model: WitnessedModel) -> dict[str, float]:
        if settings.sample_characters:
            with trial.phase("sample"):
                text = sample(settings, trial, model, loaded[0])
            trial.artifact(SAMPLE_FILE, text)
        return {}

    metrics = measure(
        trial, settings, load=lambda: load(settings), build=keep, forward_flops=flops, after=write
    )
    if trial.measure == "timing":
        return metrics
    return {
        **metrics,
        "bits_per_char": metrics["loss"] / math.log(2),
        "val_bits_per_char": metrics["val_loss"] / math.log(2),
    }


def load(settings: CharRnnSettings) -> LanguageData:
    """Streams of text that go on from batch to batch, or windows of it.

    Raises:
        DataError: the text is missing, or too short for a batch.
    """
    length, wanted = settings.sequence_length, settings.samples or 1_000
    needed = tokens_needed(wanted, length, settings.validation_samples or wanted // 9)
    corpus = load_corpus(
        settings.dataset,
        settings.data_path,
        kind="character",
        vocabulary=settings.vocabulary,
        length=length * max(needed, 10 * settings.batch_size + 10),
    )
    return make_language_data(corpus, _cut(settings, corpus.encoded.tokens))


def build(
    settings: CharRnnSettings, trial: Context, vocabulary: int, *, writes: bool = False
) -> WitnessedModel:
    """Embedding → recurrent layers → logits at each step; SGD with momentum.

    Args:
        settings: sizes and the recurrent layers.
        trial: its implementation and its seed.
        vocabulary: width of the logits.
        writes: the model that writes text: stateful, of batch size 1 and one step.
    """
    import keras  # noqa: PLC0415 - imports the framework

    from workloads.models.compile import compile_model  # noqa: PLC0415
    from workloads.models.text_model import cross_entropy, text_layers  # noqa: PLC0415

    if writes:
        settings = settings.model_copy(update={"batches": "stateful"})
    layers = text_layers(
        settings,
        trial,
        vocabulary=vocabulary,
        each_step=True,
        last_dropout=settings.dropout if settings.dropout_after == "all" else 0.0,
        batch_size=1 if writes else settings.batch_size if settings.stateful else None,
        steps=1 if writes else None,
    )
    return compile_model(
        layers,
        trial,
        name="char_rnn",
        optimizer=keras.optimizers.SGD(settings.learning_rate, momentum=settings.momentum),
        loss=cross_entropy(),
    )


def sample(
    settings: CharRnnSettings, trial: Context, model: WitnessedModel, data: LanguageData
) -> str:
    """The beginning of the validation text, and what the model writes after it.

    The draws depend on the trial's seed alone: arms that learnt the same write the same.
    """
    from workloads.tasks.text_sampling import copy_weights, write_text  # noqa: PLC0415 - framework

    writer, prime = build(settings, trial, data.vocabulary, writes=True), data.validation.inputs[0]
    copy_weights(model, writer)
    written = write_text(
        writer,
        data.encoded,
        prime,
        characters=settings.sample_characters,
        temperature=settings.temperature,
        seed=trial.seed,
    )
    mark = f"--- written at temperature {settings.temperature}:"
    return f"{data.encoded.decode(prime)}\n{mark}\n{written}\n"


def _cut(settings: CharRnnSettings, tokens: Tokens) -> tuple[Samples, Samples]:
    if not settings.stateful:
        return cut_windows(
            tokens,
            sequence_length=settings.sequence_length,
            samples=settings.samples,
            validation_samples=settings.validation_samples,
            each_step=True,
        )
    train, validation = cut_streams(
        tokens, batch_size=settings.batch_size, sequence_length=settings.sequence_length
    )
    return train.first(settings.samples), validation.first(settings.validation_samples)
