"""What is to be trained, with its data as `fit` takes it. Imports Keras."""

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
    """What is to be trained: `train` already stands in the trial's batch order.

    `flops_per_sample` are those of a training step. A `stateful` model goes on from batch to
    batch: its states are reset at the beginning of each epoch and of each evaluation.
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
        """Whether the model takes a batch of one: its batch size may be fixed."""
        return self.model.input_shape[0] in (None, 1)

    def synchronise(self) -> None:
        """Wait for all that the model's variables depend on."""
        variables = [*self.model.variables, *self.model.optimizer.variables]
        self.model.witness.framework.synchronise([variable.value for variable in variables])

    def train_one_step(self) -> None:
        """One step of `fit` on the first batch, for those who look at it; changes nothing."""
        start, batch = StartState(self.model), self.train.first(self.batch_size)
        feed = self.model.witness.framework.batches(batch, self.batch_size, self.device)
        self.model.fit(**feed.with_targets(), shuffle=False, verbose=0, callbacks=self.callbacks())
        start.restore()

    def callbacks(self) -> list[Any]:
        """Those that belong to the training, whoever watches it."""
        return self.model.callbacks() + ([StateReset()] if self.stateful else [])


@dataclass(frozen=True, slots=True)
class Feeds:
    """The data as `fit` takes it, whole, and as little of it as has every shape."""

    train: Feed
    validation: Feed
    short_train: Feed
    short_validation: Feed

    @classmethod
    def of(cls, run: TrainingRun) -> Feeds:
        """Make them once: they may be copied to the device."""

        def feed(samples: Samples) -> Feed:
            return run.model.witness.framework.batches(samples, run.batch_size, run.device)

        short_train = _every_shape(run.train, run.batch_size)
        short_validation = _every_shape(run.validation, run.batch_size)
        return cls(feed(run.train), feed(run.validation), feed(short_train), feed(short_validation))


class StateReset(keras.callbacks.Callback):
    """Resets the states of recurrent layers where a sequence of batches begins anew."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Training begins at the beginning of the streams."""
        self._reset()

    def on_test_begin(self, logs: Any = None) -> None:
        """So does an evaluation."""
        self._reset()

    def on_predict_begin(self, logs: Any = None) -> None:
        """So does a prediction."""
        self._reset()

    def _reset(self) -> None:
        for layer in self.model.layers:
            if hasattr(layer, "reset_state"):
                layer.reset_state()


def _every_shape(data: Samples, batch_size: int) -> Samples:
    """As few samples as give the batches of `data` every shape they have: full, and partial.

    XLA compiles again for each shape, which no count of tracings shows: that a timed epoch never
    does rests on this function. It also keeps the batches' static shape: Keras gives a batch size
    of None to data with a partial batch only.
    """
    partial = len(data) % batch_size
    return data.first(min(len(data), batch_size + partial))
