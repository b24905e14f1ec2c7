"""Your own Keras model with the kernel of an implementation, outside of a sweep."""

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
    """Return a Keras model that uses the kernel of an implementation, with the same weights.

    A compiled model stays compiled, except that the implementation decides `jit_compile` and
    `run_eagerly`; its optimizer starts anew. Do not use `model` afterwards, because the result
    consists of its layers; save it before if you need it. To load a saved result, write
    `from rnnsweep import convert` first, which registers the layer of the kernel `fused`.

    Args:
        model: A built model.
        implementation: A name as in a report, such as `torch/fused`. Its backend must be the one
            that Keras uses in this process (`KERAS_BACKEND`).

    Raises:
        ValueError: The implementation is unknown or of another backend, cannot run the model here,
            or has an option of precision (call `keras.config.set_dtype_policy` instead, before the
            model is built).
    """
    asked = parse_known_implementation(implementation)
    framework = load_framework_of_keras()
    _expect_possible(asked, framework)
    if not model.built:
        raise ValueError(
            f"{model.name} is not built yet: begin it with keras.Input, or call it once on a batch"
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
            f"{asked}: Keras runs on {name} in this process: set KERAS_BACKEND={asked.backend}"
            " before Keras is imported"
        )
    if others := [option for option in asked.options if option not in _OF_THE_MODEL]:
        raise ValueError(
            f"{asked}: a built model cannot change to {' and '.join(others)}: call"
            " keras.config.set_dtype_policy before you build it"
        )
