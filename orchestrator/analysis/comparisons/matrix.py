"""The matrix hardware × implementation: each arm's speed-up and figures in one cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.comparisons.speed import Comparison, Contrast
from orchestrator.analysis.metrics.derived import finite, scopes_of
from orchestrator.analysis.metrics.measures import EXPENSES, SCOPED, Measure, Trainer
from orchestrator.analysis.pairing.baseline import Baseline
from orchestrator.analysis.statistics.estimates import Estimate, Spread, spread
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.criteria import MeasureMode
from orchestrator.core.trial import FinishedTrial


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm: its speed-up over its baseline, and median and quartiles of each metric.

    `verdict` is the comparison's, or `baseline`, `different mathematics` or empty. `matched` is
    true if the figures are over the rounds that are complete on every arm. `run_ids` are the trials
    behind the figures, by the trainers whose trials count for a measure (`Measure.trainer`); those
    behind the speed-up are the comparison's pairs. Energies of unlike `energy_scope` are not
    comparable; an arm whose own trials differ in it has no figure.
    """

    arm: Arm
    mode: MeasureMode
    matched: bool
    speedup: Estimate | None
    verdict: str
    figures: Mapping[str, Spread]
    run_ids: Mapping[Trainer, tuple[str, ...]]
    energy_scope: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows are implementations, columns hardware (as arms use it), in the order of the spec.

    An implementation without an arm on a hardware class has no cell there. Arms that are timed in
    slices have hardware columns of their own and no accuracy.
    """

    implementations: tuple[str, ...] = ()
    hardware: tuple[HardwareUse, ...] = ()
    measures: tuple[Measure, ...] = ()
    cells: tuple[Cell, ...] = ()


def matrix(
    arms: Sequence[ArmSummary],
    used: Mapping[Arm, Sequence[FinishedTrial]],
    fair: Sequence[Comparison],
    unlike: Sequence[Contrast],
    baseline: Baseline | None,
    measures: Sequence[Measure],
) -> Matrix:
    """Arrange the arms; `used` are the trials behind each arm's measures."""
    verdicts: dict[Arm, tuple[Estimate | None, str]] = {
        **{comparison.arm: (comparison.speedup, comparison.verdict) for comparison in fair},
        **{contrast.arm: (None, "different mathematics") for contrast in unlike},
    }
    present = {measure.metric for measure in measures}  # an objective may be one of them
    expenses = [
        expense
        for expense in EXPENSES
        if expense.metric not in present
        and any(finite(trials, expense.metric) for trials in used.values())
    ]
    for base in baseline.of.values() if baseline else ():
        verdicts.setdefault(base, (None, "baseline"))
    return Matrix(
        implementations=tuple(dict.fromkeys(arm.arm.implementation for arm in arms)),
        hardware=tuple(dict.fromkeys(arm.arm.hardware for arm in arms)),
        measures=(*measures, *expenses),
        cells=tuple(
            _cell(arm, used.get(arm.arm, ()), verdicts.get(arm.arm, (None, "")), expenses)
            for arm in arms
        ),
    )


def _cell(
    arm: ArmSummary,
    trials: Sequence[FinishedTrial],
    speedup: tuple[Estimate | None, str],
    expenses: Sequence[Measure],
) -> Cell:
    scopes = scopes_of(trials)
    spreads = {
        expense.metric: spread(finite(trials, expense.metric))
        for expense in expenses
        if len(scopes) < 2 or expense.metric not in SCOPED
    }
    fresh = [trial.run_id for trial in trials if trial.trainer_trials == 0]
    return Cell(
        arm=arm.arm,
        mode=arm.arm.measure,
        matched=arm.matched,
        speedup=speedup[0],
        verdict=speedup[1],
        figures={**arm.measures, **{metric: value for metric, value in spreads.items() if value}},
        run_ids={
            "any": tuple(trial.run_id for trial in trials),
            "warm": tuple(trial.run_id for trial in trials if trial.trainer_trials > 0),
            "fresh": tuple(fresh),
        },
        energy_scope=min(scopes, default="") if len(scopes) < 2 else "",
    )
