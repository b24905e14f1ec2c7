"""The trials of an arm on both sides, matched by config."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from orchestrator.analysis.comparisons.divergence import diverged
from orchestrator.analysis.metrics.derived import finite
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS
from orchestrator.analysis.statistics.formatting import joined
from orchestrator.analysis.statistics.quiet_blocks import disturbance_reason
from orchestrator.core.arms import Arm, Usage
from orchestrator.core.trial import Config, FinishedTrial, canonical
from orchestrator.report.compare.sides import Side
from workloads.protocol import Device

_METRIC = "step_ms"

OfConfigs: TypeAlias = Mapping[str, tuple[FinishedTrial, ...]]
"""An arm's trials of one side, by config."""

OfSides: TypeAlias = Mapping[str, tuple[tuple[FinishedTrial, ...], ...]]
"""The complete trials of either side, by config."""


@dataclass(frozen=True, slots=True)
class ConfigPair:
    """Milliseconds per step at one config on both sides, as geometric means of the trials."""

    config: Config
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class MatchedArm:
    """The measurements of an arm on both sides.

    `both` are the complete trials of the configs that both sides have. `usual` are those that
    `pairs` are made from: only quiet ones if there are enough. `disturbance_reason` is set if too
    few quiet trials make the pairs inconclusive, and `absence_reason` if a side has no complete
    trial. `diverged` counts the configs at which the arm diverged only after, and only before.
    `lost` counts those at which it completed a trial before, but not after.
    """

    before: Arm
    after: Arm
    both: OfSides
    usual: OfSides
    pairs: tuple[ConfigPair, ...]
    quiet_only: bool
    disturbance_reason: str | None
    accuracies: tuple[float, ...]
    diverged: tuple[int, int]
    absence_reason: str | None
    lost: int

    @property
    def log_ratios(self) -> list[float]:
        """The logarithms of time before over time after, by config; empty if disturbed."""
        if self.disturbance_reason:
            return []
        return [math.log(pair.before / pair.after) for pair in self.pairs]


def matched_arms(before: Sequence[Arm], after: Sequence[Arm]) -> list[tuple[Arm, Arm]]:
    """Match arms of the same name; then arms that are the only one of their kind on both sides.

    A kind is an implementation on a CPU or a GPU, used in the same way.
    """
    same = {arm: arm for arm in before if arm in after}
    unmatched = [[arm for arm in side if arm not in same] for side in (before, after)]
    kinds = [_by_kind(side) for side in unmatched]
    for kind, (arm, *more) in kinds[0].items():
        others = kinds[1].get(kind, [])
        if not more and len(others) == 1:
            same[arm] = others[0]
    return [(arm, same[arm]) for arm in before if arm in same]


def _by_kind(arms: Iterable[Arm]) -> dict[tuple[str, Device, Usage], list[Arm]]:
    kinds: dict[tuple[str, Device, Usage], list[Arm]] = defaultdict(list)
    for arm in arms:
        kinds[arm.implementation, arm.device, arm.usage].append(arm)
    return kinds


def match_trials(
    before: Side, after: Side, arms: tuple[Arm, Arm], names: set[str], *, accuracy: bool
) -> MatchedArm:
    """Match the trials of an arm at the configs that both sides have.

    `names` are the params that either side searches. Disturbed trials are excluded if enough
    configs have quiet ones on both sides. With `accuracy`, whole trainings are matched for it.
    """
    sides = tuple(zip((before, after), arms, strict=True))
    one, other = (_by_config(side, arm, names) for side, arm in sides)
    ran, ran_after = map(_complete, (one, other))
    both = {config: (ran[config], ran_after[config]) for config in ran if config in ran_after}
    quiet = {config: tuple(map(_quiet, trials)) for config, trials in both.items()}
    undisturbed = {config: trials for config, trials in quiet.items() if trials == both[config]}
    quiet_pairs = _pairs(quiet)
    quiet_only = len(quiet_pairs) >= MIN_BLOCKS or quiet == both
    pairs = quiet_pairs if quiet_only else _pairs(both)
    learned = accuracy and arms[0].measure == arms[1].measure == "full"
    return MatchedArm(
        *arms,
        both,
        quiet if quiet_only else both,
        pairs,
        quiet_only,
        disturbance_reason(
            len(pairs), len(quiet_pairs), len(pairs) - len(_pairs(undisturbed)), "config"
        ),
        tuple(_differences(both, "val_accuracy")) if learned else (),
        (len(_diverged(other) & ran.keys()), len(_diverged(one) & ran_after.keys())),
        joined([reason for side, arm in sides if (reason := _absence_reason(side, arm))]) or None,
        len((ran.keys() & other.keys()) - ran_after.keys()),
    )


def mean(numbers: Sequence[float]) -> float:
    """Return the arithmetic mean."""
    return math.fsum(numbers) / len(numbers)


def _by_config(side: Side, arm: Arm, names: set[str]) -> OfConfigs:
    """Group an arm's trials by config, including settings that the other side searches."""
    by_config: dict[str, list[FinishedTrial]] = defaultdict(list)
    for trial in side.trials:
        if trial.arm == arm:
            config = {
                name: trial.config.get(name, side.settings.get(name))
                for name in names
                if name in trial.config or name in side.settings
            }
            by_config[canonical(config)].append(trial)
    return {config: tuple(trials) for config, trials in by_config.items()}


def _complete(of_side: OfConfigs) -> OfConfigs:
    done = {c: tuple(t for t in trials if t.status == "complete") for c, trials in of_side.items()}
    return {config: trials for config, trials in done.items() if trials}


def _diverged(of_side: OfConfigs) -> set[str]:
    """Return the configs at which a training diverged, and none is complete."""
    return {c for c in of_side.keys() - _complete(of_side).keys() if any(map(diverged, of_side[c]))}


def _absence_reason(side: Side, arm: Arm) -> str | None:
    """Write `all its trials failed in quickstart#2`; None if a trial is complete."""
    ended = Counter(trial.status for trial in side.trials if trial.arm == arm)
    if ended["complete"]:
        return None
    if not ended:
        return f"none of its trials has ended in {side.label}"
    if set(ended) == {"failed"}:
        return f"all its trials failed in {side.label}"
    counts = joined([f"{n} {status.replace('_', ' ')}" for status, n in sorted(ended.items())])
    return f"none of its trials was completed in {side.label} ({counts})"


def _quiet(trials: tuple[FinishedTrial, ...]) -> tuple[FinishedTrial, ...]:
    return tuple(trial for trial in trials if not trial.disturbance)


def _pairs(both: OfSides) -> tuple[ConfigPair, ...]:
    pairs = []
    for config, sides in both.items():
        one, other = ([v for v in finite(trials, _METRIC) if v > 0] for trials in sides)
        if one and other:
            means = (math.exp(mean(list(map(math.log, times)))) for times in (one, other))
            pairs.append(ConfigPair(json.loads(config), *means))
    return tuple(pairs)


def _differences(both: OfSides, metric: str) -> Iterable[float]:
    for sides in both.values():
        one, other = (finite(trials, metric) for trials in sides)
        if one and other:
            yield mean(other) - mean(one)
