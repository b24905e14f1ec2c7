"""The measurements of trials that a model learns from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config, FinishedTrial, Outcome, canonical

TARGETS = ("trial_s", "step_ms", "peak_rss_mib", "peak_gpu_mib", "energy_j")
"""The costs that can be predicted. `trial_s` is a trial's whole time, from its set-up to its last
prediction; energy is that of the timed epochs."""

MEMORY = ("peak_rss_mib", "peak_gpu_mib")
"""The costs that only a trainer's first trial has: later ones include earlier memory."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One complete trial: its params (settings and config), its arm, and its costs."""

    params: Config
    arm: Arm
    took: Mapping[str, float]

    @property
    def group(self) -> str:
        """The params as text: trials with the same params, on any arm, are held out together."""
        return canonical(self.params)


def observe(
    finished: Iterable[FinishedTrial], settings: Mapping[str, Any] | None = None
) -> list[Observation]:
    """Return the complete trials of one sweep, with its settings that are numbers or words.

    A trainer's first trial includes its start-up: if an arm has others, its time is left out.
    Memory is from first trials alone. Interleaved trials share the time of their round.
    """
    trials = [one for one in finished if one.outcome.status == "complete"]
    fixed = {k: v for k, v in (settings or {}).items() if isinstance(v, bool | int | float | str)}
    warm = {one.trial.arm for one in trials if one.outcome.trainer_trials}
    return [
        Observation(
            {**fixed, **one.trial.config, **one.trial.arm.usage.settings},
            one.trial.arm,
            _took(one, seconds, one.trial.arm in warm),
        )
        for one, seconds in zip(trials, trial_seconds(trials), strict=True)
    ]


def trial_seconds(finished: Sequence[FinishedTrial]) -> list[float]:
    """Return the seconds that each trial kept its slot; interleaved ones share their round's."""
    by_slot: dict[object, list[Outcome]] = defaultdict(list)
    for one in finished:
        by_slot[_slot(one)].append(one.outcome)
    return [_span_s(by_slot[_slot(one)]) / len(by_slot[_slot(one)]) for one in finished]


def _slot(finished: FinishedTrial) -> object:
    """Return a key that the interleaved trials of a round share; else the trial's own."""
    trial = finished.trial
    if trial.arm.measure != "timing":
        return trial.key
    return trial.block, trial.repeat, finished.outcome.node, finished.round_id


def _span_s(outcomes: Sequence[Outcome]) -> float:
    """Return the seconds from the first start to the last end: while one prepares, others wait."""
    return max(one.ended_s for one in outcomes) - min(one.started_s for one in outcomes)


def _took(finished: FinishedTrial, seconds: float, has_warm: bool) -> dict[str, float]:
    outcome, is_first = finished.outcome, finished.outcome.trainer_trials == 0
    took: dict[str, float] = {
        target: outcome.metrics[target]
        for target in TARGETS
        if target in outcome.metrics and (is_first or target not in MEMORY)
    }
    if not (is_first and has_warm):
        took["trial_s"] = seconds
    return {name: value for name, value in took.items() if math.isfinite(value) and value > 0}
