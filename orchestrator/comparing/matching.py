"""What was measured of an arm on both sides, config by config."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from orchestrator.comparing.sides import Side
from orchestrator.report.records import TrialRecord
from orchestrator.report.statistics import MIN_BLOCKS, Estimate, geometric_mean
from orchestrator.selector import device_of, measure_of, usage_of
from orchestrator.trial import Arm, Config, canonical

_MEMORY = ("peak_rss_mib", "peak_gpu_mib")
_METRIC = "step_ms"


@dataclass(frozen=True, slots=True)
class ConfigPair:
    """One config's milliseconds per step on both sides, each the geometric mean of its trials."""

    config: Config
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What was measured of an arm on both sides."""

    before: Arm
    after: Arm
    pairs: tuple[ConfigPair, ...]
    quiet_only: bool
    accuracies: tuple[float, ...]
    memory: Estimate | None

    @property
    def log_ratios(self) -> list[float]:
        """The logarithm of the time before over the time after, a config each."""
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


def _by_kind(arms: Iterable[Arm]) -> dict[tuple[str, str, str], list[Arm]]:
    kinds: dict[tuple[str, str, str], list[Arm]] = defaultdict(list)
    for arm in arms:
        usage = str(usage_of(arm.hardware))
        kinds[arm.implementation, device_of(arm.hardware), usage].append(arm)
    return kinds


def see(
    before: Side, after: Side, arms: tuple[Arm, Arm], names: set[str], *, accuracy: bool
) -> Seen:
    """What was measured of an arm at the configs that both sides have.

    `names` are the params that either side searches. Disturbed trials are left out where enough
    configs have quiet ones on both sides. Accuracies are of whole trainings, where asked for.
    """
    one, other = (
        _by_config(side, arm, names) for side, arm in zip((before, after), arms, strict=True)
    )
    both = {config: (one[config], other[config]) for config in one if config in other}
    quiet = {config: tuple(map(_quiet, sides)) for config, sides in both.items()}
    quiet_pairs = _pairs(quiet)
    quiet_only = len(quiet_pairs) >= MIN_BLOCKS or quiet == both
    learned = accuracy and measure_of(arms[0]) == measure_of(arms[1]) == "full"
    return Seen(
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


def _differences(both: _Sides, metric: str) -> Iterator[float]:
    for sides in both.values():
        one, other = (_values(trials, metric) for trials in sides)
        if one and other:
            yield _mean(other) - _mean(one)


def _memory_ratios(both: _Sides) -> list[float]:
    """After over before, of fresh trainers: a warm one keeps what came before."""
    for metric in reversed(_MEMORY):  # a GPU's own memory, where it was measured
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
