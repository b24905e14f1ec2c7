"""`char_rnn`: a character-level language model, which writes a text after training."""

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
    """Run a trial of `char_rnn`; the text that the model writes is the artifact `sample.txt`."""
    settings, loaded_data = CharRnnSettings(**trial.settings), list[LanguageData]()

    def build_and_keep_data(data: LanguageData) -> WitnessedModel:
        loaded_data.append(data)
        return build(settings, trial, data.vocabulary)

    def flops(data: LanguageData) -> int:
        from workloads.models.text_model import text_flops  # noqa: PLC0415 - imports the framework

        return text_flops(settings, vocabulary=data.vocabulary, each_step=True)

    def write_sample(model: WitnessedModel) -> dict[str, float]:
        if settings.sample_characters:
            with trial.phase("sample"):
                text = sample_text(settings, trial, model, loaded_data[0])
            trial.artifact(SAMPLE_FILE, text)
        return {}

    metrics = measure(
        trial,
        settings,
        load=lambda: load(settings),
        build=build_and_keep_data,
        forward_flops=flops,
        after=write_sample,
    )
    if trial.measure == "timing":
        return metrics
    return {
        **metrics,
        "bits_per_char": metrics["loss"] / math.log(2),
        "val_bits_per_char": metrics["val_loss"] / math.log(2),
    }


def load(settings: CharRnnSettings) -> LanguageData:
    """Load streams of text that continue from batch to batch, or windows of the text.

    Raises:
        DataError: the text is missing, or too short for a batch.
    """
    length, samples = settings.sequence_length, settings.samples or 1_000
    min_tokens = tokens_needed(samples, length, settings.validation_samples or samples // 9)
    corpus = load_corpus(
        settings.dataset,
        settings.data_path,
        kind="character",
        vocabulary=settings.vocabulary,
        length=length * max(min_tokens, 10 * settings.batch_size + 10),
    )
    return make_language_data(corpus, _cut(settings, corpus.encoded.tokens))


def build(
    settings: CharRnnSettings, trial: Context, vocabulary: int, *, is_writer: bool = False
) -> WitnessedModel:
    """Build embedding → recurrent layers → logits at every step; SGD with momentum.

    Args:
        settings: sizes and the recurrent layers.
        trial: gives the implementation and the seed.
        vocabulary: width of the logits.
        is_writer: build the model that writes text: stateful, with batch size 1 and one step.
    """
    import keras  # noqa: PLC0415 - imports the framework

    from workloads.models.compile import compile_model  # noqa: PLC0415
    from workloads.models.text_model import cross_entropy, text_layers  # noqa: PLC0415

    if is_writer:
        settings = settings.model_copy(update={"batches": "stateful"})
    layers = text_layers(
        settings,
        trial,
        vocabulary=vocabulary,
        each_step=True,
        last_dropout=settings.dropout if settings.dropout_after == "all" else 0.0,
        batch_size=1 if is_writer else settings.batch_size if settings.stateful else None,
        steps=1 if is_writer else None,
    )
    return compile_model(
        layers,
        trial,
        name="char_rnn",
        optimizer=keras.optimizers.SGD(settings.learning_rate, momentum=settings.momentum),
        loss=cross_entropy(),
    )


def sample_text(
    settings: CharRnnSettings, trial: Context, model: WitnessedModel, data: LanguageData
) -> str:
    """Return the start of the validation text, and the text that the model writes after it.

    The draws depend on the trial's seed only: arms with equal weights write equal texts.
    """
    from workloads.tasks.text_sampling import copy_weights, write_text  # noqa: PLC0415 - framework

    writer, prime = (
        build(settings, trial, data.vocabulary, is_writer=True),
        data.validation.inputs[0],
    )
    copy_weights(model, writer)
    continuation = write_text(
        writer,
        data.encoded,
        prime,
        characters=settings.sample_characters,
        temperature=settings.temperature,
        seed=trial.seed,
    )
    mark = f"--- written at temperature {settings.temperature}:"
    return f"{data.encoded.decode(prime)}\n{mark}\n{continuation}\n"


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
