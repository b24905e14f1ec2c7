"""What changed between two sweeps: each arm against itself, config by config.

Blocks of two sweeps ran at two times, so that what else changed in between (the machine's heat,
other work, a driver) is in every ratio; pairing by config takes out only what the configs differ
by. The default margin is wider than that within a sweep for this reason.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from orchestrator.aims import Margins
from orchestrator.comparing.differences import Difference, differences
from orchestrator.comparing.sides import NoSide, Side
from orchestrator.report.comparison import AccuracyVerdict, Verdict
from orchestrator.report.judgement import Finding, Judgement, judge
from orchestrator.report.numbers import count
from orchestrator.report.records import TrialRecord
from orchestrator.report.statistics import (
    MIN_BLOCKS,
    Estimate,
    exponential,
    geometric_mean,
    t_interval,
)
from orchestrator.selector import device_of, measure_of, usage_of
from orchestrator.trial import Arm, Config, canonical

FailOn = Literal["slower", "faster", "worse", "changed"]

MEMORY = ("peak_rss_mib", "peak_gpu_mib")
ACCURACY_VERDICTS: dict[Finding, AccuracyVerdict] = {
    "same": "equal",
    "more": "better",
    "less": "worse",
}
_METRIC = "step_ms"


@dataclass(frozen=True, slots=True)
class ConfigPair:
    """One config's milliseconds per step on both sides, each the geometric mean of its trials."""

    config: Config
    before: float
    after: float


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
    def moved_together(self) -> bool:
        """Whether all arms changed alike: then it is the machine more likely than the code."""
        found = [arm.speedup.value for arm in self.arms if arm.speedup]
        if len(found) < 2 or not any(_is_change(arm) for arm in self.arms):
            return False
        return max(found) / min(found) < 1 + self.margin


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was measured of an arm on both sides."""

    before: Arm
    after: Arm
    pairs: tuple[ConfigPair, ...]
    quiet_only: bool
    accuracies: tuple[float, ...]
    memory: Estimate | None


def compare(before: Side, after: Side, margin: float = 0.05) -> Changes:
    """Compare two sides; `margin` is the share of time per step that does not matter.

    Raises:
        NoSide: they are of different workloads.
    """
    if before.workload != after.workload:
        raise NoSide(
            f"expected two sweeps of one workload; received {before.label} of {before.workload} "
            f"and {after.label} of {after.workload}"
        )
    found = differences(before, after)
    unlike = [each.subject for each in found if each.subject in ("settings", "data")]
    why_no_accuracy = " and ".join(dict.fromkeys(unlike))
    matched = _matched(before.arms, after.arms)
    names = {name for side in (before, after) for trial in side.trials for name in trial.config}
    seen = [_see(before, after, arms, names, not why_no_accuracy) for arms in matched]
    accuracy_margin = _accuracy_margin(before, after)
    speeds = judge([_log_ratios(each.pairs) for each in seen], math.log1p(margin))
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


def _matched(before: Sequence[Arm], after: Sequence[Arm]) -> list[tuple[Arm, Arm]]:
    """Arms of the same name; of the others those of which either side has but one of a kind.

    A kind is an implementation on a CPU or a GPU, used in the same way.
    """
    same = {arm: arm for arm in before if arm in after}
    left = [[arm for arm in side if arm not in same] for side in (before, after)]
    kinds = [_by_kind(side) for side in left]
    for kind, (arm, *more) in kinds[0].items():
        others = kinds[1].get(kind, [])
        if not more and len(others) == 1:
            same[arm] = others[0]
    return [(arm, same[arm]) for arm in before if arm in same]


def _by_kind(arms: Iterable[Arm]) -> dict[tuple[str, str, str], list[Arm]]:
    kinds: dict[tuple[str, str, str], list[Arm]] = defaultdict(list)
    for arm in arms:
        usage = str(usage_of(arm.hardware))
        kinds[arm.implementation, device_of(arm.hardware), usage].append(arm)
    return kinds


def _see(
    before: Side, after: Side, arms: tuple[Arm, Arm], names: set[str], accuracy: bool
) -> _Seen:
    one, other = (
        _by_config(side, arm, names) for side, arm in zip((before, after), arms, strict=True)
    )
    both = {config: (one[config], other[config]) for config in one if config in other}
    quiet = {config: tuple(map(_quiet, sides)) for config, sides in both.items()}
    quiet_pairs = _pairs(quiet)
    quiet_only = len(quiet_pairs) >= MIN_BLOCKS or quiet == both
    learned = accuracy and measure_of(arms[0]) == measure_of(arms[1]) == "full"
    return _Seen(
        *arms,
        quiet_pairs if quiet_only else _pairs(both),
        quiet_only,
        tuple(_differences(both, "val_accuracy")) if learned else (),
        geometric_mean(_memory_ratios(both)),
    )


_Sides: TypeAlias = Mapping[str, tuple[tuple[TrialRecord, ...], ...]]
"""The complete trials of either side, by config."""


def _by_config(side: Side, arm: Arm, names: set[str]) -> dict[str, tuple[TrialRecord, ...]]:
    """An arm's complete trials by their config, with what the other side searches of settings."""
    found: dict[str, list[TrialRecord]] = defaultdict(list)
    for trial in side.trials:
        if trial.arm == arm and trial.status == "complete":
            config = {
                name: trial.config.get(name, side.settings.get(name))
                for name in names
                if name in trial.config or name in side.settings
            }
            found[canonical(config)].append(trial)
    return {config: tuple(trials) for config, trials in found.items()}


def _quiet(trials: tuple[TrialRecord, ...]) -> tuple[TrialRecord, ...]:
    return tuple(trial for trial in trials if not trial.notes.get("disturbed"))


def _values(trials: Iterable[TrialRecord], metric: str) -> list[float]:
    values = [trial.metrics.get(metric, math.nan) for trial in trials]
    return [value for value in values if math.isfinite(value)]


def _pairs(both: _Sides) -> tuple[ConfigPair, ...]:
    found = []
    for config, sides in both.items():
        one, other = ([v for v in _values(trials, _METRIC) if v > 0] for trials in sides)
        if one and other:
            means = (math.exp(_mean(list(map(math.log, values)))) for values in (one, other))
            found.append(ConfigPair(json.loads(config), *means))
    return tuple(found)


def _log_ratios(pairs: Iterable[ConfigPair]) -> list[float]:
    return [math.log(pair.before / pair.after) for pair in pairs]


def _differences(both: _Sides, metric: str) -> Iterator[float]:
    for sides in both.values():
        one, other = (_values(trials, metric) for trials in sides)
        if one and other:
            yield _mean(other) - _mean(one)


def _memory_ratios(both: _Sides) -> list[float]:
    """After over before, of fresh trainers: a warm one keeps what came before."""
    for metric in reversed(MEMORY):  # a GPU's own memory, where it was measured
        found = []
        for sides in both.values():
            one, other = (
                _values((t for t in trials if t.trainer_trials == 0), metric) for trials in sides
            )
            if one and other and min(*one, *other) > 0:
                found.append(_mean(other) / _mean(one))
        if found:
            return found
    return []


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _change(
    seen: _Seen, judged: Judgement, margin: float, accuracy: AccuracyChange | None
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
    verdict = ACCURACY_VERDICTS.get(judged.finding, "cannot tell")
    return AccuracyChange(difference, judged.corrected, verdict, margin)


def _accuracy_margin(before: Side, after: Side) -> float:
    """What the sweeps' own specs say, the narrower of the two; else the default."""
    known = [side.accuracy_margin for side in (before, after) if side.accuracy_margin is not None]
    return min(known, default=Margins().accuracy)


def _is_change(arm: ArmChange) -> bool:
    return arm.verdict in ("faster", "slower")
