"""The measured model: Keras' own, with a record of every tracing of its steps."""

import functools
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import keras

from workloads.backends.framework import Framework
from workloads.models.layers import state_variables, stateful_layers
from workloads.protocol import TimedWork


@dataclass(slots=True)
class Witness:
    """The record of a model's steps; no attributes of the model, as Keras would wrap them.

    `tracings` counts tracings by step: a constant count shows that nothing was traced.
    `eager_steps` counts steps of the timed work that ran untraced. `tracing_records` has
    `Framework.tracing_record` of every tracing of such a step, `layer_states` the same of layers.
    """

    framework: Framework
    timed_work: TimedWork = "train"
    """The work whose kernel is proved."""

    author_variables: tuple[str, ...] = ()
    """The paths of the trainable variables of the author's model, in its order."""

    tracings: Counter[str] = field(default_factory=Counter)
    eager_steps: int = 0
    tracing_records: list[Any] = field(default_factory=list)
    layer_states: tuple[Any, ...] = ()

    on_steps_done: Callable[[], None] | None = None
    """Called after the last train step of an epoch, before its validation."""

    _is_paused: bool = False

    def record_call(self, step: str, arguments: Any) -> None:
        """Record a call of a step: every call of an untraced step, else a tracing of it."""
        if self._is_paused:
            return
        record = self.framework.tracing_record(arguments)
        if record is not None:
            self.tracings[step] += 1
        if step == self.timed_work:
            if record is None:
                self.eager_steps += 1
            else:
                self.tracing_records.append(record)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing inside the block, where steps are called for their evidence only."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False


class WitnessedModel(keras.Model):
    """A Keras model that records every tracing of its steps, and reports the end of an epoch's.

    `witness_model` mixes this class into the class of a model that its author built.
    """

    witness: Witness

    @property
    def variables(self) -> list[Any]:
        """Keras' own variables, and the states of stateful layers, which Keras leaves out."""
        # JAX's compiled steps take and return exactly these. Any other variable keeps its value, so
        # a stateful layer would silently start from zero in every batch.
        return [*super().variables, *self.witness.layer_states]

    def train_step(self, *arguments: Any) -> Any:
        """Record a call, and run Keras' own step."""
        self.witness.record_call("train", arguments)
        return super().train_step(*arguments)

    def test_step(self, *arguments: Any) -> Any:
        """Record a call, and run Keras' own step."""
        self.witness.record_call("test", arguments)
        return super().test_step(*arguments)

    def predict_step(self, *arguments: Any) -> Any:
        """Record a call, and run Keras' own step."""
        self.witness.record_call("predict", arguments)
        return super().predict_step(*arguments)

    def _get_metrics_result_or_logs(self, logs: Any) -> Any:
        """Call `on_steps_done`, in a method that `fit` calls right after an epoch's last step."""
        # That moment is the end of the training window. `on_test_begin` is too late: in the first
        # epoch `fit` builds the validation pipeline before it.
        result = super()._get_metrics_result_or_logs(logs)
        if self.witness.on_steps_done is not None:
            self.witness.on_steps_done()
        return result


def witness_model(model: Any, framework: Framework) -> WitnessedModel:
    """Let a Keras model of any class record its steps; it is the same object afterwards.

    A training step of the model's own class still runs: the recording method calls it.
    """
    witness = Witness(framework, layer_states=_untracked_states(model))
    model.witness = witness
    object.__setattr__(model, "__class__", _witnessed_class(cast(Hashable, type(model))))
    witnessed: WitnessedModel = model
    return witnessed


@functools.cache
def _witnessed_class(base: Any) -> Any:
    return type(f"Witnessed{base.__name__}", (WitnessedModel, base), {})


def _untracked_states(model: Any) -> tuple[Any, ...]:
    """Return the distinct states of Keras' stateful layers; `FusedStack` has variables instead."""
    states = [state for layer in stateful_layers(model) for state in state_variables(layer)]
    tracked = {id(variable) for variable in model.variables}
    return tuple({id(state): state for state in states if id(state) not in tracked}.values())
