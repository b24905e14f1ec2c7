"""A model with the data and the plan of its training, as `fit` takes them. Imports Keras."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from workloads.backends.feeding import Batches, Feed, array_feed, is_in_memory
from workloads.data.samples import Samples
from workloads.models.layers import is_stateful, reset_states
from workloads.models.model import WitnessedModel
from workloads.protocol import Device
from workloads.settings import TrainingPlan


class StartState:
    """A copy of all that training changes: weights, optimizer, seeds, metrics, random state."""

    def __init__(self, model: WitnessedModel) -> None:
        if model.compiled:
            model.optimizer.build(model.trainable_variables)
        self.model = model
        self._values = self.current_values()
        self._random_state = model.witness.framework.random_state()

    def current_values(self) -> list[np.ndarray[Any, Any]]:
        """Return copies of the current values of all variables."""
        return [np.array(keras.ops.convert_to_numpy(v.value)) for v in _variables(self.model)]

    def restore(self) -> None:
        """Restore the saved state."""
        for variable, value in zip(_variables(self.model), self._values, strict=True):
            variable.assign(value)
        self.model.reset_metrics()  # the first step makes their variables, which start at zero
        self.model.witness.framework.restore_random_state(self._random_state)


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A model with its data and plan: `train` is already in the trial's batch order.

    `flops_per_sample` counts a training step; None if it cannot be counted. `make_callbacks`
    returns the user's callbacks for a whole training, if there are any. A stateful model keeps its
    states from batch to batch; they are reset at the start of every epoch and of every evaluation.
    The feeds are all of the data, and short parts that have every batch shape.
    """

    model: WitnessedModel
    plan: TrainingPlan
    train: Samples
    validation: Samples
    device: Device = "cpu"
    flops_per_sample: float | None = None
    make_callbacks: Callable[[], Sequence[Any]] | None = None
    train_feed: Feed = field(init=False)
    validation_feed: Feed = field(init=False)
    short_train_feed: Feed = field(init=False)
    short_validation_feed: Feed = field(init=False)

    def __post_init__(self) -> None:
        for name in ("train", "validation"):
            samples: Samples = getattr(self, name)
            object.__setattr__(self, f"{name}_feed", self.feed(samples))
            # The fewest samples whose calls have all shapes, full and partial: XLA compiles for
            # each, which no count of tracings shows. It also keeps the static shape of the batches:
            # Keras gives a batch size of None only to data with a partial batch.
            call = self.batch_size * self.steps_per_call
            fewest = min(len(samples), call + len(samples) % call)
            object.__setattr__(self, f"short_{name}_feed", self.feed(samples.first(fewest)))

    @property
    def batch_size(self) -> int:
        """Samples of a full batch."""
        return self.plan.batch_size

    @property
    def steps_per_call(self) -> int:
        """Steps that Keras runs in one call, as the model is compiled (`steps_per_execution`)."""
        return int(self.model.steps_per_execution)

    @property
    def steps(self) -> int:
        """Steps of one epoch, the partial last batch included."""
        return -(-len(self.train) // self.batch_size)

    @property
    def takes_one_sample(self) -> bool:
        """True if the model takes a batch of one sample; its batch size may be fixed."""
        inputs = getattr(self.model, "inputs", None)
        if not inputs:  # a subclassed model, whose layers alone know their batch
            return not is_stateful(self.model)
        return all(tensor.shape[0] in (None, 1) for tensor in inputs)

    def feed(self, samples: Samples) -> Feed:
        """Return samples as a user gives them to `fit`: arrays, or batches of a larger data set."""
        if is_in_memory(samples):
            return array_feed(samples, self.batch_size)
        return Feed(_BatchDataset(Batches(samples, self.batch_size)))

    def fit(self, feed: Feed, *callbacks: Any, epochs: int = 1, **arguments: Any) -> Any:
        """Train by Keras' own loop, in the order of the feed; return its history."""
        return self.model.fit(
            **feed.with_targets(),
            **arguments,
            epochs=epochs,
            shuffle=False,
            verbose=0,
            callbacks=[*self.callbacks(), *callbacks],
        )

    def synchronise(self) -> None:
        """Wait until the values of all variables of model and optimizer are computed."""
        values = [variable.value for variable in _variables(self.model)]
        self.model.witness.framework.synchronise(values)

    def fit_first_batch(self) -> None:
        """Run one step of `fit` on the first batch; it changes the model's state."""
        self.fit(self.feed(self.train.first(self.batch_size)))

    def callbacks(self) -> list[Any]:
        """Return the callbacks that every `fit` of this model needs."""
        return [_StateReset()] if is_stateful(self.model) else []


class _BatchDataset(keras.utils.PyDataset):
    """Batches that Keras reads when it needs them."""

    def __init__(self, batches: Batches) -> None:
        super().__init__()
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        return self._batches[index]


class _StateReset(keras.callbacks.Callback):
    """A callback that resets the states of recurrent layers before a new sequence of batches."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        reset_states(self.model)

    def on_test_begin(self, logs: Any = None) -> None:
        reset_states(self.model)

    on_predict_begin = on_test_begin


def _variables(model: WitnessedModel) -> list[Any]:
    """Return the variables of the model, which include the seeds, and of its optimizer, if any."""
    return [*model.variables, *(model.optimizer.variables if model.compiled else [])]
