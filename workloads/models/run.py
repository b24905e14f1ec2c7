"""A model with the data and the settings of its training, as `fit` takes them. Imports Keras."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import keras

from workloads.data.samples import Samples
from workloads.frameworks.feeding import Feed
from workloads.models.model import WitnessedModel
from workloads.models.start_state import StartState
from workloads.protocol import Device


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A model with its data and settings: `train` is already in the trial's batch order.

    `flops_per_sample` counts a training step. A `stateful` model keeps its states from batch to
    batch; they are reset at the start of every epoch and of every evaluation.
    """

    model: WitnessedModel
    train: Samples
    validation: Samples
    batch_size: int
    epochs: int
    device: Device = "cpu"
    target_accuracy: float | None = None
    timed_steps: int = 0
    stateful: bool = False
    flops_per_sample: float | None = None
    feeds: Feeds = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "feeds", Feeds.of(self))

    @property
    def steps(self) -> int:
        """Steps of one epoch, the partial last batch included."""
        return -(-len(self.train) // self.batch_size)

    @property
    def takes_one_sample(self) -> bool:
        """True if the model takes a batch of one sample; its batch size may be fixed."""
        return self.model.input_shape[0] in (None, 1)

    def synchronise(self) -> None:
        """Wait until the values of all variables of model and optimizer are computed."""
        variables = [*self.model.variables, *self.model.optimizer.variables]
        self.model.witness.framework.synchronise([variable.value for variable in variables])

    def train_one_step(self) -> None:
        """Run one step of `fit` on the first batch, for its evidence; then restore the state."""
        start, batch = StartState(self.model), self.train.first(self.batch_size)
        feed = self.model.witness.framework.make_feed(batch, self.batch_size, self.device)
        self.model.fit(**feed.with_targets(), shuffle=False, verbose=0, callbacks=self.callbacks())
        start.restore()

    def callbacks(self) -> list[Any]:
        """Return the callbacks that every `fit` of this model needs."""
        return self.model.callbacks() + ([StateReset()] if self.stateful else [])


@dataclass(frozen=True, slots=True)
class Feeds:
    """The data as `fit` takes it: all of it, and short parts that have every batch shape."""

    train: Feed
    validation: Feed
    short_train: Feed
    short_validation: Feed

    @classmethod
    def of(cls, run: TrainingRun) -> Feeds:
        """Make the feeds of a run; call it once, since the data may be copied to the device."""

        def feed(samples: Samples) -> Feed:
            return run.model.witness.framework.make_feed(samples, run.batch_size, run.device)

        short_train = _every_shape(run.train, run.batch_size)
        short_validation = _every_shape(run.validation, run.batch_size)
        return cls(feed(run.train), feed(run.validation), feed(short_train), feed(short_validation))


class StateReset(keras.callbacks.Callback):
    """A callback that resets the states of recurrent layers before a new sequence of batches."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Reset the states before an epoch."""
        self._reset()

    def on_test_begin(self, logs: Any = None) -> None:
        """Reset the states before an evaluation."""
        self._reset()

    def on_predict_begin(self, logs: Any = None) -> None:
        """Reset the states before a prediction."""
        self._reset()

    def _reset(self) -> None:
        for layer in self.model.layers:
            if hasattr(layer, "reset_state"):
                layer.reset_state()


def _every_shape(data: Samples, batch_size: int) -> Samples:
    """Return the fewest samples whose batches have all shapes of `data`: full, and partial.

    XLA compiles for every shape, and no count of tracings shows that. This function is the reason
    why a timed epoch never compiles. It also keeps the static shape of the batches: Keras gives a
    batch size of None only to data with a partial batch.
    """
    partial = len(data) % batch_size
    return data.first(min(len(data), batch_size + partial))
