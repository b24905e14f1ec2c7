"""Changes between two sweeps as a document, and as one JSON object."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from orchestrator.analysis.contrasts.contrast import (
    Contrast,
    Qualifier,
    Scale,
    Verdict,
)
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS
from orchestrator.analysis.statistics.formatting import difference, natural, ratio, share
from orchestrator.core.caller import as_typed
from orchestrator.core.formats import Format
from orchestrator.core.text import counted, joined
from orchestrator.report.compare.changes import NEEDS, Changes
from orchestrator.report.document import Column, Document, Fact, Section, Table, Tone, make_table
from orchestrator.report.formats.json_format import to_plain_data
from orchestrator.report.names import ArmNames, grouped
from orchestrator.report.words import (
    QUALIFIERS,
    WORDS,
    busy_text,
    effect_text,
    verdict_label,
    verdict_word,
)

CHANGES = Format("a comparison", 7, id="rnnsweep-compare")

_MOST_NAMED = 2
"""The most arms that a fact names; more of them are counted."""

_TONES = {Verdict.BETTER: Tone.GOOD, Verdict.WORSE: Tone.BAD, Verdict.OPEN: Tone.DOUBT}


def changes_document(changes: Changes) -> Document:
    """Make the document: the changes of all arms, what limits them, and what else differs."""
    every = [arm for change in changes.arms for arm in (change.before, change.after)]
    every += [*changes.only_before, *changes.only_after]
    hardware = {str(arm.hardware) for arm in every}
    name = ArmNames(hardware.pop() if len(hardware) == 1 else None)
    names = {str(change.after): name(change.after) for change in changes.arms}
    by_metric = grouped((contrast.metric, contrast) for contrast in changes.contrasts)
    changed = Section(
        "What changed",
        facts=tuple(fact for contrasts in by_metric.values() for fact in _facts(contrasts, names)),
        tables=(_table(changes.contrasts, names),) if changes.contrasts else (),
        doubts=tuple(_doubts(changes, name)),
        notes=_notes(changes) if changes.contrasts else (),
    )
    rows = tuple((f"{d.subject}: {d.name}", d.before, d.after) for d in changes.differences)
    same = "Search, settings, data, hardware and recorded versions are the same on both sides."
    differences = Section(
        "Other differences",
        tables=(Table(("what", "before", "after"), rows),) if rows else (),
        notes=() if rows else (same,),
    )
    title = f"{changes.before} → {changes.after}: {changes.workload}{name.where}"
    return Document(title, (changed, differences))


def _facts(contrasts: Sequence[Contrast], names: dict[str, str]) -> Iterator[Fact]:
    """Write the changes by one metric: each that has a direction, then the others together.

    Of memory and time to compile only what changed: few trials have a fresh trainer.
    """
    for contrast in contrasts:
        if contrast.verdict in (Verdict.BETTER, Verdict.WORSE):
            text = f"{names[contrast.subject]}: {contrast.metric} {_size_text(contrast)}"
            yield Fact(verdict_label(contrast), text, _TONES[contrast.verdict])
    for verdict in (Verdict.SAME, Verdict.OPEN):
        alike = [c for c in contrasts if c.verdict == verdict and c.metric not in NEEDS]
        if alike:
            arms = [names[contrast.subject] for contrast in alike]
            text = joined(arms) if len(arms) <= _MOST_NAMED else counted(len(arms), "arm")
            tone = _TONES.get(verdict, Tone.PLAIN)
            yield Fact(verdict_word(alike[0]), f"{text}: {alike[0].metric}", tone)


def _size_text(contrast: Contrast) -> str:
    """Return how large a change is, whose direction is known: `1.29 × (1.27–1.31)`."""
    if contrast.scale == Scale.DIFFERENCE:
        return difference(contrast.estimate)
    return ratio(natural(contrast.estimate))


def _table(contrasts: Sequence[Contrast], names: dict[str, str]) -> Table:
    columns: list[Column[Contrast]] = [
        Column("arm", lambda contrast: names[contrast.subject]),
        Column("metric", lambda contrast: contrast.metric, key=True),
        Column("change", effect_text, numeric=True),
        Column("over", lambda contrast: counted(contrast.blocks, contrast.unit)),
        Column("verdict", verdict_label),
    ]
    return make_table(columns, contrasts)


def _doubts(changes: Changes, name: ArmNames) -> Iterator[Fact]:
    """Write what limits the comparison."""
    if not changes.arms:
        yield _doubt(WORDS[Verdict.OPEN], "no arm is on both sides")
    elif not changes.contrasts:
        cure = "give both sweeps the same seed and space, or list the configs"
        yield _doubt(WORDS[Verdict.OPEN], f"no config is complete on both sides: {cure}")
    for label, state in changes.incomplete.items():
        yield _doubt("missing", f"{label} is {state}, so some of its trials may be missing")
    for label, arms in ((changes.before, changes.only_before), (changes.after, changes.only_after)):
        if arms:
            yield _doubt("missing", f"only {label} has {joined(map(str, arms))}")
    compared = {contrast.subject for contrast in changes.contrasts}
    for arm in changes.arms:
        if compared and str(arm.after) not in compared:
            yield _doubt("missing", f"{name(arm.after)}: no config is complete on both sides")
        if arm.lost:
            lost = counted(arm.lost, "config")
            yield _doubt("failed", f"{name(arm.after)}: {lost} that were complete before")
        if arm.diverged:
            yield _doubt("failed", f"{name(arm.after)}: diverged in {joined(arm.diverged)} only")
        if arm.other_mathematics:
            where = f"{name(arm.after)} in {joined(arm.other_mathematics)}"
            yield _doubt(QUALIFIERS[Qualifier.OTHER_MATHEMATICS], where)
        if arm.is_on_other_hardware:
            text = f"{name(arm.after)}: ran on {arm.before.hardware} before; never fails"
            yield _doubt("hardware", text)
    if any(c.qualifier == Qualifier.FEW and c.metric not in NEEDS for c in changes.contrasts):
        text = f"a verdict needs {MIN_BLOCKS} configs on both sides, or {MIN_BLOCKS} repeats of one"
        yield _doubt(QUALIFIERS[Qualifier.FEW], text)
    if any(contrast.qualifier == Qualifier.BUSY for contrast in changes.contrasts):
        option = as_typed("--busy-counts", "busy_counts=True")
        text = f"{busy_text(changes.disturbance)}; verdicts count only with {option}"
        yield _doubt(QUALIFIERS[Qualifier.BUSY], text)
    if changes.moved_together:
        text = "all arms changed by the same factor: probably the machine, not the code"
        yield _doubt("machine", text)
    if changes.unlike_inputs:
        text = f"the {changes.unlike_inputs} differ, so results are not compared"
        yield _doubt("unlike", text)


def _doubt(label: str, text: str) -> Fact:
    return Fact(label, text, Tone.DOUBT)


def _notes(changes: Changes) -> tuple[str, ...]:
    return (
        "Changes of time and memory are before divided by after: below 1 is slower or larger now. "
        f"Within {share(changes.margin)}, or a result's margin, they count as the same. Intervals "
        f"({share(CONFIDENCE)}) are corrected for all arms.",
        "The sweeps ran at different times, so changes of the machine are part of each ratio.",
    )


def changes_json(changes: Changes, failed: Collection[Contrast]) -> dict[str, Any]:
    """Return the changes with what can be derived from them; numbers are finite or null.

    Within a version, properties may be added.
    """
    return {
        **CHANGES.head(),
        **to_plain_data(changes),
        "moved_together": changes.moved_together,
        "all_open": changes.all_open,
        "unjudged": [{"arm": str(arm), "reason": reason} for arm, reason in changes.unjudged],
        "failing": [*dict.fromkeys(contrast.subject for contrast in failed)],
    }
