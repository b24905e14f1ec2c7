"""What was measured of trials, as a model learns from it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config, FinishedTrial, Outcome, canonical

TARGETS = ("trial_s", "step_ms", "peak_rss_mib", "peak_gpu_mib", "energy_j")
"""What can be predicted. `trial_s` is a trial's whole time, from its setting up to its last
prediction; energy is that of the timed epochs."""

MEMORY = ("peak_rss_mib", "peak_gpu_mib")
"""Of these, those that only a trainer's first trial tells: a later one keeps what came before."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One complete trial: its params (settings and config), its arm, and what it took."""

    params: Config
    arm: Arm
    took: Mapping[str, float]

    @property
    def group(self) -> str:
        """What trials of one config share, on whatever arm: held out together."""
        return canonical(self.params)


def observe(
    finished: Iterable[FinishedTrial], settings: Mapping[str, Any] | None = None
) -> list[Observation]:
    """The complete trials of one sweep, with those of its settings that are numbers or words.

    A trainer's first trial pays for its start: where an arm has others, its time is left out.
    Memory is told by first trials alone. Arms that were timed in turns took their time together.
    """
    trials = [each for each in finished if each.outcome.status == "complete"]
    fixed = {k: v for k, v in (settings or {}).items() if isinstance(v, bool | int | float | str)}
    warm = {each.trial.arm for each in trials if each.outcome.trainer_trials}
    return [
        Observation(
            {**fixed, **each.trial.config, **each.trial.arm.usage.settings},
            each.trial.arm,
            _took(each, seconds, each.trial.arm in warm),
        )
        for each, seconds in zip(trials, trial_seconds(trials), strict=True)
    ]


def trial_seconds(finished: Sequence[FinishedTrial]) -> list[float]:
    """How long each trial kept its slot; those that took turns share what they took together."""
    rivals: dict[object, list[Outcome]] = defaultdict(list)
    for each in finished:
        rivals[_slot(each)].append(each.outcome)
    return [_span_s(rivals[_slot(each)]) / len(rivals[_slot(each)]) for each in finished]


def _took_turns(each: FinishedTrial) -> bool:
    return each.trial.arm.measure == "timing"


def _slot(each: FinishedTrial) -> object:
    """What trials have in common that took turns; of another one, itself."""
    if not _took_turns(each):
        return each.trial.key
    return each.trial.block, each.trial.repeat, each.outcome.node, each.round_id


def _span_s(together: Sequence[Outcome]) -> float:
    """From the first one's start to the last one's end: while one prepares the others wait."""
    return max(each.ended_s for each in together) - min(each.started_s for each in together)


def _took(each: FinishedTrial, seconds: float, has_warm: bool) -> dict[str, float]:
    outcome, is_first = each.outcome, each.outcome.trainer_trials == 0
    took: dict[str, float] = {
        target: outcome.metrics[target]
        for target in TARGETS
        if target in outcome.metrics and (is_first or target not in MEMORY)
    }
    if not (is_first and has_warm):
        took["trial_s"] = seconds
    return {name: value for name, value in took.items() if math.isfinite(value) and value > 0}
