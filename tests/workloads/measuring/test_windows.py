"""The timed windows and the roofline, on a stand-in for Keras whose steps take known times."""

import importlib
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from workloads.backends.feeding import Feed
from workloads.context import Context, Slicing
from workloads.data.samples import Samples
from workloads.failures import NonFinite
from workloads.implementations import parse_implementation
from workloads.measuring.canary import run_device_canary, warm_clocks
from workloads.protocol import Epoch, Event, Finish, PhaseBegan, PhaseEnded, Slice, SliceDone
from workloads.settings import MetricGoal, TrainingPlan

STEP_S, FIXED_S, VALIDATE_S = 0.01, 0.03, 0.5
PLAN = TrainingPlan(4, 2, 5, MetricGoal("val_accuracy", 0.6, "time_to_accuracy_s"))


class Machine:
    """A clock that only work advances, and what a framework reports."""

    def __init__(self) -> None:
        self.now_s, self.compilations, self.canaries_ms = 100.0, 0, [3.0, 2.0]
        self.restored_at_s: list[float] = []

    def spend(self, seconds: float, result: Any = None) -> Any:
        self.now_s += seconds
        return result

    def synchronise(self, _: Any = None) -> None: ...

    def reset_peak_memory(self) -> None: ...

    def peak_gpu_mib(self) -> float:
        return 7.0

    def compilation_count(self) -> int:
        return self.compilations


class Run:
    """A `TrainingRun` of `steps` batches, whose `fit` calls what Keras calls, in its order."""

    device, flops_per_sample, batch_size, takes_one_sample = "cpu", 100.0, 4, True

    def __init__(self, machine: Machine, samples: int, **changes: Any) -> None:
        self.machine, self.plan = machine, replace(PLAN, **changes)
        self.train = Samples(np.zeros((samples, 3)), np.zeros(samples))
        self.validation, self.validation_feed = self.train, Feed(self.train.inputs)
        self.steps, self.train_feed, self.loss = -(-samples // 4), self.feed(self.train), 1.0
        witness = SimpleNamespace(framework=machine, tracings=Counter(train=1), on_steps_done=None)
        self.model: Any = SimpleNamespace(
            witness=witness,
            train_function=lambda *_: machine.spend(STEP_S),
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
        for epoch in range(epochs):
            for callback in callbacks:
                callback.model = model
                callback.on_epoch_begin(epoch)
            self.machine.spend(FIXED_S)
            for _ in range(steps):
                model.train_function()
                if model.stop_training:
                    break
            if model.witness.on_steps_done:
                model.witness.on_steps_done()
            if validation:
                self.machine.spend(VALIDATE_S)
            for callback in callbacks:
                callback.on_epoch_end(epoch, {"loss": self.loss, "val_accuracy": 0.4 * (epoch + 1)})
            if model.stop_training:
                return


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made, before = Machine(), set(sys.modules)
    fake: Any = ModuleType("keras")
    fake.callbacks, fake.Model = SimpleNamespace(Callback=object), object
    fake.layers = MagicMock(Layer=object)
    fake.regularizers = SimpleNamespace(Regularizer=object)
    fake.saving = SimpleNamespace(register_keras_serializable=lambda **_: lambda kind: kind)
    fake.random = SimpleNamespace(uniform=lambda shape, **_: np.empty(shape, np.int8))
    fake.ops = SimpleNamespace(
        cast=lambda array, _: array,
        full=lambda shape, *_, **__: np.empty(shape),
        matmul=None,
        negative=None,
    )
    monkeypatch.setitem(sys.modules, "keras", fake)
    monkeypatch.setattr(time, "monotonic", lambda: made.now_s)
    monkeypatch.setattr(module("canary"), "run_canary", lambda *_: made.canaries_ms.pop(0))
    yield made
    for name in set(sys.modules) - before:
        if name.startswith("workloads."):
            del sys.modules[name]


def module(name: str) -> Any:
    return importlib.import_module(f"workloads.measuring.{name}")


def context(*commands: Slice | Finish) -> tuple[Context, list[Event]]:
    events: list[Event] = []
    slicing = Slicing(iter(commands).__next__, slice_s=0.25) if commands else None
    implementation = parse_implementation("torch/fused")
    return Context({}, implementation, "cpu", 0, events.append, slicing), events


def test_training_is_timed_without_validation_between_two_canaries(machine: Machine) -> None:
    trial, events = context()
    metrics = module("full_training").run_timed_epochs(Run(machine, 42), trial)
    train_s = 2 * (11 * STEP_S + FIXED_S)
    assert metrics["train_s"] == pytest.approx(train_s)
    assert trial.seconds["validate"] == pytest.approx(2 * VALIDATE_S)
    assert metrics["step_ms"] == pytest.approx(1_000 * train_s / 22)
    assert metrics["samples_per_s"] == pytest.approx(84 / train_s)
    assert metrics["model_flops_per_s"] == pytest.approx(8400 / train_s)
    assert metrics["time_to_accuracy_s"] == pytest.approx(train_s)
    assert (metrics["evaluate_s"], metrics["predict_sample_ms"]) == pytest.approx((0.2, 4))
    assert (metrics["canary_ms"], metrics["peak_gpu_mib"], metrics["loss"]) == (3.0, 7.0, 1.0)
    phases = [event.phase for event in events if isinstance(event, PhaseBegan)]
    assert phases == [*["train", "validate"] * 2, "evaluate", "predict", "latency"]


def test_a_pruned_training_ends_after_its_epoch_and_is_not_evaluated(machine: Machine) -> None:
    trial = replace(context()[0], should_prune=lambda: True)
    metrics = module("full_training").run_timed_epochs(Run(machine, 42), trial)
    assert metrics["step_ms"] == pytest.approx(1_000 * (11 * STEP_S + FIXED_S) / 11)
    assert set(trial.seconds) == {"train", "validate"}


@pytest.mark.parametrize("commands", [(), (Slice(), Finish())], ids=["full", "slices"])
def test_a_loss_that_is_not_finite_fails_the_trial_immediately(
    machine: Machine, commands: tuple[Slice | Finish, ...]
) -> None:
    run, (trial, events) = Run(machine, 40), context(*commands)
    run.loss = float("nan")
    with pytest.raises(NonFinite, match="0: expected finite metrics; loss is nan"):
        (run_slices if commands else module("full_training").run_timed_epochs)(run, trial)
    assert not [event for event in events if isinstance(event, Epoch | SliceDone)]


def run_slices(run: Run, trial: Context) -> Any:
    sliced = module("sliced_training")
    machine = run.machine
    start = SimpleNamespace(restore=lambda: machine.restored_at_s.append(machine.now_s))
    sliced.StartState = lambda _: start
    return sliced.run_slices(run, trial)


@pytest.mark.parametrize(("wanted", "samples", "calls"), [(0, 42, 0), (2, 10, 2), (5, 10, 7)])
def test_single_steps_are_those_of_full_batches(
    machine: Machine, wanted: int, samples: int, calls: int
) -> None:
    trial, run = context()[0], Run(machine, samples, timed_steps=wanted)
    metrics = module("full_training").time_single_steps(run, trial)
    assert metrics == ({"step_ms_median": pytest.approx(10)} if wanted else {})
    passes = -(-calls // 3)  # every third batch is partial
    assert trial.seconds.get("steps", 0) == pytest.approx(calls * STEP_S + passes * FIXED_S)


@pytest.mark.parametrize(
    ("samples", "steps", "seconds"),
    [
        (40, 20, 2 * (10 * STEP_S + FIXED_S)),  # whole passes, with the fixed cost of each
        (4000, 25, 25 * STEP_S + FIXED_S * 25 / 1000),  # a part, with its share of that cost
    ],
)
def test_a_slice_costs_as_much_per_step_as_a_whole_pass(
    machine: Machine, samples: int, steps: int, seconds: float
) -> None:
    trial, events = context(Slice(), Slice(), Finish())
    run = Run(machine, samples)
    metrics = run_slices(run, trial)
    done = [event for event in events if isinstance(event, SliceDone)]
    assert [event.steps for event in done] == [steps] * 2
    assert [event.seconds for event in done] == pytest.approx([seconds] * 2)
    assert metrics["sample_us"] == pytest.approx(1e6 * seconds / steps / 4)
    windows = [event for event in events if isinstance(event, PhaseEnded)]
    assert all(window.seconds >= seconds * 0.99 for window in windows)
    began_s = next(event.at_s for event in events if isinstance(event, PhaseBegan))
    assert machine.restored_at_s == [began_s], "from the same start as a full trial"
    assert metrics["canary_ms"] == 3.0
    machine.canaries_ms, (trial, events) = [3.0, 2.0], context(Slice(6), Slice(1), Finish())
    run_slices(Run(machine, 8), trial)  # about the requested steps, in whole passes
    assert [event.steps for event in events if isinstance(event, SliceDone)] == [6, 2]


@pytest.mark.parametrize("product_ms", [0.2, 1.0, 60.0])
def test_the_canary_of_a_gpu_is_the_time_of_its_products_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, product_ms: float
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(
        sys.modules["keras"].ops, "matmul", lambda *_: machine.spend(product_ms / 1000)
    )
    canary_ms = run_device_canary(lambda _: waits.append(machine.now_s))
    assert canary_ms == pytest.approx(product_ms)
    assert all(later - one >= 0.02 for one, later in pairwise(waits[-6:])), "five long rounds"
    began_s = machine.now_s
    warm_clocks("gpu", machine.synchronise)
    assert 0.05 <= machine.now_s - began_s <= 0.05 + 0.012 * product_ms


def test_the_median_round_of_the_best_product_and_of_the_largest_copy_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiling round is left out; of the others, two are slower and one is faster."""
    roofline, jitter = module("roofline"), (1.0, 0.5, 1.0, 2.0, 1.0, 1.5)
    calls, product_rates = Counter[int](), {256: 1e10, 512: 8e10, 1024: 4e10}

    def spend(size: int, seconds: float) -> None:
        factor = jitter[(calls[size] - 1) % len(jitter)] if calls[size] else 1_000
        machine.spend(seconds * factor)
        calls[size] += 1

    def product(first: Any, _: Any) -> None:
        side = len(first)
        spend(side, 2.0 * side**3 / product_rates[side])

    def copy(array: Any) -> None:  # on a device with a cache of 100 MiB
        size = 4 * len(array)
        spend(size, 2.0 * size / (64e9 if size <= 100 * 2**20 else 12e9))

    monkeypatch.setattr(roofline.keras.ops, "matmul", product)
    monkeypatch.setattr(roofline.keras.ops, "negative", copy)
    measured = roofline.measure_product_rate("float32", machine.synchronise)
    assert measured.metrics("rate") == pytest.approx(
        {"rate": 8e10, "rate_low": 4e10, "rate_high": 16e10}  # not that of the largest side
    )
    assert (max(calls), calls[256]) == (1024, 7)
    assert measured is roofline.measure_product_rate("float32", machine.synchronise)
    copy_of = roofline.device_copy("float32", machine.synchronise)
    assert roofline.measure_copy_rate(copy_of, 2**30).median == pytest.approx(12e9)
    assert max(calls) == 256 * 2**20
    assert roofline.measure_copy_rate(copy_of, 1).median == pytest.approx(64e9)
