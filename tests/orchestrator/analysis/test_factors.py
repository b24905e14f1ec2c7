"""Test the answers for factors on sweeps whose effects and interactions are known."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.analysis.comparisons.factors import Contrast, FactorAnswer
from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm, HardwareUse, Usage
from orchestrator.core.records import SweepRecord
from tests.building.arms import CPU, GPU, GRU, LSTM
from tests.building.records import build_record
from tests.building.trials import build_trial, change_trial

ONE, TWO = (HardwareUse(CPU.hardware_class, Usage(threads=count)) for count in (1, 2))
ARMS = tuple(Arm("torch/fused", use, cell) for use in (ONE, TWO) for cell in (LSTM, GRU))


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


def answers(record: SweepRecord) -> dict[tuple[str, str], FactorAnswer]:
    return {(answer.factor, answer.metric): answer for answer in summarise(record).factors}


def only(answer: FactorAnswer) -> Contrast:
    (contrast,) = answer.others
    return contrast


def test_each_factor_has_its_winner_and_its_effect_over_the_other_factors_values() -> None:
    found = answers(crossed(additive, lambda arm: 0.93 if arm.variant == GRU else 0.9))
    threads, cells = found["threads", "step_ms"], found["variant", "step_ms"]
    assert (threads.best, only(threads).value, threads.combinations) == ("2 threads", "1 thread", 2)
    assert (cells.best, only(cells).value) == ("gru", "lstm")
    for answer, ratio in ((threads, 2.0), (cells, 1.25)):
        effect = only(answer).effect
        assert effect is not None and effect.value == pytest.approx(ratio, rel=0.01)
        assert effect.low < ratio < effect.high
        assert only(answer).standing == "worse"
        (interaction,) = only(answer).interactions
        assert interaction.verdict == "alike"
        assert [at.effect.value for at in interaction.effects if at.effect] == [
            pytest.approx(ratio, rel=0.02)
        ] * 2
    learned = found["variant", "val_accuracy"]
    gained = only(learned).effect
    assert (learned.best, only(learned).standing) == ("gru", "worse")
    assert gained is not None and gained.value == pytest.approx(0.03, abs=0.002)
    assert only(found["threads", "val_accuracy"]).standing == "same"


def test_an_effect_that_differs_with_another_factors_value_depends_on_it() -> None:
    """With two threads the GRU is the slower one."""

    def crossing(arm: Arm) -> float:
        return additive(arm) * (1.5 if arm == ARMS[3] else 1.0)

    answer = answers(crossed(crossing))["variant", "step_ms"]
    (interaction,) = only(answer).interactions
    assert (interaction.factor, interaction.verdict) == ("threads", "depends")
    by_value = {at.value: at.effect.value for at in interaction.effects if at.effect}
    lstm_over_gru = {"1 thread": 1.25, "2 threads": 1 / 1.2}
    sign = 1 if answer.best == "gru" else -1
    assert by_value == {
        value: pytest.approx(ratio**sign, rel=0.02) for value, ratio in lstm_over_gru.items()
    }


def test_a_value_that_no_combination_shares_is_left_out() -> None:
    """The third implementation runs on the GPU alone, and the others on both."""
    names = ("tensorflow/portable", "torch/fused")
    arms = (
        *(Arm(name, hardware) for hardware in (CPU, GPU) for name in names),
        Arm("torch/cudnn", GPU),
    )
    times = {"tensorflow/portable": 8.0, "torch/fused": 4.0, "torch/cudnn": 2.0}

    def step_ms(arm: Arm) -> float:
        return times[arm.implementation] * (1.0 if arm.hardware == CPU else 0.1)

    found = answers(crossed(step_ms, arms=arms))
    implementations = found["implementation", "step_ms"]
    assert (implementations.best, implementations.combinations) == ("torch/cudnn", 1)
    assert [contrast.value for contrast in implementations.others] == list(reversed(names))
    hardware = found["hardware", "step_ms"]
    assert (hardware.best, hardware.combinations) == (str(GPU.hardware_class), 2)
    only_gpu = Arm("torch/cudnn", GPU)
    apart = crossed(step_ms, arms=(*arms[:2], only_gpu))
    assert answers(apart)["implementation", "step_ms"].left_out == ("torch/cudnn",)


def test_there_are_no_factors_where_arms_differ_in_one_or_in_all_at_once() -> None:
    assert answers(crossed(additive, arms=(ARMS[0], ARMS[1]))) == {}
    assert answers(crossed(additive, arms=(ARMS[0], ARMS[3]))) == {}


def test_effects_on_times_are_busy_where_trials_were_disturbed_and_accuracies_are_not() -> None:
    busy = crossed(
        additive,
        lambda arm: 0.93 if arm.variant == GRU else 0.9,
        disturbance={"other_processes": 60.0},
    )
    found = answers(busy)
    timed = found["variant", "step_ms"]
    assert (only(timed).standing, timed.qualifier) == ("worse", "busy")
    assert timed.disturbance == {"other_processes": 60.0}
    learned = found["variant", "val_accuracy"]
    assert (only(learned).standing, learned.qualifier) == ("worse", None)


def test_few_blocks_have_an_effect_and_no_verdict() -> None:
    contrast = only(answers(crossed(additive, blocks=4))["threads", "step_ms"])
    assert (contrast.standing, contrast.is_judged) == ("inconclusive", False)
    assert contrast.effect is not None and contrast.effect.value == pytest.approx(2.0, rel=0.05)


def test_precision_is_a_factor_apart_from_the_implementation() -> None:
    arms = tuple(
        Arm(f"{name}{option}", GPU)
        for name in ("tensorflow/portable", "torch/fused")
        for option in ("", "+bf16")
    )
    found = answers(crossed(lambda arm: 5.0 if "bf16" in arm.implementation else 8.0, arms=arms))
    precision = found["precision", "step_ms"]
    assert (precision.best, only(precision).value) == ("bf16", "float32")
    assert only(found["implementation", "step_ms"]).standing == "same"


def test_an_arm_of_an_earlier_start_does_not_take_rounds_from_the_others() -> None:
    record = crossed(additive)
    former = Arm("torch/portable", ONE, LSTM)
    more = [build_trial(block, former, step_ms=30.0) for block in range(6)]
    wider = build_record(
        (*record.trials, *more), (*ARMS, former), current=ARMS, blocks=12, expected_trials=48
    )
    assert answers(replace(wider))["threads", "step_ms"].blocks == 12
