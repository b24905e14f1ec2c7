"""The notes on disturbances of timed trials: other processes, the host, throttled clocks.

A disturbance is never detected from the step time itself. It affects implementations unequally.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from orchestrator.analysis.statistics.estimates import spread
from orchestrator.analysis.statistics.formatting import count, joined, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.outcome_text import cause_name, disturbance_text, neighbours_text
from orchestrator.core.trial import FinishedTrial

_SHARES = (
    ("others_cpu_pct", "other processes took {} % of the CPUs"),
    ("steal_pct", "the machine's host took {} %"),
    ("throttled_pct", "the device's clocks were throttled {} % of the time"),
    ("clock_drop_pct", "the clocks were {} % below their maximum"),
)


def noise_notes(summary: ReportSummary) -> list[str]:
    """Write sentences on shares, disturbed trials and neighbours, for those that were measured."""
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    shares = []
    for metric, sentence in _SHARES:
        values = spread([trial.metrics[metric] for trial in complete if metric in trial.metrics])
        if values:
            shares.append(sentence.format(quartiles(values)))
    notes = [f"During the timed epochs {', '.join(shares)}: median (quartiles)."] if shares else []
    notes += _disturbed(complete)
    recorded = [text for trial in complete if (text := neighbours_text(trial.telemetry))]
    if neighbours := [work for work in recorded if work != "none"]:
        notes.append(
            f"Other work ran during {len(neighbours)} of {count(len(recorded), 'trial')}, first: "
            f"{neighbours[0]}."
        )
    return notes


def _disturbed(complete: Sequence[FinishedTrial]) -> list[str]:
    """Count the disturbed trials and rounds by cause, with the first trial."""
    disturbed = [trial for trial in complete if trial.disturbance]
    if not disturbed:
        return []
    rounds = {(trial.block, trial.repeat) for trial in complete}
    disturbed_rounds = {(trial.block, trial.repeat) for trial in disturbed}
    by_cause = Counter(cause for trial in disturbed for cause in trial.disturbance)
    by = joined([f"{cause_name(cause)} ({number})" for cause, number in by_cause.most_common()])
    first = disturbed[0]
    return [
        f"{len(disturbed)} of {count(len(complete), 'trial')} were disturbed, in "
        f"{len(disturbed_rounds)} of {count(len(rounds), 'round')}, by {by}. First: run "
        f"{first.run_id}, {disturbance_text(first.disturbance)}."
    ]
