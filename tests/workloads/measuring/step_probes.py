"""Workloads that list the operations of a training step."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from workloads.context import Context
from workloads.settings.tasks import CharRnnSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

_PASSED_ON = ("Identity", "IdentityN")  # TensorFlow's optimizer removes them
_VOCABULARY = 16


def compared_with_bare_keras(trial: Context) -> dict[str, float]:
    """Count the operations in TensorFlow's graphs of an arm's training step and of bare Keras.

    `more` and `fewer` are the operations that only one of both has.
    """
    from tests.benchmarks.contenders import bare_keras  # noqa: PLC0415 - imports Keras
    from workloads.models.built_in import text_model  # noqa: PLC0415

    settings = CharRnnSettings(**trial.settings)
    plain = bare_keras.build(str(trial.implementation), settings.model_dump(), _VOCABULARY)
    arm = _operations(text_model(settings, trial, _VOCABULARY), settings)
    bare = _operations(plain, settings)
    return {
        "common": (arm & bare).total(),
        "more": (arm - bare).total(),
        "fewer": (bare - arm).total(),
    }


def _operations(model: Any, settings: CharRnnSettings) -> Counter[str]:
    """Count the operations of a step by kind, including the bodies of its loops."""
    import tensorflow as tf  # noqa: PLC0415

    tokens = tf.zeros((settings.batch_size, settings.sequence_length), tf.int32)
    model.fit(tokens, tokens, batch_size=settings.batch_size, verbose=0)  # makes all variables
    step = tf.function(model.train_step).get_concrete_function((tokens, tokens))
    return Counter(kind for kind in _kinds(step.graph) if kind not in _PASSED_ON)


def _kinds(graph: Any) -> Iterator[str]:
    """Yield the kinds of operations of a graph, and of every function that it calls."""
    for part in (graph, *(function.graph for function in graph._functions.values())):
        yield from (operation.type for operation in part.get_operations())
