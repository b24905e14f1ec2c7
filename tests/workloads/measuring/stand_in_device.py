"""A stand-in for Keras and a machine whose steps take known times, on a clock of its own."""

import importlib
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any, Literal
from unittest.mock import MagicMock

import numpy as np
import pytest

from workloads.backends.feeding import Feed
from workloads.context import Context
from workloads.data.samples import Samples
from workloads.implementations import parse_implementation
from workloads.protocol import Event, Finish, Slice, SliceDone
from workloads.settings import MetricGoal, TrainingPlan
from workloads.turns import Turns

STEP_S, FIXED_S, VALIDATE_S = 0.01, 0.03, 0.5
PLAN = TrainingPlan(4, 2, 5, MetricGoal("val_accuracy", 0.6, "time_to_accuracy_s"))


class Machine:
    """A clock that only work advances, and what a framework reports."""

    def __init__(self) -> None:
        self.now_s, self.compilations = 100.0, 0

    def spend(self, seconds: float, result: Any = None) -> Any:
        self.now_s += seconds
        return result

    def synchronise(self, _: Any = None) -> None: ...

    def place(self, arrays: Any) -> Any:
        return arrays

    def reset_peak_memory(self) -> None: ...

    def peak_gpu_mib(self) -> float:
        return 7.0

    def compilation_count(self) -> int:
        return self.compilations


class Run:
    """A `TrainingRun` of `steps` batches, whose `fit` calls what Keras calls, in its order."""

    device, flops_per_sample, batch_size, takes_one_sample = "cpu", 100.0, 4, True
    make_callbacks: Any = None

    def __init__(
        self, machine: Machine, samples: int, *, steps_per_call: int = 1, **changes: Any
    ) -> None:
        self.machine, self.plan = machine, replace(PLAN, **changes)
        self.train = Samples(np.zeros((samples, 3)), np.zeros(samples))
        self.validation, self.validation_feed = self.train, Feed(self.train.inputs)
        self.steps, self.train_feed, self.loss = -(-samples // 4), self.feed(self.train), 1.0
        self.steps_per_call = steps_per_call
        witness = SimpleNamespace(framework=machine, tracings=Counter(train=1), on_steps_done=None)
        self.model: Any = SimpleNamespace(
            witness=witness,
            train_function=lambda steps: machine.spend(steps * STEP_S),
            evaluate=lambda **_: machine.spend(0.2, {"loss": self.loss}),
            predict=lambda **_: machine.spend(0.1, np.zeros(3)),
            predict_on_batch=lambda _: machine.spend(0.004),
        )

    def feed(self, samples: Samples) -> Feed:
        return Feed(samples)

    def callbacks(self) -> list[Any]:
        return []

    def synchronise(self) -> None: ...

    def fit(self, feed: Feed, *callbacks: Any, epochs: int = 1, **validation: Any) -> None:
        model, steps = self.model, -(-len(feed.inputs) // self.batch_size)
        model.stop_training = False
        for callback in callbacks:
            callback.model, callback.params = model, {"epochs": epochs}
            callback.on_train_begin()
        for epoch in range(epochs):
            for callback in callbacks:
                callback.on_epoch_begin(epoch)
            self.machine.spend(FIXED_S)
            for done in range(0, steps, self.steps_per_call):
                model.train_function(min(self.steps_per_call, steps - done))
                if model.stop_training:
                    break
            if model.witness.on_steps_done:
                model.witness.on_steps_done()
            if validation:
                self.machine.spend(VALIDATE_S)
            for callback in callbacks:
                callback.on_epoch_end(epoch, {"loss": self.loss, "val_accuracy": 0.4 * (epoch + 1)})
            if model.stop_training:
                break
        for callback in callbacks:
            callback.on_train_end()


@contextmanager
def in_place_of_keras(made: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the modules of `workloads.measuring` import a stand-in, on the clock of a machine."""
    before = set(sys.modules)
    fake: Any = ModuleType("keras")
    fake.callbacks, fake.Model = SimpleNamespace(Callback=object), object
    fake.layers = MagicMock(Layer=object)
    fake.regularizers = SimpleNamespace(Regularizer=object)
    fake.saving = SimpleNamespace(register_keras_serializable=lambda **_: lambda kind: kind)
    fake.utils = SimpleNamespace(PyDataset=object)
    fake.random = SimpleNamespace(uniform=lambda shape, **_: np.empty(shape, np.int8))
    fake.ops = SimpleNamespace(
        cast=lambda array, _: array,
        full=lambda shape, *_, **__: np.empty(shape),
        matmul=None,
        negative=None,
    )
    monkeypatch.setitem(sys.modules, "keras", fake)
    monkeypatch.setattr(time, "monotonic", lambda: made.now_s)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("workloads."):
            del sys.modules[name]


def module(name: str) -> Any:
    return importlib.import_module(f"workloads.measuring.{name}")


def context(
    *commands: Slice | Finish, measure: Literal["full", "timing"] = "timing"
) -> tuple[Context, list[Event]]:
    """Return a trial that gets these commands, or one of a whole training that runs alone."""
    events: list[Event] = []
    turns = Turns(events.append, slice_s=0.25)
    if commands:
        turns = Turns(events.append, iter(commands).__next__, measure=measure, slice_s=0.25)
    implementation = parse_implementation("torch/fused")
    return Context({}, implementation, "cpu", 0, events.append, turns), events


def train(run: Run, trial: Context) -> Any:
    return module("training").train_in_turns(run, trial, STEP_S)


def slices_of(events: list[Event]) -> list[SliceDone]:
    return [event for event in events if isinstance(event, SliceDone)]
