"""Families of contrasts: rows of weights on a matrix that are judged together.

As in R's emmeans, every question is a row of weights over the columns of one matrix: an arm minus
its baseline, a mean over combinations minus another one, a difference of differences. The contrasts
of one question and metric are one family, whose intervals allow for their number.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from orchestrator.analysis.contrasts.contrast import (
    Contrast,
    Qualifier,
    Question,
    Scale,
    Verdict,
)
from orchestrator.analysis.contrasts.matrix import Matrix
from orchestrator.analysis.measures import PER_STEP
from orchestrator.analysis.statistics.estimates import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    exponential,
    t_interval,
)
from orchestrator.analysis.statistics.formatting import inverse_difference
from orchestrator.analysis.statistics.verdicts import Conclusion, judge
from orchestrator.core.arms import Arm

ArmWeights: TypeAlias = Mapping[Arm, float]
"""The weights of arms in a contrast: the subject's sum to 1, the reference's to -1."""

_VERDICTS: Mapping[Conclusion, Verdict] = {
    "more": Verdict.BETTER,
    "less": Verdict.WORSE,
    "same": Verdict.SAME,
    "open": Verdict.OPEN,
}

_UNJUDGED = (Qualifier.OTHER_MATHEMATICS, Qualifier.UNLIKE_WORK, Qualifier.FEW)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One question on a matrix: how much better the subject is than the reference."""

    subject: str
    reference: str
    weights: ArmWeights


@dataclass(frozen=True, slots=True)
class Judging:
    """How a metric's contrasts are judged.

    The `margin` is a share on the scale of a ratio, else in the metric's unit. `error` is the share
    of sweeps in which a verdict of a family may be wrong. The arms of `other_mathematics` compute
    something else than their reference. Of a pair that `diverged` returns True for, the first arm's
    training diverged in a round that the other one completed.
    """

    margin: float
    error: float = 1 - CONFIDENCE
    other_mathematics: Collection[Arm] = ()
    diverged: Callable[[Arm, Arm], bool] = field(default=lambda arm, other: False)


def pair(arm: Arm, reference: Arm) -> Comparison:
    """Return the row that compares two arms."""
    return Comparison(str(arm), str(reference), {arm: 1.0, reference: -1.0})


def judge_family(
    matrix: Matrix, question: Question, rows: Iterable[Comparison], judging: Judging
) -> tuple[Contrast, ...]:
    """Judge the contrasts of one question and metric together; none over a matrix without rows.

    Contrasts that cannot have a verdict do not widen the intervals of the others.
    """
    return judge_over_own_blocks(((matrix, row) for row in rows), question, judging)


def judge_over_own_blocks(
    rows: Iterable[tuple[Matrix, Comparison]], question: Question, judging: Judging
) -> tuple[Contrast, ...]:
    """Judge contrasts together as `judge_family` does, each over a matrix of its own.

    All matrices are of one metric. Rows are left out that their matrix has no values for.
    """
    asked = [
        (matrix, row)
        for matrix, row in rows
        if matrix.rows and row.weights.keys() <= {*matrix.arms}
    ]
    qualifiers = [_qualifier(matrix, row, judging) for matrix, row in asked]
    gains = [_gains(matrix, row) for matrix, row in asked]
    is_ratio = any(matrix.scale == Scale.RATIO for matrix, _ in asked)
    margin = math.log1p(judging.margin) if is_ratio else judging.margin
    judged = [qualifier not in _UNJUDGED for qualifier in qualifiers]
    family = judge(
        [of_row for of_row, is_judged in zip(gains, judged, strict=True) if is_judged],
        margin,
        judging.error,
    )
    judgements = iter(family)
    contrasts = []
    for (matrix, row), of_row, qualifier, is_judged in zip(
        asked, gains, qualifiers, judged, strict=True
    ):
        judgement = next(judgements) if is_judged else None
        corrected = judgement.corrected if judgement else None
        verdict = _VERDICTS[judgement.conclusion] if judgement else Verdict.OPEN
        ends = _shown(matrix, _of_one(min(of_row))), _shown(matrix, _of_one(max(of_row)))
        contrasts.append(
            Contrast(
                question=question,
                subject=row.subject,
                reference=row.reference,
                metric=matrix.metric,
                scale=matrix.scale,
                estimate=_shown(matrix, corrected or _plain(of_row)),
                lowest=min(end.value for end in ends),
                highest=max(end.value for end in ends),
                blocks=len(matrix.rows),
                unit=matrix.unit,
                margin=judging.margin,
                verdict=_uncontradicted(verdict, row, judging),
                qualifier=qualifier,
                more_blocks=judgement.more_blocks if judgement else None,
            )
        )
    return tuple(contrasts)


def _gains(matrix: Matrix, row: Comparison) -> list[float]:
    """Return how much better the subject is in each row of the matrix: above 0 is better."""
    sign = 1.0 if matrix.direction == "maximize" else -1.0
    return [sign * value for value in matrix.combined(row.weights)]


def _shown(matrix: Matrix, gain: Estimate) -> Estimate:
    """Return a gain as a ratio, or as the difference of the subject's value and the reference's."""
    if matrix.scale == Scale.RATIO:
        return exponential(gain)
    return gain if matrix.direction == "maximize" else inverse_difference(gain)


def _plain(gains: Sequence[float]) -> Estimate:
    """Return the mean with its plain interval, which is infinite for a single block."""
    return t_interval(gains) or _of_one(gains[0])


def _of_one(gain: float) -> Estimate:
    return Estimate(1, gain, -math.inf, math.inf)


def _qualifier(matrix: Matrix, row: Comparison, judging: Judging) -> Qualifier | None:
    """Return what limits a verdict, the strongest limit first."""
    if any(arm in judging.other_mathematics for arm in row.weights):
        return Qualifier.OTHER_MATHEMATICS
    if _works(matrix, row, 1.0) != _works(matrix, row, -1.0):
        return Qualifier.UNLIKE_WORK
    if len(matrix.rows) < MIN_BLOCKS:
        return Qualifier.FEW
    return Qualifier.BUSY if matrix.disturbed_rows(row.weights) else None


def _works(matrix: Matrix, row: Comparison, sign: float) -> Counter[object]:
    """Return how many arms of one side did each work."""
    return Counter(work_of(matrix, arm) for arm, weight in row.weights.items() if sign * weight > 0)


def work_of(matrix: Matrix, arm: Arm) -> object:
    """Return what an arm's values measure; values of different work are not compared.

    Times per step are of a step, however much work an arm did.
    """
    if matrix.metric in PER_STEP:
        return None
    return arm.work, arm.measure, matrix.scopes[arm]


def _uncontradicted(verdict: Verdict, row: Comparison, judging: Judging) -> Verdict:
    """Return the verdict; `open` if the training of an arm that is no worse diverged."""
    if len(row.weights) != 2:
        return verdict
    arm, reference = row.weights
    is_contradicted = (verdict != Verdict.WORSE and judging.diverged(arm, reference)) or (
        verdict != Verdict.BETTER and judging.diverged(reference, arm)
    )
    return Verdict.OPEN if is_contradicted else verdict
