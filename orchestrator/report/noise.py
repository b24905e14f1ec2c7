"""What else went on while trials were timed: other processes, the host, clocks that were held back.

A disturbance is never judged by the step time itself, and hits implementations unequally.
"""

from __future__ import annotations

from orchestrator.report.numbers import count, quartiles
from orchestrator.report.statistics import spread
from orchestrator.report.summary import ReportSummary

_SHARES = (
    ("others_cpu_pct", "others took {} % of the CPUs"),
    ("steal_pct", "the machine's host took {} %"),
    ("throttled_pct", "the GPU's clocks were held back {} % of the time"),
)


def noise_notes(summary: ReportSummary) -> list[str]:
    """A sentence of shares, and one of neighbours; nothing where nothing was measured."""
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    told = []
    for metric, sentence in _SHARES:
        found = spread([trial.metrics[metric] for trial in complete if metric in trial.metrics])
        if found:
            told.append(sentence.format(quartiles(found)))
    notes = [f"During the timed epochs {', '.join(told)}: median (quartiles)."] if told else []
    known = [trial.notes["neighbours"] for trial in complete if "neighbours" in trial.notes]
    if beside := [said for said in known if said != "none"]:
        notes.append(
            f"Beside {len(beside)} of {count(len(known), 'trial')} others were at work, the first "
            f"time: {beside[0]}."
        )
    return notes
