"""Changes between two sweeps as a document, and as one JSON object."""

from collections.abc import Collection
from functools import partial
from typing import Any

from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import difference, ratio
from orchestrator.report.compare.changes import NEEDS, ArmChange, Changes
from orchestrator.report.compare.wording import change_bullets, change_notes
from orchestrator.report.document import Column, Document, Section, Table, make_table
from orchestrator.report.formats.json_format import to_plain_data
from orchestrator.report.verdicts import ACCURACY_WORDS, speed_ratio, verdict_label
from orchestrator.report.wording import ArmNames, deciding_interval, gain

CHANGES_FORMAT = "rnnsweep-compare"
CHANGES_VERSION = 3


def changes_document(changes: Changes) -> Document:
    """Make the document: changes beyond noise, differences, and the figures."""
    arms = [arm for change in changes.arms for arm in (change.before, change.after)]
    every = {str(arm.hardware) for arm in (*arms, *changes.only_before, *changes.only_after)}
    name = ArmNames(every.pop() if len(every) == 1 else None)
    rows = tuple((f"{d.subject}: {d.name}", d.before, d.after) for d in changes.differences)
    table = (Table(("what", "before", "after"), rows),) if rows else ()
    same = "Settings, data, hardware and recorded versions are the same on both sides."
    sections = [
        Section(
            "What changed",
            tuple(change_bullets(changes, name)),
            paragraphs=tuple(change_notes(changes)),
        ),
        Section("Other differences", tables=table, paragraphs=() if rows else (same,)),
        *([_figures(changes, name)] if changes.arms else []),
    ]
    title = f"{changes.before} → {changes.after}: {changes.workload}{name.where}"
    return Document(title, tuple(sections))


def _figures(changes: Changes, name: ArmNames) -> Section:
    columns: list[Column[ArmChange]] = [
        Column("arm", lambda arm: name(arm.after)),
        Column("configs", lambda arm: len(arm.comparison.pairs)),
        Column(
            "speed-up", lambda a: deciding_interval(a.comparison), show=speed_ratio, numeric=True
        ),
        Column("verdict", lambda arm: verdict_label(arm.comparison)),
        Column("Δ val_accuracy", lambda a: gain(a.comparison), show=difference, numeric=True),
        Column("accuracy", _accuracy_word),
        *(Column(NEEDS[m], partial(_need, m), show=ratio, optional=True) for m in NEEDS),
    ]
    note = (
        "Speed-up: time per step before divided by after; above 1 is faster now. Memory (of fresh "
        "trainers) and time to compile (of warm ones): after divided by before. Intervals hold "
        "for all arms together."
    )
    table = make_table(columns, changes.arms, divisible=True)
    return Section("Arms before and after", tables=(table,), paragraphs=(note,))


def _accuracy_word(arm: ArmChange) -> str | None:
    accuracy = arm.comparison.accuracy
    return ACCURACY_WORDS[accuracy.verdict] if accuracy else None


def _need(metric: str, arm: ArmChange) -> Estimate | None:
    return deciding_interval(arm.needs[metric]) if metric in arm.needs else None


def changes_json(changes: Changes, failed: Collection[ArmChange]) -> dict[str, Any]:
    """Return the changes with every pair of configs; numbers are finite or null.

    Within a version, properties may be added.
    """
    return {
        "format": CHANGES_FORMAT,
        "version": CHANGES_VERSION,
        **to_plain_data(changes),
        "moved_together": changes.moved_together,
        "inconclusive": changes.all_inconclusive,
        "unjudged": [{"arm": str(arm), "reason": reason} for arm, reason in changes.unjudged],
        "failing": [str(arm.after) for arm in failed],
    }
