"""A model of the user's own with the kernel of an implementation, for code without rnnsweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.backends.framework import Framework
from workloads.backends.loading import load_framework_of_keras
from workloads.backends.registry import parse_known_implementation
from workloads.implementations import AUTO, Implementation
from workloads.models.rewriting import examine_rewrite, rewrite

if TYPE_CHECKING:
    import keras

    from workloads.protocol import Device

_OF_THE_MODEL = ("unroll", "xla", "eager", "again")
"""The options that a built model can still be given; the others concern how it is built."""


def convert(model: keras.Model, implementation: str) -> keras.Model:
    """Return a built Keras model with the kernel of an implementation, and with its weights.

    `implementation` is named as in an arm, such as `torch/fused`; its backend must be Keras' in
    this process (`KERAS_BACKEND`). A compiled model stays compiled as it was, but for
    `jit_compile` and `run_eagerly`, which the implementation decides; its optimizer starts anew.
    The result is made of the layers of `model`: use the result only, and save `model` before if you
    need it. To load a saved result, write `from rnnsweep import convert` first: that registers the
    layer of the kernel `fused`.

    Raise `ValueError` if the implementation is unknown, of another backend or of a precision (which
    is chosen before a model is built, by `keras.config.set_dtype_policy`), or if it cannot run the
    model here; the message has the reason.
    """
    asked = parse_known_implementation(implementation)
    framework = load_framework_of_keras()
    _expect_possible(asked, framework)
    if not model.built:
        raise ValueError(
            f"{model.name}: expected a built model; received one whose layers have no weights yet:"
            " begin it with keras.Input, or call it once on a batch"
        )
    device: Device = "gpu" if framework.has_gpu() else "cpu"
    if reason := examine_rewrite(model, asked, device).reason:
        raise ValueError(f"{asked}: cannot run {model.name} here: {reason}")
    converted = rewrite(model, asked, framework).model
    if converted.compiled:
        set_compilation(converted, asked, framework)
    return converted


def set_compilation(
    model: keras.Model, implementation: Implementation, framework: Framework
) -> None:
    """Let a model run eagerly, or be compiled by XLA, as the implementation asks."""
    is_eager, is_compiled = (option in implementation.options for option in ("eager", "xla"))
    if implementation.kernel != AUTO or is_eager:
        model.run_eagerly = is_eager
    if implementation.kernel != AUTO or is_eager or is_compiled:
        model.jit_compile = framework.backend.is_compiled(implementation)


def _expect_possible(asked: Implementation, framework: Framework) -> None:
    if asked.backend != framework.backend.name:
        name = framework.backend.name
        raise ValueError(
            f"{asked}: expected an implementation of Keras' backend in this process, {name};"
            f" received one of {asked.backend}: set KERAS_BACKEND before Keras is imported"
        )
    if others := [option for option in asked.options if option not in _OF_THE_MODEL]:
        raise ValueError(
            f"{asked}: expected no option of precision; received {' and '.join(others)}: call"
            " keras.config.set_dtype_policy before the model is built"
        )
