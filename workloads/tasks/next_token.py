"""`next_token`: predict the token that follows a window of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.context import Context
from workloads.data.corpora import LanguageData, load_corpus, make_language_data
from workloads.data.sequences import cut_windows, tokens_needed
from workloads.measuring.measurement import measure
from workloads.settings.next_token import NextTokenSettings

if TYPE_CHECKING:
    from workloads.models.model import WitnessedModel


def run(trial: Context) -> dict[str, float]:
    """Run a trial of `next_token`."""
    settings = NextTokenSettings(**trial.settings)

    def flops(data: LanguageData) -> int:
        from workloads.models.text_model import text_flops  # noqa: PLC0415 - imports the framework

        return text_flops(settings, vocabulary=data.vocabulary, each_step=False)

    return measure(
        trial,
        settings,
        load=lambda: load(settings),
        build=lambda data: build(settings, trial, data.vocabulary),
        forward_flops=flops,
    )


def load(settings: NextTokenSettings) -> LanguageData:
    """Load the number of windows in the settings, with the token after each window as target.

    Raises:
        DataError: the text is missing, or too short for that number.
    """
    sizes = settings.samples, settings.sequence_length, settings.validation_samples
    corpus = load_corpus(
        settings.dataset,
        settings.data_path,
        kind=settings.tokens,
        vocabulary=settings.vocabulary,
        length=tokens_needed(*sizes),
    )
    parts = cut_windows(
        corpus.encoded.tokens,
        sequence_length=settings.sequence_length,
        samples=settings.samples,
        validation_samples=settings.validation_samples,
    )
    return make_language_data(corpus, parts)


def build(settings: NextTokenSettings, trial: Context, vocabulary: int) -> WitnessedModel:
    """Build embedding → recurrent layers → Dropout → logits; Adam."""
    import keras  # noqa: PLC0415 - imports the framework

    from workloads.models.compile import compile_model  # noqa: PLC0415
    from workloads.models.text_model import cross_entropy, text_layers  # noqa: PLC0415

    layers = text_layers(
        settings, trial, vocabulary=vocabulary, each_step=False, last_dropout=settings.dropout
    )
    return compile_model(
        layers,
        trial,
        name="next_token",
        optimizer=keras.optimizers.Adam(settings.learning_rate),
        loss=cross_entropy(),
    )
