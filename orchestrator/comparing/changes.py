"""What changed between two sweeps: each arm against itself, config by config.

Blocks of two sweeps ran at two times, so that what else changed in between (the machine's heat,
other work, a driver) is in every ratio; pairing by config takes out only what the configs differ
by. The default margin is wider than that within a sweep for this reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.aims import Margins
from orchestrator.comparing.differences import Difference, differences
from orchestrator.comparing.matching import ConfigPair, Seen, matched_arms, see
from orchestrator.comparing.sides import NoSide, Side
from orchestrator.report.comparison import AccuracyVerdict, Verdict
from orchestrator.report.judgement import Finding, Judgement, judge
from orchestrator.report.numbers import count
from orchestrator.report.statistics import (
    MIN_BLOCKS,
    Estimate,
    exponential,
    geometric_mean,
    t_interval,
)
from orchestrator.trial import Arm

FailOn = Literal["slower", "faster", "worse", "changed", "untold"]

_ACCURACY_VERDICTS: dict[Finding, AccuracyVerdict] = {
    "same": "equal",
    "more": "better",
    "less": "worse",
}


@dataclass(frozen=True, slots=True)
class AccuracyChange:
    """The mean over configs of val_accuracy after minus before; read from `corrected`."""

    difference: Estimate
    corrected: Estimate | None
    verdict: AccuracyVerdict
    margin: float


@dataclass(frozen=True, slots=True)
class ArmChange:
    """An arm on both sides.

    `speedup` is the geometric mean over configs of the time before over the time after, with its
    plain 95 % interval: above 1 it became faster. The verdict is read from `corrected`, which
    allows for the other arms: `same` is wholly within the margin; `faster` and `slower` exclude 1
    and are, by their estimate, beyond the margin. `reason` says why nothing can be told. `memory`
    is the ratio of peak memory, after over before, of fresh trainers. `quiet_only` says that no
    disturbed trial is among the pairs.
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

    @property
    def is_on_other_hardware(self) -> bool:
        """Whether the two stand on hardware of different names: then it is no change of code."""
        return self.before.hardware != self.after.hardware


@dataclass(frozen=True, slots=True)
class Changes:
    """Two sides, what differs between them, and what became of each arm that both have."""

    before: Side
    after: Side
    margin: float
    differences: tuple[Difference, ...]
    arms: tuple[ArmChange, ...]
    only_before: tuple[Arm, ...]
    only_after: tuple[Arm, ...]
    why_no_accuracy: str

    @property
    def untold(self) -> bool:
        """Whether of no arm it can be told whether its speed changed, by which code is judged."""
        return all(a.verdict == "cannot tell" or a.is_on_other_hardware for a in self.arms)

    @property
    def moved_together(self) -> bool:
        """Whether all arms changed alike: then it is the machine more likely than the code."""
        found = [arm.speedup.value for arm in self.arms if arm.speedup]
        if len(found) < 2 or not any(_is_change(arm) for arm in self.arms):
            return False
        return max(found) / min(found) < 1 + self.margin


def compare(before: Side, after: Side, margin: float = 0.05) -> Changes:
    """Compare two sides; `margin` is the share of time per step that does not matter.

    Raises:
        NoSide: they are of different workloads, or one sweep.
    """
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
    found = differences(before, after)
    unlike = [each.subject for each in found if each.subject in ("settings", "data")]
    why_no_accuracy = " and ".join(dict.fromkeys(unlike))
    matched = matched_arms(before.arms, after.arms)
    names = {name for side in (before, after) for trial in side.trials for name in trial.config}
    seen = [see(before, after, arms, names, accuracy=not why_no_accuracy) for arms in matched]
    accuracy_margin = _accuracy_margin(before, after)
    speeds = judge([each.log_ratios for each in seen], math.log1p(margin))
    learned = judge([each.accuracies for each in seen], accuracy_margin)
    return Changes(
        before,
        after,
        margin,
        found,
        tuple(
            _change(each, speed, margin, _accuracy(each.accuracies, judged, accuracy_margin))
            for each, speed, judged in zip(seen, speeds, learned, strict=True)
        ),
        tuple(arm for arm in before.arms if arm not in {one for one, _ in matched}),
        tuple(arm for arm in after.arms if arm not in {other for _, other in matched}),
        why_no_accuracy,
    )


def failing(changes: Changes, asked: Iterable[FailOn]) -> tuple[ArmChange, ...]:
    """The arms that changed in a way that was asked for, on hardware of the same name."""
    wanted = set(asked)
    everything = {"slower", "faster", "worse", "better"}
    told = everything if "changed" in wanted else {str(each) for each in wanted}
    return tuple(
        arm
        for arm in changes.arms
        if not arm.is_on_other_hardware
        and told & {arm.verdict, arm.accuracy.verdict if arm.accuracy else ""}
    )


def _change(
    seen: Seen, judged: Judgement, margin: float, accuracy: AccuracyChange | None
) -> ArmChange:
    speedup = geometric_mean([pair.before / pair.after for pair in seen.pairs])
    verdict, reason = _verdict(len(seen.pairs), speedup, judged, margin)
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
        seen.memory,
    )


def _verdict(
    configs: int, speedup: Estimate | None, judged: Judgement, margin: float
) -> tuple[Verdict, str]:
    if speedup is None or configs < MIN_BLOCKS:
        number = count(configs, "config") if configs else "no config"
        return "cannot tell", f"{number} in common; at least {MIN_BLOCKS} are needed"
    if judged.finding == "same":
        return "same", ""
    if judged.finding == "cannot tell":
        return "cannot tell", "the interval includes 1, and reaches beyond the margin"
    way: Verdict = "faster" if judged.finding == "more" else "slower"
    if abs(math.log(speedup.value)) <= math.log1p(margin):
        return "cannot tell", f"{way}, but maybe by no more than the margin"
    return way, ""


def _accuracy(values: Sequence[float], judged: Judgement, margin: float) -> AccuracyChange | None:
    difference = t_interval(values)
    if difference is None:
        return None
    verdict = _ACCURACY_VERDICTS.get(judged.finding, "cannot tell")
    return AccuracyChange(difference, judged.corrected, verdict, margin)


def _accuracy_margin(before: Side, after: Side) -> float:
    """What the sweeps' own specs say, the narrower of the two; else the default."""
    known = [side.accuracy_margin for side in (before, after) if side.accuracy_margin is not None]
    return min(known, default=Margins().accuracy)


def _is_change(arm: ArmChange) -> bool:
    return arm.verdict in ("faster", "slower")
