"""The windows on a device that works on after a call has returned, as a GPU does.

Before and after each window other work is left on the device. A window without a synchronisation
at its beginning would contain it, and a window without one at its end would lack its own work.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.workloads.measuring.stand_in_device import (
    FIXED_S,
    PLAN,
    STEP_S,
    VALIDATE_S,
    Machine,
    Run,
    context,
    in_place_of_keras,
    module,
    slices_of,
    train,
)
from tests.workloads.shared_trainer import expect_package
from workloads.data.samples import Samples
from workloads.protocol import Finish, PhaseEnded, Slice, SliceDone

LAUNCH_S = 1e-7
OTHER_S = 7.0
METRICS_S = 0.004
COMPILE_S = 5.0


class AsynchronousMachine(Machine):
    """A device with a queue: a call takes `LAUNCH_S` on the host, and its work ends later."""

    idle_at_s = 0.0

    def spend(self, seconds: float, result: Any = None) -> Any:
        self.now_s += LAUNCH_S
        self.idle_at_s = max(self.idle_at_s, self.now_s) + seconds
        return result

    def synchronise(self, _: Any = None) -> None:
        self.now_s = max(self.now_s, self.idle_at_s)


class AsynchronousRun(Run):
    """A run that leaves the metrics of an epoch to the device after the last step."""

    def __init__(self, machine: Machine, samples: int, **changes: Any) -> None:
        super().__init__(machine, samples, **changes)

        def predict_on_batch(_: Any) -> None:  # its result is on the host
            machine.spend(0.004)
            machine.synchronise()

        self.model.predict_on_batch = predict_on_batch

    def synchronise(self) -> None:
        self.machine.synchronise()

    def fit(self, feed: Any, *callbacks: Any, epochs: int = 1, **validation: Any) -> None:
        leave = SimpleNamespace(
            **dict.fromkeys(("on_train_begin", "on_train_end"), lambda: None),
            on_epoch_begin=lambda _: None,
            on_epoch_end=lambda *_: self.machine.spend(METRICS_S),
        )
        super().fit(feed, leave, *callbacks, epochs=epochs, **validation)
        self.machine.spend(OTHER_S)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[AsynchronousMachine]:
    made = AsynchronousMachine()
    with in_place_of_keras(made, monkeypatch):
        yield made


def approximately(seconds: float | list[float]) -> Any:
    return pytest.approx(seconds, rel=1e-3, abs=1e-4)


def test_a_whole_training(machine: AsynchronousMachine) -> None:
    trial, events = context()
    machine.spend(OTHER_S)
    run = AsynchronousRun(machine, 42)
    metrics = train(run, trial) | module("training").evaluate_and_predict(run, trial)
    train_s = 11 * STEP_S + FIXED_S
    windows = [event for event in events if isinstance(event, PhaseEnded)]
    seconds = {
        phase: [window.seconds for window in windows if window.phase == phase]
        for phase in ("train", "validate", "evaluate", "predict", "latency")
    }
    assert seconds == {
        "train": approximately([train_s] * 2),
        "validate": approximately([VALIDATE_S + METRICS_S] * 2),
        "evaluate": approximately([0.2]),
        "predict": approximately([0.1]),
        "latency": approximately([20 * 0.004]),
    }
    assert metrics["train_s"] == approximately(2 * train_s)
    assert metrics["predict_sample_ms"] == approximately(4)


def test_single_steps(machine: AsynchronousMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[float] = []

    def keep(seconds: list[float]) -> dict[str, float]:
        timed.extend(seconds)
        return {}

    monkeypatch.setattr(module("training"), "step_metrics", keep)
    machine.spend(OTHER_S)
    run = AsynchronousRun(machine, 40, timed_steps=15)  # the second pass begins after metrics
    module("training").time_single_steps(run, context()[0])
    assert timed == approximately([STEP_S] * 15)


def test_slices_of_a_training(machine: AsynchronousMachine) -> None:
    trial, events = context(*[Slice()] * 3, Finish())
    train(AsynchronousRun(machine, 40), trial)  # whole passes
    assert [part.steps for part in slices_of(events)] == [20] * 3
    seconds = [part.seconds for part in slices_of(events)]
    assert seconds == approximately([2 * (10 * STEP_S + FIXED_S)] * 3)
    trial, events = context(*[Slice()] * 3, Finish())
    train(AsynchronousRun(machine, 4000), trial)  # parts of a pass
    assert [part.steps for part in slices_of(events)] == [25] * 3
    _, *seconds = [part.seconds for part in slices_of(events)]
    assert seconds == approximately([25 * STEP_S] * 2), "the fixed cost is on the device here"


def test_slices_of_calls(machine: AsynchronousMachine) -> None:
    trial, events = context(Slice(5), Slice(5), Finish())
    next_command = trial.turns.next_command
    assert next_command is not None

    def leave_work_and_wait() -> Any:
        machine.spend(OTHER_S)
        return next_command()

    trial.turns.next_command = leave_work_and_wait
    machine.spend(OTHER_S)
    module("slices_of_calls").time_slices(
        trial,
        machine,
        lambda steps: [machine.spend(STEP_S) for _ in range(steps)],
        batch_size=4,
        flops_per_sample=1.0,
    )
    *_, first, second = (event for event in events if isinstance(event, SliceDone))
    assert [first.seconds, second.seconds] == approximately([5 * STEP_S] * 2)


def test_passes(machine: AsynchronousMachine) -> None:
    passes: Any = SimpleNamespace(
        forward=lambda _: machine.spend(STEP_S / 4),
        forward_backward=lambda _: machine.spend(STEP_S),
    )
    trial = context()[0]
    plan = replace(PLAN, epochs=1)
    timing = module("passes_timing").PassesTiming(trial, plan, machine, passes, None, 1.0)
    timing.run_each_once()
    metrics = timing.time_whole()
    assert metrics["forward_ms"] == approximately(1_000 * STEP_S / 4)
    assert metrics["step_ms"] == approximately(1_000 * STEP_S)
    assert metrics["step_ms_median"] == approximately(1_000 * STEP_S)


def test_the_first_passes_of_a_trial_in_slices(machine: AsynchronousMachine) -> None:
    passes: Any = SimpleNamespace(
        forward=lambda _: machine.spend(STEP_S), forward_backward=lambda _: machine.spend(STEP_S)
    )
    trial, began_s = context(Finish())[0], machine.now_s
    timing = module("passes_timing").PassesTiming(trial, PLAN, machine, passes, None, 1.0)
    timing.run_each_once()
    assert machine.now_s - began_s == approximately(STEP_S), "they count as compilation"


class AsynchronousModuleRun:
    """A run of a PyTorch module of 11 batches; placing a batch for a single step leaves work."""

    device, batch_size, steps, is_compiled, forward_flops_per_sample = "cpu", 4, 11, False, 100.0
    plan = PLAN

    def __init__(self, machine: AsynchronousMachine) -> None:
        self.framework = machine
        self.train = self.validation = Samples(np.zeros((42, 3)), np.zeros(42))
        self.train_feed = self.validation_feed = [(np.zeros((4, 3)), np.zeros(4))] * self.steps
        self.compiling_s = iter([COMPILE_S])

    def state(self) -> None: ...

    def restore(self, _: None) -> None: ...

    def endless_batches(self) -> Iterator[Any]:
        for batch in itertools.cycle(self.train_feed):
            self.framework.spend(OTHER_S)
            yield batch

    def train_on(self, batches: Iterable[Any]) -> float:
        for _ in batches:
            self.framework.spend(STEP_S + next(self.compiling_s, 0.0))
        return 1.0

    def evaluate(self, batches: Iterable[Any]) -> dict[str, float]:
        for _ in batches:
            self.framework.spend(VALIDATE_S / self.steps)
        self.framework.synchronise()  # its result is on the host
        return {"accuracy": 0.5}

    def predict_batches(self, batches: Iterable[Any]) -> list[float]:
        for _ in batches:
            self.framework.spend(0.001)
        return [0.0]


def test_a_whole_training_of_a_module(
    machine: AsynchronousMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_package("torch")
    measuring = module("module_training")
    proof = SimpleNamespace(ran="native", evidence="the stand-in has one kernel")
    monkeypatch.setattr(measuring, "prove_module", lambda *_: proof)
    steps_s = list[float]()

    def keep(seconds: list[float]) -> dict[str, float]:
        steps_s.extend(seconds)
        return {}

    monkeypatch.setattr(measuring, "step_metrics", keep)
    run, (trial, events) = AsynchronousModuleRun(machine), context()
    metrics = measuring.measure_module(run, trial)
    windows = [event for event in events if isinstance(event, PhaseEnded)]
    seconds = {
        phase: [window.seconds for window in windows if window.phase == phase]
        for phase in ("validate", "evaluate", "predict")
    }
    assert trial.seconds["train"] == approximately(22 * STEP_S)
    assert seconds == {
        "validate": approximately([VALIDATE_S] * 2),
        "evaluate": approximately([VALIDATE_S]),
        "predict": approximately([0.011]),
    }
    assert steps_s == approximately([STEP_S] * PLAN.timed_steps)
    assert metrics["compile_s"] == approximately(COMPILE_S)


def test_batches_for_predictions_are_placed_before_they_are_timed(
    machine: AsynchronousMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictions = module("sliced_predictions")
    predictions.keras.tree = SimpleNamespace(flatten=lambda arrays: [arrays])
    monkeypatch.setattr(machine, "place", lambda arrays: machine.spend(OTHER_S, arrays))
    samples = Samples(np.zeros((8, 3)), np.zeros(8))
    assert len(predictions.place_batches(machine, samples, 4)) == 2
    assert machine.idle_at_s <= machine.now_s


def test_the_warm_up(machine: AsynchronousMachine) -> None:
    clocks = module("keras_clocks")
    clocks.StartState = lambda _: SimpleNamespace(restore=lambda: None)
    compiling_s = iter([5.0, 0.0])
    run = AsynchronousRun(machine, 40)
    compile_s = clocks.warm_up(run, lambda _: machine.spend(STEP_S + next(compiling_s)))
    assert compile_s == approximately(5.0)
    predictions = module("sliced_predictions")
    first_s = iter([5.0, 0.0, 0.0])
    timed = predictions.Predictions(
        context()[0],
        machine,
        [np.zeros(4)],
        4,
        lambda batches: machine.spend(STEP_S + next(first_s), [np.zeros(4)][: len(list(batches))]),
        None,
        1.0,
    )
    predictions.keras.tree = SimpleNamespace(flatten=list)
    predictions.keras.ops.convert_to_numpy = np.asarray
    assert timed.warm_up() == approximately(5.0)
