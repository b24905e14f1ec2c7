"""Initial weights that are equal on every arm: drawn by NumPy from the trial's seed. Imports Keras.

While a model is built, the initializer of each variable is recorded. Afterwards a variable that
still has its initializer's value is drawn anew, by the rule of that initializer
(`workloads.models.initializer_rules`); one with another value was set by the model's author, and
keeps it. Every array has a generator of its own, seeded with the trial's seed, the index of the
array in the author's model, and its name there. So the numbers do not depend on the implementation:
they are drawn before the model is rewritten for it.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras.src.backend.common.stateless_scope import in_stateless_scope  # no public name

from workloads.data.array_trees import arrays_of
from workloads.data.samples import Samples
from workloads.failures import BadRequest
from workloads.models.initializer_rules import DrawnNumbers, Shape, is_constant, rule_of
from workloads.models.layers import is_stateful, reset_states
from workloads.settings import StartWeights


def build_with_initial_weights(
    build: Callable[[], Any],
    seed: int,
    *,
    samples: Samples | None = None,
    weights: StartWeights = "equal",
) -> Any:
    """Return the model that `build` returns, with all of its variables, and initial weights.

    `samples` are a batch: a model that has no variables yet gets them by a call on their
    inputs; without `samples` it must have them. With `weights="own"` all weights stay as `build`
    made them. What is no Keras model is returned as it is. Raise `BadRequest` for an initializer
    that is not Keras' own.
    """
    record = InitializerRecord()
    with record.recording():
        model = build()
        is_keras = isinstance(model, keras.Model)
        if is_keras and samples is not None:
            make_variables(model, samples)
    if is_keras and weights == "equal":
        record.draw_weights(model, seed)
    return model


def make_variables(model: Any, samples: Samples) -> None:
    """Let a model make its variables, if it waits for its first batch."""
    if model.built:
        return
    if isinstance(model, keras.Sequential):
        count, *shape = arrays_of(samples.inputs)[0].shape
        # A call would fix the batch size, which only states need.
        model.build((count if is_stateful(model) else None, *shape))
    if not model.built:
        model(samples.inputs)
        reset_states(model)  # the call has changed them, by other weights than those to come


@dataclass(slots=True)
class InitializerRecord:
    """The initializers of the variables that layers made while this record was kept."""

    _creations: dict[int, "_Creation"] = field(default_factory=dict)
    """By the id of the variable, which each has."""

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what layers add inside the block."""
        add_weight = keras.layers.Layer.add_weight

        def add_recorded_weight(layer: Any, *arguments: Any, **named: Any) -> Any:
            named |= zip(("shape", "initializer", "dtype"), arguments, strict=False)
            creation = _Creation(layer, _initializer_of(layer, named))
            named["initializer"] = creation.initial_value
            creation.variable = add_weight(layer, **named)
            self._creations[id(creation.variable)] = creation
            return creation.variable

        keras.layers.Layer.add_weight = add_recorded_weight
        try:
            yield
        finally:
            keras.layers.Layer.add_weight = add_weight

    def draw_weights(self, model: Any, seed: int) -> None:
        """Draw the weights of a model anew that still have their initializers' values.

        Raise `BadRequest` for a random initializer that is not Keras' own.
        """
        for index, variable in enumerate(model.weights):
            creation = self._creations.get(id(variable))
            if creation is None or not creation.has_initial_value():
                continue
            generator = _generator(f"{index}/{variable.name}", seed)
            numbers = creation.draw(tuple(variable.shape), generator)
            if numbers is not None:
                variable.assign(numbers.astype(np.float64 if _is_double(variable) else np.float32))


@dataclass(slots=True)
class _Creation:
    """The creation of a variable: its initializer, and a digest of the value that this returned."""

    layer: Any
    initializer: Any
    variable: Any = None
    _digest: bytes | None = None

    def initial_value(self, shape: Any, dtype: Any = None) -> Any:
        """Return the initializer's value, and remember its digest."""
        value = self.initializer(shape, dtype=dtype)
        if not in_stateless_scope():  # Keras only traces a layer there; the variable comes later
            self._digest = _digest(value)
        return value

    def has_initial_value(self) -> bool:
        """Return True if nobody has set another value since."""
        return _digest(self.variable) == self._digest

    def draw(self, shape: Shape, generator: np.random.Generator) -> DrawnNumbers | None:
        """Return a value by the initializer's rule; None for a constant one, which stays."""
        if _is_bias_with_open_forget_gate(self.layer, self.initializer):
            base, quarter = self.layer.bias_initializer, shape[0] // 4
            first = self._draw_by(base, (quarter,), generator)
            others = self._draw_by(base, (2 * quarter,), generator)
            if first is None or others is None:
                return None
            return np.concatenate([first, np.ones(quarter), others])
        return self._draw_by(self.initializer, shape, generator)

    def _draw_by(
        self, initializer: Any, shape: Shape, generator: np.random.Generator
    ) -> DrawnNumbers | None:
        rule = rule_of(initializer)
        if rule is not None:
            return rule(initializer, shape, generator)
        if is_constant(initializer):
            return None
        raise BadRequest(
            f"weights of the model: variable {self.variable.path}: the initializer"
            f" {_name_of(initializer)} is not one of Keras': use one of Keras', or set"
            " settings.weights to own, so that each arm draws its own weights"
        )


def _initializer_of(layer: Any, named: dict[str, Any]) -> Any:
    """Return the initializer that `add_weight` would use with these arguments."""
    initializer = named.get("initializer")
    if initializer is None:
        dtype = keras.backend.standardize_dtype(named.get("dtype") or layer.variable_dtype)
        initializer = "glorot_uniform" if "float" in dtype else "zeros"
    return keras.initializers.get(initializer)


def _is_bias_with_open_forget_gate(layer: Any, initializer: Any) -> bool:
    """Return True for the function that an LSTM's cell makes around its bias initializer.

    The biases of the forget gate are ones (Jozefowicz et al. 2015).
    """
    is_function = getattr(initializer, "__name__", "") == "bias_initializer"
    return is_function and getattr(layer, "unit_forget_bias", False)


def _generator(path: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, *hashlib.sha256(path.encode()).digest()[:8]])


def _digest(value: Any) -> bytes:
    array = keras.ops.convert_to_numpy(value)
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()


def _is_double(variable: Any) -> bool:
    return bool(keras.backend.standardize_dtype(variable.dtype) == "float64")


def _name_of(initializer: Any) -> str:
    """Return the name and the module of an initializer: an object's class, or a function."""
    named = initializer if hasattr(initializer, "__qualname__") else type(initializer)
    return f"{named.__module__}.{named.__qualname__}"
