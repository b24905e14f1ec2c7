"""What changed between two sweeps: each arm against itself, config by config.

Blocks of two sweeps ran at two times, so that what else changed in between (the machine's heat,
other work, a driver) is in every ratio; pairing by config takes out only what the configs differ
by. The default margin is wider than that within a sweep for this reason.
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
from orchestrator.report.compare.matching import ConfigPair, Seen, matched_arms, see
from orchestrator.report.compare.sides import NoSide, Side

FailOn = Literal["slower", "faster", "worse", "larger", "changed", "inconclusive"]

_SIZES = {"more": "larger", "less": "smaller"}
"""How a change of memory is called where a comparison is to fail on it."""


@dataclass(frozen=True, slots=True)
class ArmChange:
    """An arm on both sides.

    `speedup` is the geometric mean over configs of the time before over the time after, with its
    plain 95 % interval: above 1 it became faster. The verdict is read from `corrected`, which
    allows for the other arms: `same` is wholly within the margin; `faster` and `slower` exclude 1
    and are, by their estimate, beyond the margin. `reason` says why nothing can be told. `memory`
    is the ratio of peak memory, after over before, of fresh trainers: that of the GPU where it is
    known; `needs` has all that is known of memory and of compiling, with verdicts. `quiet_only`
    says that no disturbed trial is among the pairs; `lost` counts configs that it completed before,
    and tried in vain after.
    """

    before: Arm
    after: Arm
    pairs: tuple[ConfigPair, ...]
    speedup: Estimate | None
    corrected: Estimate | None
    p_value: float | None
    verdict: Verdict
    reason: str
    quiet_only: bool
    accuracy: AccuracyChange | None
    memory: Estimate | None
    needs: tuple[NeedChange, ...]
    lost: int

    @property
    def is_on_other_hardware(self) -> bool:
        """Whether the two stand on hardware of different names: then it is no change of code."""
        return self.before.hardware != self.after.hardware

    @property
    def inconclusive_reason(self) -> str | None:
        """Why a change of speed or accuracy is inconclusive; None if it is not."""
        if self.is_on_other_hardware:
            return f"before on {self.before.hardware}"
        if self.verdict == "inconclusive":
            return self.reason
        learned = self.accuracy  # of what is left where trainings diverged
        return learned.reason if learned and learned.is_spoilt else None


@dataclass(frozen=True, slots=True)
class Changes:
    """Two sides, what differs between them, and what became of each arm that both have.

    `canary_speedup` is how much faster the canary sang after than before, None where it is not
    known: a piece of work that never changes, and so the machine's own speed.
    """

    before: Side
    after: Side
    margin: float
    differences: tuple[Difference, ...]
    arms: tuple[ArmChange, ...]
    only_before: tuple[Arm, ...]
    only_after: tuple[Arm, ...]
    why_no_accuracy: str
    canary_speedup: float | None

    @property
    def unjudged(self) -> tuple[tuple[Arm, str], ...]:
        """The arms of which nothing can be told, or not all, each with why; gone ones last.

        One that only the later side has is none of them: it was no faster before.
        """
        return (
            *((arm.after, arm.inconclusive_reason) for arm in self.arms if arm.inconclusive_reason),
            *((arm, f"only {self.before.label} has it") for arm in self.only_before),
        )

    @property
    def all_inconclusive(self) -> bool:
        """Whether of no arm it can be told whether its speed changed, by which code is judged."""
        return all(a.verdict == "inconclusive" or a.is_on_other_hardware for a in self.arms)

    @property
    def moved_together(self) -> bool:
        """Whether all arms changed alike: then it is the machine more likely than the code."""
        found = [arm.speedup.value for arm in self.arms if arm.speedup]
        if len(found) < 2 or not any(_is_change(arm) for arm in self.arms):
            return False
        return max(found) / min(found) < 1 + self.margin

    @property
    def moved_with_canary(self) -> bool:
        """Whether the only arm changed as the canary did: one arm cannot tell of the machine."""
        if len(self.arms) != 1 or not _is_change(self.arms[0]) or self.canary_speedup is None:
            return False
        shown = self.arms[0].corrected
        return shown is not None and shown.low <= self.canary_speedup <= shown.high


def compare(before: Side, after: Side, margin: float = 0.05) -> Changes:
    """Compare two sides; `margin` is the share of time, or of memory, that does not matter.

    Raises:
        NoSide: they are of different workloads, or one sweep.
    """
    _expect_two_of_a_kind(before, after)
    found = differences(before, after)
    unlike = [each.subject for each in found if each.subject in ("settings", "data")]
    why_no_accuracy = " and ".join(dict.fromkeys(unlike))
    matched = matched_arms(before.arms, after.arms)
    names = {name for side in (before, after) for trial in side.trials for name in trial.config}
    seen = [see(before, after, arms, names, accuracy=not why_no_accuracy) for arms in matched]
    speeds = judge([each.log_ratios for each in seen], math.log1p(margin))
    learned, needed = compare_accuracies(before, after, seen), compare_needs(seen, margin)
    judged = zip(seen, speeds, learned, needed, strict=True)
    return Changes(
        before,
        after,
        margin,
        found,
        tuple(_change(each, speed, margin, known, needs) for each, speed, known, needs in judged),
        tuple(arm for arm in before.arms if arm not in {one for one, _ in matched}),
        tuple(arm for arm in after.arms if arm not in {other for _, other in matched}),
        why_no_accuracy,
        canary_speedup(before, after),
    )


def failing(changes: Changes, asked: Iterable[FailOn]) -> tuple[ArmChange, ...]:
    """The arms that changed in a way that was asked for, on hardware of the same name."""
    wanted = set(asked)
    all_ways = {"slower", "faster", "worse", "better", "larger", "smaller"}
    ways = all_ways if "changed" in wanted else all_ways & wanted
    return tuple(arm for arm in changes.arms if not arm.is_on_other_hardware and ways & _ways(arm))


def _ways(arm: ArmChange) -> set[str]:
    """In which ways it changed: those that a comparison can fail on."""
    memory = (each.verdict for each in arm.needs if each.metric in MEMORY)
    found = {arm.verdict, *(_SIZES.get(each, "") for each in memory)}
    return {*found, arm.accuracy.verdict if arm.accuracy else ""}


def _expect_two_of_a_kind(before: Side, after: Side) -> None:
    if before.workload != after.workload:
        raise NoSide(
            f"expected two sweeps of one workload; received {before.label} of {before.workload} "
            f"and {after.label} of {after.workload}"
        )
    if before.run_id == after.run_id:
        both = before.label if before.label == after.label else f"{before.label} and {after.label}"
        raise NoSide(
            "expected two sweeps, or two generations of one; received one sweep on both sides "
            f"({both}), in which nothing can have changed. Name an earlier generation (such as "
            "NAME#1; `rnnsweep run SPEC --fresh` starts another), or a report kept of another sweep"
        )


def _change(
    seen: Seen,
    judged: Judgement,
    margin: float,
    accuracy: AccuracyChange | None,
    needs: tuple[NeedChange, ...],
) -> ArmChange:
    speedup = geometric_mean([pair.before / pair.after for pair in seen.pairs])
    verdict, reason = _verdict(seen, speedup, judged, margin)
    return ArmChange(
        seen.before,
        seen.after,
        seen.pairs,
        speedup,
        exponential(judged.corrected) if judged.corrected else None,
        judged.p_value,
        verdict,
        reason,
        seen.quiet_only,
        accuracy,
        next((each.ratio for each in needs if each.metric in MEMORY), None),
        needs,
        seen.lost,
    )


def _verdict(
    seen: Seen, speedup: Estimate | None, judged: Judgement, margin: float
) -> tuple[Verdict, str]:
    configs = len(seen.pairs)
    if speedup is None or configs < MIN_BLOCKS:
        number = count(configs, "config") if configs else "no config"
        few = f"{number} in common; at least {MIN_BLOCKS} are needed"
        return "inconclusive", seen.absent or few
    if seen.disturbance_reason:
        return "inconclusive", seen.disturbance_reason
    if judged.finding == "same":
        return "same", ""
    if judged.finding == "inconclusive":
        return "inconclusive", "the interval includes 1, and reaches beyond the margin"
    way: Verdict = "faster" if judged.finding == "more" else "slower"
    if abs(math.log(speedup.value)) <= math.log1p(margin):
        return "inconclusive", f"{way}, but maybe by no more than the margin"
    return way, ""


def _is_change(arm: ArmChange) -> bool:
    return arm.verdict in ("faster", "slower")
