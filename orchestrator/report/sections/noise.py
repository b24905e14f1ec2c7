"""What else went on while trials were timed: other processes, the host, clocks that were held back.

A disturbance is never judged by the step time itself, and hits implementations unequally.
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
    ("others_cpu_pct", "others took {} % of the CPUs"),
    ("steal_pct", "the machine's host took {} %"),
    ("throttled_pct", "the device's clocks were held back {} % of the time"),
    ("clock_drop_pct", "they lay {} % below what they may be"),
)


def noise_notes(summary: ReportSummary) -> list[str]:
    """Sentences of shares, of disturbed trials, of neighbours; none where none was measured."""
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    told = []
    for metric, sentence in _SHARES:
        found = spread([trial.metrics[metric] for trial in complete if metric in trial.metrics])
        if found:
            told.append(sentence.format(quartiles(found)))
    notes = [f"During the timed epochs {', '.join(told)}: median (quartiles)."] if told else []
    notes += _disturbed(complete)
    known = [text for trial in complete if (text := neighbours_text(trial.telemetry))]
    if beside := [said for said in known if said != "none"]:
        notes.append(
            f"Beside {len(beside)} of {count(len(known), 'trial')} others were at work, the first "
            f"time: {beside[0]}."
        )
    return notes


def _disturbed(complete: Sequence[FinishedTrial]) -> list[str]:
    """How many trials and rounds were disturbed, by what, and the first one of each cause."""
    found = [trial for trial in complete if trial.disturbance]
    if not found:
        return []
    rounds = {(trial.block, trial.repeat) for trial in complete}
    hit = {(trial.block, trial.repeat) for trial in found}
    by_cause = Counter(cause for trial in found for cause in trial.disturbance)
    told = joined([f"{cause_name(cause)} ({number})" for cause, number in by_cause.most_common()])
    first = found[0]
    return [
        f"{len(found)} of {count(len(complete), 'trial')} were disturbed, in {len(hit)} of"
        f" {count(len(rounds), 'round')}, by {told}. The first, {first.run_id}:"
        f" {disturbance_text(first.disturbance)}."
    ]
