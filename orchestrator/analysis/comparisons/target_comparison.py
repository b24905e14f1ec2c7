"""Comparison of an arm with its baseline by the expense until a target accuracy.

A ratio of expenses exists only in blocks in which all repeats of both sides reach the accuracy. A
block that one side alone reaches counts as a win without a number. Such blocks can revoke a verdict
from the other blocks:

- `less` and `more` are revoked if the other side alone reaches the accuracy in significantly more
  blocks, or in more blocks while this side is not first in significantly more of all blocks that
  either side reaches. They are also revoked if the other side is first in significantly more of
  these. The sign tests are uncorrected, at 5 %, because they can only revoke a verdict.
- `same` is revoked if one side alone reaches the accuracy in significantly more blocks.
- `more_often` is a separate result, at 5 % for all comparisons of one target (Holm's procedure).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.comparisons.target_trials import (
    Expense,
    TargetTrial,
    blocks_reached,
    scopes_of,
)
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.analysis.pairing.pairs import (
    Pair,
    TimedPairs,
    geometric,
    round_values,
    timed_pairs,
)
from orchestrator.analysis.statistics.estimates import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    exponential,
    geometric_mean,
    sign_test,
)
from orchestrator.analysis.statistics.stopping_looks import confidence_for
from orchestrator.analysis.statistics.verdicts import Finding, HolmStep, Judgement, holm, judge
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import ReportCriteria

TargetVerdict = Literal["same", "less", "more", "inconclusive"]

TargetTrials = Mapping[Round, Sequence[TargetTrial]]
"""An arm's trials with their expense until a goal, by round."""

_VERDICTS: Mapping[Finding, TargetVerdict] = {"same": "same", "more": "less", "less": "more"}
_ERROR = 1 - CONFIDENCE


@dataclass(frozen=True, slots=True)
class TargetComparison:
    """An arm against its baseline, by the expense until the target.

    `ratio` is the geometric mean over `pairs` of the baseline's expense over the arm's, with its
    plain 95 % interval: above 1 the arm needs `less`. The verdict follows from `corrected`, which
    is corrected for the other comparisons of this target and expense, with the same `margin` as a
    speed-up's, unless the other blocks contradict it. `reason` explains an `inconclusive` verdict
    and is None otherwise. `both`, `only_arm`, `only_baseline` and `neither` count blocks by the
    sides that reached it. `more_often` is the side that alone reaches it in significantly more of
    them, by `more_often_p`, which is corrected for the other comparisons.
    """

    arm: Arm
    baseline: Arm
    expense: Expense
    pairs: tuple[Pair, ...]
    ratio: Estimate | None
    corrected: Estimate | None
    confidence: float | None
    p_value: float | None
    verdict: TargetVerdict
    reason: str | None
    margin: float
    both: int
    only_arm: int
    only_baseline: int
    neither: int
    more_often: Arm | None
    more_often_p: float
    quiet_only: bool
    disturbed_blocks: tuple[int, ...]


def compare_reached(
    criteria: ReportCriteria,
    matched: CompleteRounds,
    sides: Sequence[tuple[Arm, Arm]],
    expense: Expense,
    trials: Mapping[Arm, TargetTrials],
) -> list[TargetComparison]:
    """Compare by one expense, as one family; return none if no pair of blocks has the expense."""
    fair = [pair for pair in sides if expense != "energy_j" or _have_one_scope(trials, pair)]
    blocks = {arm: blocks_reached(rounds) for arm, rounds in trials.items()}
    reached = [_Reach.of(blocks.get(arm, {}), blocks.get(base, {})) for arm, base in fair]
    values = {
        arm: round_values(rounds, lambda one: one.comparable_expense(expense), _run_of, geometric)
        for arm, rounds in trials.items()
    }
    timed = [
        timed_pairs(values, matched.disturbances, *pair, reach.is_excluded)
        for pair, reach in zip(fair, reached, strict=True)
    ]
    if expense != "time_s" and not any(times.pairs for times in timed):
        return []
    judged = judge(
        [[math.log(pair.baseline / pair.arm) for pair in times.verdict_pairs] for times in timed],
        math.log1p(criteria.margins.speed),
        1 - confidence_for(criteria.auto_blocks),
    )
    steps = holm([reach.lopsided_p for reach in reached], _ERROR)
    return [
        _comparison(pair, expense, reach, times, (judgement, step), criteria)
        for pair, reach, times, judgement, step in zip(
            fair, reached, timed, judged, steps, strict=True
        )
    ]


def _run_of(trial: TargetTrial) -> str:
    return trial.trial.run_id


def _comparison(
    sides: tuple[Arm, Arm],
    expense: Expense,
    reach: _Reach,
    times: TimedPairs,
    judged: tuple[Judgement, HolmStep],
    criteria: ReportCriteria,
) -> TargetComparison:
    (arm, base), (judgement, often) = sides, judged
    ratios = [pair.baseline / pair.arm for pair in times.pairs]
    verdict, reason = _verdict(judgement.finding, reach, ratios)
    reason = times.disturbance_reason or reason
    return TargetComparison(
        arm,
        base,
        expense=expense,
        pairs=times.pairs,
        ratio=geometric_mean(ratios, confidence_for(criteria.auto_blocks)),
        corrected=exponential(judgement.corrected) if judgement.corrected else None,
        confidence=judgement.confidence,
        p_value=judgement.p_value,
        verdict=verdict,
        reason=reason,
        margin=criteria.margins.speed,
        both=len(reach.both),
        only_arm=len(reach.only_arm),
        only_baseline=len(reach.only_baseline),
        neither=len(reach.neither),
        more_often=(arm if reach.lead > 0 else base) if often.rejected else None,
        more_often_p=often.adjusted_p,
        quiet_only=times.quiet_only,
        disturbed_blocks=tuple(sorted(times.disturbed)),
    )


def _verdict(
    finding: Finding, reach: _Reach, ratios: Sequence[float]
) -> tuple[TargetVerdict, str | None]:
    """Return the verdict of the blocks that both reach, unless the others revoke it; its reason."""
    if len(ratios) < MIN_BLOCKS:
        return "inconclusive", f"at least {MIN_BLOCKS} are needed"
    if finding == "inconclusive":
        return "inconclusive", "the interval includes 1 and exceeds the margin"
    against = "the blocks that only one of them reaches contradict it"
    if finding == "same":
        return ("inconclusive", against) if reach.lopsided_p <= _ERROR else ("same", None)
    sign = 1 if finding == "more" else -1
    first = len(reach.only_arm) + sum(ratio > 1 for ratio in ratios)
    second = len(reach.only_baseline) + sum(ratio < 1 for ratio in ratios)
    lead = sign * (first - second)
    is_significant = sign_test(first, second) <= _ERROR
    if sign * reach.lead < 0 and (reach.lopsided_p <= _ERROR or not (lead > 0 and is_significant)):
        return "inconclusive", against
    if lead < 0 and is_significant:
        return "inconclusive", "most blocks that either of them reaches show the opposite"
    return _VERDICTS[finding], None


@dataclass(frozen=True, slots=True)
class _Reach:
    """The blocks by the sides that reached the goal in all of their repeats."""

    both: frozenset[int]
    only_arm: frozenset[int]
    only_baseline: frozenset[int]
    neither: frozenset[int]

    @classmethod
    def of(cls, ours: Mapping[int, bool], theirs: Mapping[int, bool]) -> _Reach:
        shared = ours.keys() & theirs.keys()
        return cls(
            *(
                frozenset(block for block in shared if (ours[block], theirs[block]) == sides)
                for sides in ((True, True), (True, False), (False, True), (False, False))
            )
        )

    @property
    def lead(self) -> int:
        """The blocks that the arm alone reached minus those that the baseline alone reached."""
        return len(self.only_arm) - len(self.only_baseline)

    @property
    def lopsided_p(self) -> float:
        """The p-value of both sides reaching it equally often, by McNemar's exact test."""
        return sign_test(len(self.only_arm), len(self.only_baseline))

    def is_excluded(self, place: Round) -> bool:
        """Check that the round belongs to a block that at least one side did not reach."""
        return place[0] in self.only_arm | self.only_baseline | self.neither


def _have_one_scope(trials: Mapping[Arm, TargetTrials], sides: tuple[Arm, Arm]) -> bool:
    """Check that the energies of both sides have the same scope."""
    rounds = [of_round for side in sides for of_round in trials.get(side, {}).values()]
    scopes = scopes_of(trial for of_round in rounds for trial in of_round)
    return len(scopes) == 1 and scopes != {""}
