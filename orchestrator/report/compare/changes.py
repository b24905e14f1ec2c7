"""Changes between two sweeps: every arm is compared with itself, config by config.

The two sweeps ran at different times. Other changes in between (temperature, other work, a driver)
therefore affect every ratio; pairing by config removes only the differences between configs. That
is why the default margin is wider than within a sweep.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.comparisons.speed import Verdict
from orchestrator.analysis.statistics.estimates import (
    MIN_BLOCKS,
    Estimate,
    exponential,
    geometric_mean,
)
from orchestrator.analysis.statistics.formatting import count
from orchestrator.analysis.statistics.verdicts import Judgement, judge
from orchestrator.core.arms import Arm
from orchestrator.report.compare.accuracies import AccuracyChange, compare_accuracies
from orchestrator.report.compare.costs import MEMORY, NeedChange, compare_needs
from orchestrator.report.compare.differences import Difference, canary_speedup, differences
from orchestrator.report.compare.matching import ConfigPair, MatchedArm, match_trials, matched_arms
from orchestrator.report.compare.sides import InvalidSide, Side

FailOn = Literal["slower", "faster", "worse", "larger", "changed", "inconclusive"]

_SIZES = {"more": "larger", "less": "smaller"}
"""The name of a change of memory in the list of changes that a comparison can fail on."""


@dataclass(frozen=True, slots=True)
class ArmChange:
    """An arm on both sides.

    `speedup` is the geometric mean over configs of the time before divided by the time after, with
    its plain 95 % interval: above 1 the arm became faster. The verdict follows from `corrected`,
    which allows for the other arms. It is `same` if this interval lies within the margin. It is
    `faster` or `slower` if the interval excludes 1 and the estimate is beyond the margin. `reason`
    explains an inconclusive verdict.

    `memory` is the ratio of the peak memory of fresh trainers, after over before, on the GPU if it
    was measured there. `needs` has all changes of memory and compile time. With `quiet_only` no
    pair has a disturbed trial. `lost` counts configs that the arm completed before, but not after.
    """

    before: Arm
    after: Arm
    pairs: tuple[ConfigPair, ...]
    speedup: Estimate | None
    corrected: Estimate | None
    p_value: float | None
    verdict: Verdict
    reason: str | None
    quiet_only: bool
    accuracy: AccuracyChange | None
    memory: Estimate | None
    needs: tuple[NeedChange, ...]
    lost: int

    @property
    def is_on_other_hardware(self) -> bool:
        """The hardware differs: a change is not one of the code."""
        return self.before.hardware != self.after.hardware

    @property
    def inconclusive_reason(self) -> str | None:
        """Why a change of speed or accuracy is inconclusive; None if it is not."""
        if self.is_on_other_hardware:
            return f"before on {self.before.hardware}"
        if self.verdict == "inconclusive":
            return self.reason
        learned = self.accuracy  # of the configs that did not diverge
        return learned.reason if learned and learned.has_one_sided_divergence else None


@dataclass(frozen=True, slots=True)
class Changes:
    """Two sides, the differences between them, and the changes of all arms that both have.

    `unlike_inputs` are the inputs whose difference prevents a comparison of accuracies. The canary
    is the calibration probe: work that never changes. `canary_speedup` is its time before divided
    by its time after, which is the change of the machine's speed, or None if it did not run.
    """

    before: Side
    after: Side
    margin: float
    differences: tuple[Difference, ...]
    arms: tuple[ArmChange, ...]
    only_before: tuple[Arm, ...]
    only_after: tuple[Arm, ...]
    unlike_inputs: str | None
    canary_speedup: float | None

    @property
    def unjudged(self) -> tuple[tuple[Arm, str], ...]:
        """The arms with an inconclusive verdict, with reasons; those only before come last.

        Arms that only the later side has are not among them: they cannot have become slower.
        """
        return (
            *((arm.after, arm.inconclusive_reason) for arm in self.arms if arm.inconclusive_reason),
            *((arm, f"only {self.before.label} has it") for arm in self.only_before),
        )

    @property
    def all_inconclusive(self) -> bool:
        """No arm has a verdict on its speed that concerns the code."""
        return all(a.verdict == "inconclusive" or a.is_on_other_hardware for a in self.arms)

    @property
    def moved_together(self) -> bool:
        """All arms changed by the same factor, more likely due to the machine than to the code."""
        speedups = [arm.speedup.value for arm in self.arms if arm.speedup]
        if len(speedups) < 2 or not any(_is_change(arm) for arm in self.arms):
            return False
        return max(speedups) / min(speedups) < 1 + self.margin

    @property
    def moved_with_canary(self) -> bool:
        """The only arm changed as the calibration probe did: the cause may be the machine."""
        if len(self.arms) != 1 or not _is_change(self.arms[0]) or self.canary_speedup is None:
            return False
        shown = self.arms[0].corrected
        return shown is not None and shown.low <= self.canary_speedup <= shown.high


def compare(before: Side, after: Side, margin: float = 0.05) -> Changes:
    """Compare two sides; `margin` is the share of time, or of memory, that does not matter.

    Raises:
        InvalidSide: The sides are of different workloads, or are the same sweep.
    """
    _expect_two_of_a_kind(before, after)
    unlike = differences(before, after)
    subjects = [difference.subject for difference in unlike]
    inputs = [subject for subject in subjects if subject in ("settings", "data")]
    unlike_inputs = " and ".join(dict.fromkeys(inputs)) or None
    pairs = matched_arms(before.arms, after.arms)
    names = {name for side in (before, after) for trial in side.trials for name in trial.config}
    matched = [
        match_trials(before, after, arms, names, accuracy=unlike_inputs is None) for arms in pairs
    ]
    speeds = judge([arm.log_ratios for arm in matched], math.log1p(margin))
    accuracies = compare_accuracies(before, after, matched)
    judged = zip(matched, speeds, accuracies, compare_needs(matched, margin), strict=True)
    return Changes(
        before,
        after,
        margin,
        unlike,
        tuple(
            _change(arm, speed, margin, accuracy, needs) for arm, speed, accuracy, needs in judged
        ),
        tuple(arm for arm in before.arms if arm not in {one for one, _ in pairs}),
        tuple(arm for arm in after.arms if arm not in {other for _, other in pairs}),
        unlike_inputs,
        canary_speedup(before, after),
    )


def failing(changes: Changes, requested: Iterable[FailOn]) -> tuple[ArmChange, ...]:
    """Return the arms on the same hardware that changed in one of the requested ways."""
    wanted = set(requested)
    all_ways = {"slower", "faster", "worse", "better", "larger", "smaller"}
    ways = all_ways if "changed" in wanted else all_ways & wanted
    return tuple(arm for arm in changes.arms if not arm.is_on_other_hardware and ways & _ways(arm))


def _ways(arm: ArmChange) -> set[str]:
    """Return the ways in which an arm changed that a comparison can fail on."""
    memory = (need.verdict for need in arm.needs if need.metric in MEMORY)
    ways = {arm.verdict, *(_SIZES.get(verdict, "") for verdict in memory)}
    return {*ways, arm.accuracy.verdict if arm.accuracy else ""}


def _expect_two_of_a_kind(before: Side, after: Side) -> None:
    if before.workload != after.workload:
        raise InvalidSide(
            f"expected two sweeps of one workload; received {before.label} of {before.workload} "
            f"and {after.label} of {after.workload}"
        )
    if before.run_id == after.run_id:
        both = before.label if before.label == after.label else f"{before.label} and {after.label}"
        raise InvalidSide(
            "expected two sweeps, or two generations of one; received one sweep on both sides "
            f"({both}), so nothing can have changed. Name an earlier generation (such as "
            "NAME#1; `rnnsweep run SPEC --fresh` starts another), or a saved report of another one"
        )


def _change(
    matched: MatchedArm,
    judged: Judgement,
    margin: float,
    accuracy: AccuracyChange | None,
    needs: tuple[NeedChange, ...],
) -> ArmChange:
    speedup = geometric_mean([pair.before / pair.after for pair in matched.pairs])
    verdict, reason = _verdict(matched, speedup, judged, margin)
    return ArmChange(
        matched.before,
        matched.after,
        matched.pairs,
        speedup,
        exponential(judged.corrected) if judged.corrected else None,
        judged.p_value,
        verdict,
        reason,
        matched.quiet_only,
        accuracy,
        next((need.ratio for need in needs if need.metric in MEMORY), None),
        needs,
        matched.lost,
    )


def _verdict(
    matched: MatchedArm, speedup: Estimate | None, judged: Judgement, margin: float
) -> tuple[Verdict, str | None]:
    configs = len(matched.pairs)
    if speedup is None or configs < MIN_BLOCKS:
        number = count(configs, "config") if configs else "no config"
        few = f"{number} in common; at least {MIN_BLOCKS} are needed"
        return "inconclusive", matched.absence_reason or few
    if matched.disturbance_reason:
        return "inconclusive", matched.disturbance_reason
    if judged.finding == "same":
        return "same", None
    if judged.finding == "inconclusive":
        return "inconclusive", "the interval includes 1, and extends beyond the margin"
    way: Verdict = "faster" if judged.finding == "more" else "slower"
    if abs(math.log(speedup.value)) <= math.log1p(margin):
        return "inconclusive", f"{way}, but possibly within the margin"
    return way, None


def _is_change(arm: ArmChange) -> bool:
    return arm.verdict in ("faster", "slower")
