"""Run inside a trainer process as workloads: what a training step is made of."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from workloads.context import Context
from workloads.settings.char_rnn import CharRnnSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

_PASSED_ON = ("Identity", "IdentityN")  # TensorFlow's optimizer takes them out
_VOCABULARY = 16


def beside_bare_keras(trial: Context) -> dict[str, float]:
    """Operations in TensorFlow's graph of an arm's training step, and of a bare Keras script's.

    `more` and `fewer` are those that one side alone has.
    """
    from tests.benchmarks.contenders import bare_keras  # noqa: PLC0415 - imports Keras
    from workloads.tasks import char_rnn  # noqa: PLC0415

    settings = CharRnnSettings(**trial.settings)
    plain = bare_keras.build(str(trial.implementation), settings.model_dump(), _VOCABULARY)
    ours = _operations(char_rnn.build(settings, trial, _VOCABULARY), settings)
    theirs = _operations(plain, settings)
    return {
        "common": (ours & theirs).total(),
        "more": (ours - theirs).total(),
        "fewer": (theirs - ours).total(),
    }


def _operations(model: Any, settings: CharRnnSettings) -> Counter[str]:
    """Of each kind, how many the step has, the bodies of its loops included."""
    import tensorflow as tf  # noqa: PLC0415

    tokens = tf.zeros((settings.batch_size, settings.sequence_length), tf.int32)
    model.fit(tokens, tokens, batch_size=settings.batch_size, verbose=0)  # makes all variables
    step = tf.function(model.train_step).get_concrete_function((tokens, tokens))
    return Counter(kind for kind in _kinds(step.graph) if kind not in _PASSED_ON)


def _kinds(graph: Any) -> Iterator[str]:
    """Of a graph and of the functions that it calls, each function once."""
    for part in (graph, *(each.graph for each in graph._functions.values())):
        yield from (operation.type for operation in part.get_operations())
