"""What was measured of an arm on both sides, config by config."""

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
    """One config's milliseconds per step on both sides, each the geometric mean of its trials."""

    config: Config
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What was measured of an arm on both sides.

    `both` are the complete trials of the configs that both sides have, `usual` those of them that
    `pairs` are made from: quiet ones alone where there are enough. `disturbance_reason` says why
    the pairs tell nothing for want of quiet ones, and is empty as a rule. `absent` says why a side
    has no complete trial, and is empty where both have one. `diverged` counts the configs at which
    the arm diverged after alone, and before alone; `lost` those at which it completed a trial
    before and tried in vain after.
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
    absent: str
    lost: int

    @property
    def log_ratios(self) -> list[float]:
        """The logarithm of the time before over the time after, a config each; none in doubt."""
        if self.disturbance_reason:
            return []
        return [math.log(pair.before / pair.after) for pair in self.pairs]


def matched_arms(before: Sequence[Arm], after: Sequence[Arm]) -> list[tuple[Arm, Arm]]:
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


def _by_kind(arms: Iterable[Arm]) -> dict[tuple[str, Device, Usage], list[Arm]]:
    kinds: dict[tuple[str, Device, Usage], list[Arm]] = defaultdict(list)
    for arm in arms:
        kinds[arm.implementation, arm.device, arm.usage].append(arm)
    return kinds


def see(
    before: Side, after: Side, arms: tuple[Arm, Arm], names: set[str], *, accuracy: bool
) -> Seen:
    """What was measured of an arm at the configs that both sides have.

    `names` are the params that either side searches. Disturbed trials are left out where enough
    configs have quiet ones on both sides. Accuracies are of whole trainings, where asked for.
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
    return Seen(
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
        joined([why for side, arm in sides if (why := _why_absent(side, arm))]),
        len((ran.keys() & other.keys()) - ran_after.keys()),
    )


def mean(numbers: Sequence[float]) -> float:
    """The arithmetic mean."""
    return math.fsum(numbers) / len(numbers)


def _by_config(side: Side, arm: Arm, names: set[str]) -> OfConfigs:
    """An arm's trials by their config, with what the other side searches of settings."""
    found: dict[str, list[FinishedTrial]] = defaultdict(list)
    for trial in side.trials:
        if trial.arm == arm:
            config = {
                name: trial.config.get(name, side.settings.get(name))
                for name in names
                if name in trial.config or name in side.settings
            }
            found[canonical(config)].append(trial)
    return {config: tuple(trials) for config, trials in found.items()}


def _complete(of_side: OfConfigs) -> OfConfigs:
    done = {c: tuple(t for t in trials if t.status == "complete") for c, trials in of_side.items()}
    return {config: trials for config, trials in done.items() if trials}


def _diverged(of_side: OfConfigs) -> set[str]:
    """The configs at which a training diverged, and none was completed."""
    return {c for c in of_side.keys() - _complete(of_side).keys() if any(map(diverged, of_side[c]))}


def _why_absent(side: Side, arm: Arm) -> str:
    """`all its trials failed in quickstart#2`; empty where one was completed."""
    ended = Counter(trial.status for trial in side.trials if trial.arm == arm)
    if ended["complete"]:
        return ""
    if not ended:
        return f"none of its trials has ended in {side.label}"
    if set(ended) == {"failed"}:
        return f"all its trials failed in {side.label}"
    told = joined([f"{n} {status.replace('_', ' ')}" for status, n in sorted(ended.items())])
    return f"none of its trials was completed in {side.label} ({told})"


def _quiet(trials: tuple[FinishedTrial, ...]) -> tuple[FinishedTrial, ...]:
    return tuple(trial for trial in trials if not trial.disturbance)


def _pairs(both: OfSides) -> tuple[ConfigPair, ...]:
    found = []
    for config, sides in both.items():
        one, other = ([v for v in finite(trials, _METRIC) if v > 0] for trials in sides)
        if one and other:
            means = (math.exp(mean(list(map(math.log, times)))) for times in (one, other))
            found.append(ConfigPair(json.loads(config), *means))
    return tuple(found)


def _differences(both: OfSides, metric: str) -> Iterable[float]:
    for sides in both.values():
        one, other = (finite(trials, metric) for trials in sides)
        if one and other:
            yield mean(other) - mean(one)
