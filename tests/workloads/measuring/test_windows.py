"""The timed windows and the roofline, on a stand-in for Keras whose steps take known times."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.workloads.measuring.stand_in_device import (
    FIXED_S,
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
from workloads.failures import NonFinite
from workloads.protocol import Epoch, Finish, PhaseBegan, Resting, Slice, SliceDone


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine()
    with in_place_of_keras(made, monkeypatch):
        yield made


def test_training_is_timed_without_validation(machine: Machine) -> None:
    trial, events = context()
    run = Run(machine, 42)
    metrics = train(run, trial) | module("training").evaluate_and_predict(run, trial)
    train_s = 2 * (11 * STEP_S + FIXED_S)
    assert metrics["train_s"] == pytest.approx(train_s)
    assert trial.seconds["validate"] == pytest.approx(2 * VALIDATE_S)
    assert metrics["step_ms"] == pytest.approx(1_000 * train_s / 22)
    assert metrics["samples_per_s"] == pytest.approx(84 / train_s)
    assert metrics["model_flops_per_s"] == pytest.approx(8400 / train_s)
    assert metrics["time_to_accuracy_s"] == pytest.approx(train_s)
    assert (metrics["evaluate_s"], metrics["predict_sample_ms"]) == pytest.approx((0.2, 4))
    assert metrics["loss"] == 1.0
    phases = [event.phase for event in events if isinstance(event, PhaseBegan)]
    assert phases == [*["train", "validate"] * 2, "evaluate", "predict", "latency"]


def test_a_whole_training_takes_turns_of_training_and_of_validation(machine: Machine) -> None:
    """An epoch of 100 steps in four slices, then its validation; the end is a turn, too."""
    trial, events = context(*[Slice(25)] * 10, Finish((3,)), measure="full")
    metrics = train(Run(machine, 400), trial)
    rests = [event.before for event in events if isinstance(event, Resting)]
    epoch = ["train"] * 4 + ["validate"]
    assert rests == [*epoch, *epoch, "finish"]
    quarter_s = 25 * STEP_S + FIXED_S / 4  # its share of the fixed cost of a pass
    assert [part.steps for part in slices_of(events)] == [25] * 8
    seconds = [part.seconds for part in slices_of(events)]
    assert seconds == pytest.approx([quarter_s] * 8)
    epochs = [event for event in events if isinstance(event, Epoch)]
    assert [epoch.seconds for epoch in epochs] == pytest.approx([100 * STEP_S + FIXED_S] * 2)
    assert metrics["train_s"] == pytest.approx(2 * (100 * STEP_S + FIXED_S))
    assert metrics["step_ms"] == pytest.approx(1_000 * quarter_s / 25)


class SpendingCallback:
    """A user's callback that takes a second at each edge, compiles, and may stop a training."""

    def __init__(self, machine: Machine, last_epoch: int) -> None:
        self.machine, self.last_epoch = machine, last_epoch

    def set_params(self, params: Any) -> None: ...

    def set_model(self, model: Any) -> None:
        self.model = model

    def on_train_begin(self, logs: Any = None) -> None:
        self.machine.spend(1.0)

    on_train_end = on_train_begin

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.machine.compilations += 1
        self.machine.spend(1.0)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.on_epoch_begin(epoch)
        logs["learning_rate"] = 0.1
        self.model.stop_training = epoch == self.last_epoch


@pytest.mark.parametrize(("last_epoch", "epochs"), [(0, 1), (5, 2)])
def test_callbacks_work_outside_of_all_windows_and_may_end_the_turns(
    machine: Machine, last_epoch: int, epochs: int
) -> None:
    trial, events = context(*[Slice(25)] * 10, Finish(), measure="full")
    run = Run(machine, 400)
    run.make_callbacks = lambda: [SpendingCallback(machine, last_epoch)]
    metrics = train(run, trial)
    rests = [event.before for event in events if isinstance(event, Resting)]
    assert rests == [*[*["train"] * 4, "validate"] * epochs, "finish"]
    assert metrics["train_epochs"] == epochs
    assert metrics["train_s"] == pytest.approx(epochs * (100 * STEP_S + FIXED_S))
    assert trial.seconds["validate"] == pytest.approx(epochs * VALIDATE_S)
    assert trial.seconds["callbacks"] == pytest.approx(2 + 2 * epochs)
    reported = [event.metrics.keys() for event in events if isinstance(event, Epoch)]
    assert reported == [{"loss", "val_accuracy"}] * epochs
    run.loss = 0.5
    assert module("training").evaluate_and_predict(run, trial)["val_loss"] == 0.5


def test_a_stop_within_a_slice_of_several_passes_ends_the_slice(machine: Machine) -> None:
    trial, events = context(Slice(40), Finish(), measure="full")
    run = Run(machine, 40, epochs=4)
    run.make_callbacks = lambda: [SpendingCallback(machine, 1)]
    metrics = train(run, trial)
    assert [part.steps for part in slices_of(events)] == [20]
    assert metrics["step_ms"] == pytest.approx(1_000 * (STEP_S + FIXED_S / 10))


def test_no_part_of_a_pass_has_the_step_on_a_smaller_batch(machine: Machine) -> None:
    trial, events = context(*[Slice(5)] * 10, Finish(), measure="full")
    metrics = train(Run(machine, 42), trial)  # ten full batches of 4, and one of 2
    assert [part.steps for part in slices_of(events)] == [5] * 4
    rests = [event.before for event in events if isinstance(event, Resting)]
    assert rests == [*["train", "train", "validate"] * 2, "finish"]
    assert metrics["step_ms"] == pytest.approx(1_000 * (STEP_S + FIXED_S / 11))
    assert metrics["samples_per_s"] == pytest.approx(4_000 / metrics["step_ms"])
    assert metrics["train_s"] == pytest.approx(2 * (11 * STEP_S + FIXED_S))
    assert metrics["train_samples"] == 84


@pytest.mark.parametrize(
    ("samples", "per_call", "asked", "steps"),
    [
        pytest.param(400, 3, 25, [24, 27, 24, 25], id="the last call has one step"),
        pytest.param(42, 4, 5, [4, 4], id="the last call has the smaller batch"),
        pytest.param(400, 500, 25, [100], id="one call is a pass"),
    ],
)
def test_all_steps_of_a_call_are_counted(
    machine: Machine, samples: int, per_call: int, asked: int, steps: list[int]
) -> None:
    trial, events = context(*[Slice(asked)] * 20, Finish(), measure="full")
    run = Run(machine, samples, steps_per_call=per_call)
    metrics = train(run, trial) | module("training").time_single_steps(run, trial)
    assert [part.steps for part in slices_of(events)] == steps * 2
    assert metrics["step_ms"] == pytest.approx(1_000 * (STEP_S + FIXED_S / run.steps))
    assert metrics["step_ms_median"] == pytest.approx(1_000 * STEP_S)
    assert metrics["train_samples"] == 2 * samples
    assert module("keras_clocks").estimate_step_s(run, 0.25) == pytest.approx(STEP_S)


def test_a_long_training_has_longer_slices(machine: Machine) -> None:
    trial, events = context(*[Slice(1)] * 500, measure="full")
    train(Run(machine, 4 * 5_000), trial)  # two epochs
    assert {part.steps for part in slices_of(events)} == {25}


def test_slices_that_are_set_aside_do_not_count(machine: Machine) -> None:
    trial, _ = context(Slice(10), Slice(10), Slice(10), Finish((1,)))
    run, lasts_s = Run(machine, 40), iter([*[0.02] * 10, *[0.001] * 10, *[0.03] * 10])
    run.model.train_function = lambda *_: machine.spend(next(lasts_s))
    assert train(run, trial)["sample_us"] == pytest.approx(1e6 * (0.02 + FIXED_S / 10) / 4)


@pytest.mark.parametrize("commands", [(), (Slice(), Slice(), Finish())], ids=["alone", "in turns"])
def test_a_pruned_training_ends_after_its_epoch(
    machine: Machine, commands: tuple[Slice | Finish, ...]
) -> None:
    trial, events = context(*commands, measure="full")
    trial.turns.was_sent_finish = lambda: True
    trial = replace(trial, should_prune=trial.turns.should_prune)
    metrics = train(Run(machine, 100), trial)
    assert metrics["step_ms"] == pytest.approx(1_000 * (25 * STEP_S + FIXED_S) / 25)
    assert set(trial.seconds) == {"train", "validate"}
    assert trial.turns.is_pruned
    assert len([event for event in events if isinstance(event, Epoch)]) == 1


@pytest.mark.parametrize("commands", [(), (Slice(), Finish())], ids=["full", "timing"])
def test_a_loss_that_is_not_finite_fails_the_trial_immediately(
    machine: Machine, commands: tuple[Slice | Finish, ...]
) -> None:
    run, (trial, events) = Run(machine, 40), context(*commands)
    run.loss = float("nan")
    with pytest.raises(NonFinite, match="0: loss is nan"):
        train(run, trial)
    assert not [event for event in events if isinstance(event, Epoch | SliceDone)]


@pytest.mark.parametrize(("wanted", "samples", "calls"), [(0, 42, 0), (2, 10, 2), (5, 10, 7)])
def test_single_steps_are_those_of_full_batches(
    machine: Machine, wanted: int, samples: int, calls: int
) -> None:
    trial, run = context()[0], Run(machine, samples, timed_steps=wanted)
    metrics = module("training").time_single_steps(run, trial)
    assert metrics == ({"step_ms_median": pytest.approx(10)} if wanted else {})
    passes = -(-calls // 3)  # every third batch is partial
    assert trial.seconds.get("steps", 0) == pytest.approx(calls * STEP_S + passes * FIXED_S)


def test_a_slice_is_whole_passes_or_an_equal_part_of_one(machine: Machine) -> None:
    trial, events = context(Slice(), Slice(), Finish())
    train(Run(machine, 40), trial)
    assert [part.steps for part in slices_of(events)] == [20] * 2
    assert slices_of(events)[0].seconds == pytest.approx(2 * (10 * STEP_S + FIXED_S))
    trial, events = context(*[Slice(6)] * 4, Finish())
    train(Run(machine, 80), trial)  # 20 steps in a pass
    assert [part.steps for part in slices_of(events)] == [7, 6, 7, 7]


def test_the_clocks_of_a_gpu_are_raised_before_a_window(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["keras"].ops, "matmul", lambda *_: machine.spend(0.002))
    began_s = machine.now_s
    module("device_state").warm_clocks("gpu", machine.synchronise)
    assert 0.05 <= machine.now_s - began_s <= 0.08


def test_the_median_round_of_the_best_product_counts(
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

    monkeypatch.setattr(roofline.keras.ops, "matmul", product)
    measured = roofline.measure_product_rate("float32", machine.synchronise)
    assert measured == pytest.approx(8e10)  # not the rate of the largest side
    assert (max(calls), calls[256]) == (1024, 7)
    assert measured is roofline.measure_product_rate("float32", machine.synchronise)


def test_a_trial_on_a_gpu_alone_has_its_share_of_the_measured_peak(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module("roofline"), "measure_product_rate", lambda *_: 8e10)
    trial, framework = context()[0], SimpleNamespace(synchronise=machine.synchronise)
    measure = module("measurement").measure_utilization
    measured = measure(replace(trial, device="gpu"), framework, {"model_flops_per_s": 2e10})
    assert measured == {"peak_flops_per_s": 8e10, "model_flops_utilization_pct": 25}
    assert measure(trial, framework, {"model_flops_per_s": 2e10}) == {}
