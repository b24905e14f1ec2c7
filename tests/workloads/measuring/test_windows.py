"""The timed windows and the roofline, on a stand-in for Keras whose steps take known times."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
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
    run_slices,
)
from workloads.failures import NonFinite
from workloads.measuring.canary import run_device_canary, warm_clocks
from workloads.protocol import Epoch, Finish, PhaseBegan, PhaseEnded, Slice, SliceDone


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine()
    with in_place_of_keras(made, monkeypatch):
        yield made


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


@pytest.mark.parametrize("product_ms", [0.2, 60.0])
def test_the_canary_of_a_gpu_is_the_time_of_its_products_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, product_ms: float
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(
        sys.modules["keras"].ops, "matmul", lambda *_: machine.spend(product_ms / 1000)
    )
    canary_ms = run_device_canary(lambda _: waits.append(machine.now_s))
    assert canary_ms == pytest.approx(product_ms)
    assert all(later - earlier >= 0.02 for earlier, later in pairwise(waits[-6:])), (
        "five long rounds"
    )
    began_s = machine.now_s
    warm_clocks("gpu", machine.synchronise)
    assert 0.05 <= machine.now_s - began_s <= 0.05 + 0.012 * product_ms


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
