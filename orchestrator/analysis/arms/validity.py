"""The evidence behind a report: rounds that were disturbed or split, and versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.core.arms import HardwareRef
from orchestrator.core.records import SweepRecord


@dataclass(frozen=True, slots=True)
class Validity:
    """The evidence behind a report.

    Of `trials` that ended, `used` are in the matched rounds and `left_out` did not complete. Of the
    complete `rounds`, `disturbed_rounds` have a disturbed trial, and in `split_rounds` arms of one
    hardware class ran on different nodes. `versions` are those of the software.
    """

    trials: int = 0
    used: int = 0
    left_out: int = 0
    rounds: int = 0
    disturbed_rounds: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    split_rounds: int = 0


def validity_of(record: SweepRecord, matched: CompleteRounds) -> Validity:
    """Return the evidence behind a sweep's figures."""
    used = [trial for arm in matched.trials for trial in matched.all_trials(arm)]
    return Validity(
        trials=len(record.trials),
        used=len(used),
        left_out=sum(trial.status != "complete" for trial in record.trials),
        rounds=len(matched.rounds),
        disturbed_rounds=len({(t.block, t.repeat) for t in used if t.disturbance}),
        versions=record.environment,
        split_rounds=_split_rounds(matched),
    )


def _split_rounds(matched: CompleteRounds) -> int:
    """Count the rounds in which arms of one hardware class ran on different nodes."""
    nodes: dict[tuple[HardwareRef, Round], set[str]] = defaultdict(set)
    for arm, rounds in matched.trials.items():
        hardware = arm.hardware_class
        for place, trials in rounds.items():
            nodes[hardware, place].update(trial.node for trial in trials if trial.node)
    return len({place for (_, place), names in nodes.items() if len(names) > 1})
