"""Changes between two sweeps as a document, and as one JSON object."""

from collections.abc import Collection
from functools import partial
from typing import Any

from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import difference, ratio
from orchestrator.core.formats import Format
from orchestrator.report.compare.changes import NEEDS, ArmChange, Changes
from orchestrator.report.compare.wording import change_bullets, change_notes
from orchestrator.report.document import Column, Document, Section, Table, make_table
from orchestrator.report.formats.json_format import to_plain_data
from orchestrator.report.verdicts import RESULT_WORDS, speed_ratio, verdict_label
from orchestrator.report.wording import ArmNames, deciding_interval, gain, result_name

CHANGES = Format("a comparison", 6, id="rnnsweep-compare")


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
            paragraphs=tuple(change_notes(changes, name)),
        ),
        Section("Other differences", tables=table, paragraphs=() if rows else (same,)),
        *([_figures(changes, name)] if changes.arms else []),
    ]
    title = f"{changes.before} → {changes.after}: {changes.workload}{name.where}"
    return Document(title, tuple(sections))


def _figures(changes: Changes, name: ArmNames) -> Section:
    columns: list[Column[ArmChange]] = [
        Column("arm", lambda arm: name(arm.after)),
        Column(f"{changes.arms[0].comparison.unit}s", lambda arm: arm.configs),
        Column(
            "speed-up", lambda a: deciding_interval(a.comparison), show=speed_ratio, numeric=True
        ),
        Column("verdict", _verdict_on_time),
        *(
            column
            for metric in dict.fromkeys(r.metric for a in changes.arms for r in a.results)
            for column in _result_columns(metric)
        ),
        *(Column(NEEDS[m], partial(_need, m), show=ratio, optional=True) for m in NEEDS),
    ]
    note = (
        "Speed-up: time per step before divided by after; above 1 is faster now. Memory (of fresh "
        "trainers) and time to compile (of warm ones): after divided by before. Intervals hold "
        "for all arms together."
    )
    table = make_table(columns, changes.arms)
    return Section("Arms before and after", tables=(table,), paragraphs=(note,))


def _verdict_on_time(arm: ArmChange) -> str | None:
    return None if arm.is_of_results_alone else verdict_label(arm.comparison)


def _result_columns(metric: str) -> tuple[Column[ArmChange], ...]:
    """Return the columns of one result: its difference, and the verdict."""

    def gained(arm: ArmChange) -> Estimate | None:
        return gain(arm.comparison, metric)

    def verdict(arm: ArmChange) -> str | None:
        return next((RESULT_WORDS[r.verdict] for r in arm.results if r.metric == metric), None)

    return (
        Column(f"Δ {metric}", gained, show=difference, numeric=True),
        Column(result_name(metric), verdict),
    )


def _need(metric: str, arm: ArmChange) -> Estimate | None:
    return deciding_interval(arm.needs[metric]) if metric in arm.needs else None


def changes_json(changes: Changes, failed: Collection[ArmChange]) -> dict[str, Any]:
    """Return the changes with every pair of configs; numbers are finite or null.

    Within a version, properties may be added.
    """
    return {
        **CHANGES.head(),
        **to_plain_data(changes),
        "moved_together": changes.moved_together,
        "inconclusive": changes.all_inconclusive,
        "unjudged": [{"arm": str(arm), "reason": reason} for arm, reason in changes.unjudged],
        "failing": [str(arm.after) for arm in failed],
    }
