"""The best config within limits, and its spec."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm, HardwareUse, Usage
from orchestrator.core.errors import Refusal
from orchestrator.core.records import SweepRecord
from orchestrator.report.best.chosen import (
    Limit,
    choice_document,
    choose,
    to_yaml,
    workload_keys,
)
from orchestrator.report.formats.tracker_values import to_metrics
from orchestrator.spec import parse_spec
from tests.building.arms import ARMS_OF_CELLS, CPU, LSTM, UNROLL, XLA
from tests.building.records import build_record
from tests.building.trials import build_fingerprint, build_trial

TWO_THREADS = HardwareUse(CPU.hardware_class, Usage(threads=2, settings={"epochs": 1}))
FEW, PORTABLE, GRU = Arm("torch/fused", TWO_THREADS, LSTM), *ARMS_OF_CELLS[:2]


@pytest.fixture
def record() -> SweepRecord:
    """Three arms: the second one is more accurate and slower, the third one less accurate."""
    figures = {PORTABLE: (0.9, 10.0), GRU: (0.95, 20.0), FEW: (0.8, 5.0)}
    trials = [
        build_trial(
            block, arm, val_accuracy=correct + block / 1000, step_ms=ms + block, val_loss=-ms
        )
        for block in range(3)
        for arm, (correct, ms) in figures.items()
    ]
    energies = [
        build_trial(3 + block, PORTABLE, energy_j=1.0, energy_scope=scope)
        for block, scope in enumerate(("gpu", "cpu_package"))
    ]
    failed = build_trial(5, FEW, status="failed", step_ms=1.0)
    settings = {"dataset": "digits", "epochs": 9}
    return build_record([*trials, *energies, failed], tuple(figures), settings=settings, seed=7)


@pytest.mark.parametrize(
    ("metric", "limits", "arm", "block"),
    [
        (None, [], GRU, 2),  # by the first objective
        (None, [Limit("val_accuracy", "≥", 0.85)], PORTABLE, 0),  # by the second one
        (None, [Limit("step_ms", "≤", 11.5)], PORTABLE, 1),
        ("step_ms", [Limit("val_accuracy", "≥", 0.8), Limit("step_ms", "≥", 6.0)], FEW, 1),
    ],
)
def test_the_best_within_limits(
    record: SweepRecord, metric: str | None, limits: list[Limit], arm: Arm, block: int
) -> None:
    chosen = choose(record, metric, limits)
    assert (chosen.arm, chosen.block) == (arm, block)


def test_a_choice_that_was_measured_on_a_busy_machine_says_so() -> None:
    for disturbance in ({}, {"other_processes": 68.0}):
        trial = build_trial(0, PORTABLE, val_accuracy=0.9, step_ms=1.0, disturbance=disturbance)
        record = build_record([trial], (PORTABLE,))
        chosen = choose(record)
        assert chosen.disturbed_runs == len(disturbance)
        for text in (chosen.code(), to_yaml(chosen)):
            assert ("rnnsweep report" in text) == bool(disturbance)


def test_the_report_and_best_break_a_tie_alike_by_the_time_of_training() -> None:
    """float32 means over batches differ in their last digits; the second arm trains faster."""
    figures = {PORTABLE: (0.87500001, 4.0), GRU: (0.875, 2.0)}
    trials = [
        build_trial(block, arm, val_accuracy=accuracy - 0.1 * block, train_s=train_s)
        for block in range(2)
        for arm, (accuracy, train_s) in figures.items()
    ]
    record = build_record(trials, tuple(figures))
    best = summarise(record).best
    assert best is not None and best.chosen.arm == GRU
    assert choose(record).arm == GRU


SLOW, FAST, WIDE = UNROLL, XLA, Arm("torch/fused", CPU)
"""The arms of one study: the slower one has the least error, by less than the margin."""


def build_errors(fast_mae: float, **changes: Any) -> SweepRecord:
    """Return a sweep of two configs by val_mae; the first one is the best on either arm."""
    trials = [
        build_trial(block, arm, metrics={"val_mae": mae + 0.1 * block, "train_s": train_s})
        for block in range(2)
        for arm, mae, train_s in ((SLOW, 0.281, 69.7), (FAST, fast_mae, 6.1))
    ]
    failed = [
        build_trial(0, WIDE, status="failed", failure="out_of_memory: 9 GiB", metrics={}),
        build_trial(1, WIDE, metrics={"val_mae": 0.4, "train_s": 1.0}),
    ]
    return build_record(
        [*trials, *failed], (SLOW, FAST, WIDE), objectives={"val_mae": "minimize"}, **changes
    )


@pytest.mark.parametrize(
    ("fast_mae", "arm", "candidacy"), [(0.282, FAST, "equal"), (0.285, SLOW, "worse")]
)
def test_of_the_arms_within_the_margin_on_the_best_config_the_fastest_is_chosen(
    fast_mae: float, arm: Arm, candidacy: str
) -> None:
    """The margin is one percent of 0.281."""
    record = build_errors(fast_mae)
    chosen, summary = choose(record), summarise(record)
    assert summary.best
    for rows in (chosen.arms, summary.best.arms):
        assert [(row.arm, row.candidacy) for row in rows] == [
            (arm, "chosen"),
            (SLOW if arm == FAST else FAST, candidacy),
            (WIDE, "left out"),
        ]
        assert rows[-1].reason == "out of memory"
    assert (chosen.block, chosen.arm) == (0, arm)
    assert f"# {arm}" in chosen.code()
    assert (summary.best.chosen.block, summary.best.chosen.arm) == (0, arm)
    assert to_metrics(summary)["best/val_mae"] == chosen.values["val_mae"]


@pytest.mark.parametrize(
    ("weights", "factor", "arm"),
    [("equal", 1.0, UNROLL), ("own", 1.0, XLA), ("equal", None, XLA)],
)
def test_arms_of_equal_mathematics_and_starts_are_equal_whatever_they_reached(
    weights: str, factor: float | None, arm: Arm
) -> None:
    fingerprint = None if factor is None else build_fingerprint(factor)
    trials = [
        build_trial(0, arm, val_accuracy=accuracy, train_s=train_s, fingerprint=fingerprint)
        for arm, accuracy, train_s in ((XLA, 0.9, 9.0), (UNROLL, 0.8, 3.0))
    ]
    record = build_record(trials, (XLA, UNROLL), settings={"weights": weights})
    record = replace(record, workload="mine:build with mine:load")
    summary = summarise(record)
    assert choose(record).arm == arm
    assert summary.best and summary.best.chosen.arm == arm


@pytest.mark.parametrize(("samples", "arm"), [(400.0, XLA), (800.0, UNROLL)])
def test_the_time_of_unlike_work_is_no_reason_to_choose_an_arm(samples: float, arm: Arm) -> None:
    """A callback may stop one arm earlier than another: then a step decides."""
    figures = {XLA: (4.0, 2.0, 400.0), UNROLL: (8.0, 1.0, samples)}
    trials = [
        build_trial(0, arm, val_accuracy=0.9, train_s=train_s, step_ms=step_ms, train_samples=work)
        for arm, (train_s, step_ms, work) in figures.items()
    ]
    assert choose(build_record(trials, (XLA, UNROLL))).arm == arm


def test_the_spec_of_a_choice_names_the_callbacks() -> None:
    entries = {"model": "mine:build", "data": "mine:load", "callbacks": "mine:callbacks"}
    assert workload_keys(" with ".join(entries.values())) == entries


@pytest.mark.parametrize(
    ("metric", "limits", "message"),
    [
        ("step_msec", [], "'step_msec'; did you mean 'step_ms'"),
        ("predict_ms", [], ": energy_j, step_ms, val_accuracy, val_loss"),
        (None, [Limit("val_accuracy", "≥", 0.96)], "the highest val_accuracy is 0.952"),
        (None, [Limit("step_ms", "≤", 4.0)], "the lowest step_ms is 5"),
        ("energy_j", [], "cpu_package and gpu"),
    ],
)
def test_what_cannot_be_chosen(
    record: SweepRecord, metric: str | None, limits: list[Limit], message: str
) -> None:
    with pytest.raises(Refusal, match=message):
        choose(record, metric, limits)


def test_an_arm_of_other_mathematics_is_chosen_only_by_its_name() -> None:
    factors = {UNROLL: 1.0, XLA: 1.5}
    trials = [
        build_trial(block, arm, step_ms=10.0 - factor, fingerprint=build_fingerprint(factor))
        for block in range(2)
        for arm, factor in factors.items()
    ]
    record = build_record(trials, tuple(factors))
    chosen = choose(record, "step_ms")
    assert chosen.arm == UNROLL
    assert (chosen.tried, chosen.other_mathematics) == (2, (XLA,))
    assert str(XLA) in to_yaml(chosen)
    named = choose(record, "step_ms", arm=str(XLA))
    assert (named.arm, named.other_mathematics) == (XLA, ())


def test_what_is_as_accurate_as_required_is_chosen_by_its_speed(record: SweepRecord) -> None:
    record = replace(record, objectives={"val_accuracy": "maximize"})
    chosen = choose(record, None, [Limit("val_accuracy", "≥", 0.85)])
    assert (chosen.metric, chosen.arm) == ("step_ms", PORTABLE)


def test_an_objective_with_a_limit_decides_where_nothing_else_was_measured() -> None:
    trials = [build_trial(block, PORTABLE, metrics={"f1": 0.9 + block / 100}) for block in range(3)]
    record = build_record(trials, (PORTABLE,), objectives={"f1": "maximize"})
    chosen = choose(record, None, [Limit("f1", "≥", 0.905)])
    assert (chosen.metric, chosen.block, chosen.within) == ("f1", 2, 2)
    with pytest.raises(Refusal, match=r"the highest f1 is 0\.92"):
        choose(record, None, [Limit("f1", "≥", 0.99)])


def test_the_spec_is_the_config_on_its_arm(record: SweepRecord) -> None:
    record = replace(record, name="n" * 64)
    spec = parse_spec(to_yaml(choose(record, arm="torch/fused")), source="best.yaml")
    assert (spec.name, spec.workload, spec.seed) == (f"{'n' * 59}-best", "image_rows", 7)
    assert spec.search.listed == ({"units": 48, "batch_size": 32},)
    assert spec.directions() == {"val_accuracy": "maximize", "step_ms": "minimize"}
    assert spec.settings == {"dataset": "digits", "epochs": 1, "cell": "lstm"}
    assert spec.arms.implementations == ("torch/fused",)
    (entry,) = spec.hardware
    assert (entry.selector, entry.threads) == (FEW.hardware_class.name, 2)


def test_the_spec_of_functions_of_a_session_names_them_in_place_of_their_names() -> None:
    arm = Arm("python/wide", CPU)
    trials = [build_trial(0, arm, metrics={"f1": 0.9})]
    record = build_record(trials, (arm,), objectives={"f1": "maximize"})
    choice = choose(replace(record, workload="python_session:train"))
    for text in (str(choice), to_yaml(choice)):
        assert '{**choice.spec, "workload": train}' in " ".join(text.replace("#", " ").split())
        assert "code()" not in text
    assert "code()" not in str(choose(record)), "which refuses an implementation of a user's own"


@pytest.mark.parametrize(("sizes", "metric"), [((32, 64), "samples_per_s"), ((32, 32), "")])
def test_times_of_unlike_batches_are_to_be_compared_per_sample(
    sizes: tuple[int, ...], metric: str
) -> None:
    trials = [build_trial(b, config={"batch_size": size}) for b, size in enumerate(sizes)]
    chosen = choose(build_record(trials, (trials[0].arm,)), "step_ms")
    assert chosen.per_sample == metric
    assert [fact.label for fact in choice_document(chosen).sections[0].doubts] == (
        ["batch sizes"] if metric else []
    )
