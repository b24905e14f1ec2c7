"""An arm against its baseline, by what it takes each of them to reach an accuracy.

How much sooner one is can be told of the blocks alone in which all repeats of both reach the
accuracy. In a block that only one reaches, that one has won, by no number: so those blocks are
counted for whoever reached, and a verdict on the others stands where these do not speak against it.

- `less` (`more`) does not stand where the other side alone reaches it in significantly more blocks
  than this one alone, or in more while this one is not first in significantly more of all blocks
  that either reaches. Nor does it where the other side is first in significantly more of all these
  (sign tests; by 5 %, uncorrected, as they can only take a verdict back).
- `same` does not stand where one side alone reaches it in significantly more blocks than the other
  alone does.
- Who reaches it in significantly more blocks is told by itself, at 5 % for all comparisons of one
  target (Holm's procedure).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.comparisons.target_attempts import (
    Attempt,
    Expense,
    reached_in,
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

Attempts = Mapping[Round, Sequence[Attempt]]
"""An arm's attempts at a goal, by round."""

_VERDICTS: Mapping[Finding, TargetVerdict] = {"same": "same", "more": "less", "less": "more"}
_ERROR = 1 - CONFIDENCE


@dataclass(frozen=True, slots=True)
class TargetComparison:
    """An arm against its baseline, by what it takes to reach the target.

    `ratio` is the geometric mean over `pairs` of the baseline's expense over the arm's, with its
    plain 95 % interval: above 1 the arm needs `less`. The verdict is read from `corrected`, made as
    a speed-up's, by the same `margin`, with the other comparisons of this target and expense, where
    the other blocks do not speak against it. `reason` says why a verdict is `inconclusive`, and is
    empty otherwise. `both`, `only_arm`, `only_baseline` and `neither` count blocks by who reached
    it; `more_often` is the side that alone reaches it in significantly more of them, by
    `more_often_p`, which allows for the other comparisons.
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
    reason: str
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
    attempts: Mapping[Arm, Attempts],
) -> list[TargetComparison]:
    """The comparisons by one expense, judged together; none where no pair of blocks has it."""
    fair = [pair for pair in sides if expense != "energy_j" or _one_scope(attempts, pair)]
    told = {arm: reached_in(rounds) for arm, rounds in attempts.items()}
    reach = [_Reach.of(told.get(arm, {}), told.get(base, {})) for arm, base in fair]
    values = {
        arm: round_values(rounds, lambda each: each.reached(expense), _run_of, geometric)
        for arm, rounds in attempts.items()
    }
    found = [
        timed_pairs(values, matched.disturbances, *pair, told.are_left_out)
        for pair, told in zip(fair, reach, strict=True)
    ]
    if expense != "time_s" and not any(each.pairs for each in found):
        return []
    judged = judge(
        [[math.log(pair.baseline / pair.arm) for pair in each.verdict_pairs] for each in found],
        math.log1p(criteria.margins.speed),
        1 - confidence_for(criteria.auto_blocks),
    )
    often = holm([told.lopsided_p for told in reach], _ERROR)
    return [
        _comparison(pair, expense, told, each, (judgement, held), criteria)
        for pair, told, each, judgement, held in zip(fair, reach, found, judged, often, strict=True)
    ]


def _run_of(attempt: Attempt) -> str:
    return attempt.trial.run_id


def _comparison(
    sides: tuple[Arm, Arm],
    expense: Expense,
    reach: _Reach,
    found: TimedPairs,
    judged: tuple[Judgement, HolmStep],
    criteria: ReportCriteria,
) -> TargetComparison:
    (arm, base), (judgement, often) = sides, judged
    ratios = [pair.baseline / pair.arm for pair in found.pairs]
    verdict, reason = _verdict(judgement.finding, reach, ratios)
    reason = found.disturbance_reason or reason
    return TargetComparison(
        arm,
        base,
        expense=expense,
        pairs=found.pairs,
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
        quiet_only=found.quiet_only,
        disturbed_blocks=tuple(sorted(found.disturbed)),
    )


def _verdict(finding: Finding, reach: _Reach, ratios: Sequence[float]) -> tuple[TargetVerdict, str]:
    """What the blocks that both reach show, if the others do not speak against it; or why not."""
    if len(ratios) < MIN_BLOCKS:
        return "inconclusive", f"at least {MIN_BLOCKS} are needed"
    if finding == "inconclusive":
        return "inconclusive", "the interval includes 1, and reaches beyond the margin"
    against = "the blocks that only one of them reaches speak against it"
    if finding == "same":
        return ("inconclusive", against) if reach.lopsided_p <= _ERROR else ("same", "")
    way = 1 if finding == "more" else -1
    first = len(reach.only_arm) + sum(ratio > 1 for ratio in ratios)
    second = len(reach.only_baseline) + sum(ratio < 1 for ratio in ratios)
    lead = way * (first - second)
    sure = sign_test(first, second) <= _ERROR
    if way * reach.lead < 0 and (reach.lopsided_p <= _ERROR or not (lead > 0 and sure)):
        return "inconclusive", against
    if lead < 0 and sure:
        return (
            "inconclusive",
            "in most blocks that either of them reaches it is the other way round",
        )
    return _VERDICTS[finding], ""


@dataclass(frozen=True, slots=True)
class _Reach:
    """The blocks by who reached the goal in all of their repeats."""

    both: frozenset[int]
    only_arm: frozenset[int]
    only_baseline: frozenset[int]
    neither: frozenset[int]

    @classmethod
    def of(cls, ours: Mapping[int, bool], theirs: Mapping[int, bool]) -> _Reach:
        known = ours.keys() & theirs.keys()
        return cls(
            *(
                frozenset(block for block in known if (ours[block], theirs[block]) == who)
                for who in ((True, True), (True, False), (False, True), (False, False))
            )
        )

    @property
    def lead(self) -> int:
        """In how many more blocks the arm alone reached it than the baseline alone."""
        return len(self.only_arm) - len(self.only_baseline)

    @property
    def lopsided_p(self) -> float:
        """The p-value of both reaching it equally often: McNemar's test, exactly."""
        return sign_test(len(self.only_arm), len(self.only_baseline))

    def are_left_out(self, which: Round) -> bool:
        """Whether a round's block is known, and not reached by both."""
        return which[0] in self.only_arm | self.only_baseline | self.neither


def _one_scope(attempts: Mapping[Arm, Attempts], sides: tuple[Arm, Arm]) -> bool:
    """Whether the energies of both sides are those of the same things."""
    of_both = [found for side in sides for found in attempts.get(side, {}).values()]
    scopes = scopes_of(each for found in of_both for each in found)
    return len(scopes) == 1 and scopes != {""}
