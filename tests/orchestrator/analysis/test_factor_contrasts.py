"""Test the contrasts of factors on sweeps whose effects and interactions are known."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.analysis.contrasts.contrast import Contrast, Qualifier, Question, Verdict
from orchestrator.core.arms import Arm, HardwareUse, Usage
from orchestrator.core.records import SweepRecord
from tests.building.arms import CPU, GPU, GRU, LSTM
from tests.building.asking import asked
from tests.building.records import build_record
from tests.building.trials import build_trial, change_trial

ONE, TWO = (HardwareUse(CPU.hardware_class, Usage(threads=count)) for count in (1, 2))
ARMS = tuple(Arm("torch/fused", use, cell) for use in (ONE, TWO) for cell in (LSTM, GRU))
THREADS, CELLS = ("2 threads", "1 thread"), ("gru", "lstm")


def crossed(
    step_ms: Callable[[Arm], float],
    accuracy: Callable[[Arm], float] = lambda _: 0.9,
    arms: tuple[Arm, ...] = ARMS,
    blocks: int = 12,
    **changes: Any,
) -> SweepRecord:
    """Return a sweep of these arms with 1 % of noise in times and 0.001 in accuracies."""
    dice = random.Random(5)
    trials = [
        build_trial(
            block,
            arm,
            step_ms=step_ms(arm) * (1 + block) * (1 + dice.gauss(0, 0.01)),
            val_accuracy=accuracy(arm) + dice.gauss(0, 0.001),
        )
        for block in range(blocks)
        for arm in arms
    ]
    return build_record([change_trial(trial, **changes) for trial in trials], arms)


def additive(arm: Arm) -> float:
    """Return a time that two threads halve, and a GRU shortens by a fifth, whatever the other."""
    return 10.0 * (0.5 if arm.usage.threads == 2 else 1.0) * (0.8 if arm.variant == GRU else 1.0)


def of_cells(arm: Arm) -> float:
    return 0.93 if arm.variant == GRU else 0.9


def factors(record: SweepRecord, metric: str = "step_ms") -> dict[tuple[str, str], Contrast]:
    found = asked(record, metric, Question.FACTOR)
    return {(contrast.subject, contrast.reference): contrast for contrast in found}


def test_the_best_value_of_each_factor_is_compared_over_the_other_factors_values() -> None:
    record = crossed(additive, of_cells)
    for pair, ratio in ((THREADS, 2.0), (CELLS, 1.25)):
        contrast = factors(record)[pair]
        assert contrast.verdict == Verdict.BETTER
        assert contrast.estimate.value == pytest.approx(ratio, rel=0.01)
        assert contrast.estimate.low < ratio < contrast.estimate.high
    learned = factors(record, "val_accuracy")
    assert learned[CELLS].verdict == Verdict.BETTER
    assert learned[CELLS].estimate.value == pytest.approx(0.03, abs=0.002)
    assert [c.verdict for pair, c in learned.items() if pair != CELLS] == [Verdict.SAME]
    (alike,) = asked(record, question=Question.INTERACTION)
    assert alike.verdict == Verdict.SAME


def test_an_effect_that_differs_with_another_factors_value_is_asked_once() -> None:
    """With two threads the GRU is the slower one, so its gain is larger with one thread."""

    def crossing(arm: Arm) -> float:
        return additive(arm) * (1.5 if arm == ARMS[3] else 1.0)

    (interaction,) = asked(crossed(crossing), question=Question.INTERACTION)
    assert interaction.subject == "gru instead of lstm, 1 thread"
    assert interaction.reference == "gru instead of lstm, 2 threads"
    assert interaction.estimate.value == pytest.approx(1.5, rel=0.02)
    assert interaction.verdict == Verdict.BETTER


def test_a_value_that_a_single_combination_has_is_left_out() -> None:
    """The third implementation runs on the GPU alone, and the others on both."""
    names = ("tensorflow/portable", "torch/fused")
    arms = (
        *(Arm(name, hardware) for hardware in (CPU, GPU) for name in names),
        Arm("torch/cudnn", GPU),
    )
    times = {"tensorflow/portable": 8.0, "torch/fused": 4.0, "torch/cudnn": 2.0}

    def step_ms(arm: Arm) -> float:
        return times[arm.implementation] * (1.0 if arm.hardware == CPU else 0.1)

    assert factors(crossed(step_ms, arms=arms)).keys() == {
        ("torch/fused", "tensorflow/portable"),
        (str(GPU.hardware_class), str(CPU.hardware_class)),
    }


def test_arms_that_differ_in_one_factor_or_in_all_at_once_have_no_contrasts_of_factors() -> None:
    assert factors(crossed(additive, arms=(ARMS[0], ARMS[1]))) == {}
    assert factors(crossed(additive, arms=(ARMS[0], ARMS[3]))) == {}


def test_times_are_busy_where_trials_were_disturbed_and_results_are_not() -> None:
    busy = crossed(additive, of_cells, disturbance={"other_processes": 60.0})
    timed, learned = factors(busy)[CELLS], factors(busy, "val_accuracy")[CELLS]
    assert (timed.verdict, timed.qualifier) == (Verdict.BETTER, Qualifier.BUSY)
    assert (learned.verdict, learned.qualifier) == (Verdict.BETTER, None)


def test_few_blocks_have_an_effect_and_no_verdict() -> None:
    contrast = factors(crossed(additive, blocks=4))[THREADS]
    assert (contrast.verdict, contrast.qualifier) == (Verdict.OPEN, Qualifier.FEW)
    assert contrast.estimate.value == pytest.approx(2.0, rel=0.05)


def test_precision_is_a_factor_apart_from_the_implementation() -> None:
    arms = tuple(
        Arm(f"{name}{option}", GPU)
        for name in ("tensorflow/portable", "torch/fused")
        for option in ("", "+bf16")
    )
    found = factors(crossed(lambda arm: 5.0 if "bf16" in arm.implementation else 8.0, arms=arms))
    verdicts = {frozenset(pair): contrast.verdict for pair, contrast in found.items()}
    assert verdicts == {
        frozenset(("bf16", "float32")): Verdict.BETTER,
        frozenset(("torch/fused", "tensorflow/portable")): Verdict.SAME,
    }


def test_values_are_compared_over_combinations_of_unlike_work_if_both_have_them_all() -> None:
    """Trainings of one epoch and of three learn unlike much, and a GRU learns more in both."""
    uses = [
        HardwareUse(CPU.hardware_class, Usage(threads=threads, settings={"epochs": epochs}))
        for threads in (1, 2)
        for epochs in (1, 3)
    ]
    arms = tuple(Arm("torch/fused", use, cell) for use in uses for cell in (LSTM, GRU))
    contrast = factors(crossed(additive, of_cells, arms=arms), "val_accuracy")[CELLS]
    assert (contrast.verdict, contrast.qualifier) == (Verdict.BETTER, None)
