"""Changes between two sweeps as a document."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.analysis.statistics.formatting import ABSENT, count, difference, joined, ratio
from orchestrator.report.compare.changes import ArmChange, Changes
from orchestrator.report.compare.costs import NEEDS, NeedChange
from orchestrator.report.document import Document, Row, Section, Table
from orchestrator.report.wording.sentences import ArmNames

_COLOURS = {"better": "faster", "worse": "slower", "less": "faster", "more": "slower"}
"""The kinds of verdicts other than those of speed, which decide the colour."""
_SUBJECTS = {
    "settings": "setting",
    "data": "data",
    "hardware": "hardware",
    "environment": "version",
    "surroundings": "machine",
}
_FIGURES = frozenset({2, 3})
_ARMS_NOTE = (
    "Speed-up: time per step before divided by after; above 1 is faster now. Ratio: after divided "
    "by before, for the memory of fresh trainers and the compile time of warm ones. Intervals are "
    "corrected for all arms together."
)


def to_document(changes: Changes) -> Document:
    """Make the document: changes beyond noise, differences, and the figures."""
    sections = (_verdicts(changes), _differences(changes), _arms(changes), _one_sided(changes))
    title = (
        f"{changes.before.label} → {changes.after.label}: {changes.before.workload}"
        f"{_names(changes).where}"
    )
    return Document(title, tuple(section for section in sections if section))


def _verdicts(changes: Changes) -> Section:
    arms, name = changes.arms, _names(changes)
    bullets: list[tuple[str, str]] = [
        (arm.verdict, _sentence(arm, _name(arm, name), changes)) for arm in arms
    ]
    bullets += [
        (_COLOURS[arm.accuracy.verdict], _accuracy_sentence(arm, _name(arm, name)))
        for arm in arms
        if arm.accuracy and arm.accuracy.verdict in ("better", "worse")
    ]
    bullets += [
        (
            "inconclusive",
            f"inconclusive: whether {_name(arm, name)} became less accurate "
            f"({arm.accuracy.reason})",
        )
        for arm in arms
        if arm.accuracy and arm.accuracy.has_one_sided_divergence
    ]
    bullets += [
        (_COLOURS[need.verdict], _need_sentence(need, _name(arm, name)))
        for arm in arms
        for need in arm.needs
        if need.verdict in ("more", "less")
    ]
    if not arms:
        bullets.append(("inconclusive", "no arm is on both sides: nothing can be compared"))
    notes = [
        f"{side.label} is {side.state}: some of its trials may be missing."
        for side in (changes.before, changes.after)
        if side.state != "complete"
    ]
    if changes.moved_together:
        notes.append(
            "All arms changed by the same factor: the cause is more likely the machine than the "
            "code."
        )
    notes += _notes(changes)
    return Section("What changed", tuple(bullets), (), tuple(notes))


def _notes(changes: Changes) -> list[str]:
    notes = [
        "The two sweeps ran at different times. Other changes in between affect the ratios, too. A "
        f"change of the time per step, or of the memory, within {_percent(changes.margin)} counts "
        "as the same."
    ]
    if any(arm.is_on_other_hardware for arm in changes.arms):
        notes.append("Arms whose hardware differs are compared, but never fail a comparison.")
    if any(not arm.quiet_only for arm in changes.arms):
        notes.append("Some trials were disturbed; they are included, because too few were quiet.")
    if changes.unlike_inputs:
        notes.append(f"Accuracies are not compared: the {changes.unlike_inputs} differ.")
    return notes


def _sentence(arm: ArmChange, name: str, changes: Changes) -> str:
    figures = ratio(arm.corrected or arm.speedup)
    over = f"{count(len(arm.pairs), 'config')}{_lost(arm)}"
    if arm.verdict == "same":
        within = f"within {_percent(changes.margin)}"
        return f"{name} is as fast as before, {within}: {figures}, over {over}"
    if arm.verdict != "inconclusive":
        sentence = f"{name} became {arm.verdict}: {figures} as fast as before, over {over}"
        return f"{sentence}{_canary(changes)}"
    shown = f": {figures} as fast" if arm.speedup else ""
    lost = _lost(arm) if arm.pairs else ""
    return f"inconclusive: whether {name} became faster or slower{shown} ({arm.reason}{lost})"


def _lost(arm: ArmChange) -> str:
    others = count(arm.lost, "other")
    return f"; at {others} it no longer completes a trial" if arm.lost else ""


def _canary(changes: Changes) -> str:
    """Write that the calibration probe moved as the only arm did, if so."""
    if not changes.moved_with_canary or changes.canary_speedup is None:
        return ""
    return (
        "; the calibration probe, work that never changes, changed by the same factor "
        f"({changes.canary_speedup:.3g} ×): the cause is more likely the machine than the code"
    )


def _accuracy_sentence(arm: ArmChange, name: str) -> str:
    assert arm.accuracy is not None
    figures = difference(arm.accuracy.corrected or arm.accuracy.difference)
    return f"{name} became {arm.accuracy.verdict}: val_accuracy {figures}"


def _need_sentence(need: NeedChange, name: str) -> str:
    figures, over = ratio(need.corrected or need.ratio), count(need.ratio.n, "config")
    what = NEEDS[need.metric]
    return f"{name} needs {need.verdict} {what}: {figures} as much as before, over {over}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _names(changes: Changes) -> ArmNames:
    """Return names of arms, without their hardware if both sides ran on one class."""
    every = {str(arm.hardware) for side in (changes.before, changes.after) for arm in side.arms}
    return ArmNames(every.pop() if len(every) == 1 else None)


def _name(arm: ArmChange, name: ArmNames) -> str:
    other = f", before on {arm.before.hardware}" if arm.is_on_other_hardware else ""
    return f"{name(arm.after)}{other}"


def _differences(changes: Changes) -> Section:
    if not changes.differences:
        text = "Settings, data, hardware and recorded versions are the same on both sides."
        return Section("Other differences", paragraphs=(text,))
    rows = tuple(
        (f"{_SUBJECTS[difference.subject]}: {difference.name}", difference.before, difference.after)
        for difference in changes.differences
    )
    return Section("Other differences", tables=(Table(("what", "before", "after"), rows),))


def _arms(changes: Changes) -> Section | None:
    if not changes.arms:
        return None
    headers = ("arm", "configs", "speed-up", "verdict", "Δ val_accuracy", "accuracy")
    name = _names(changes)
    rows = tuple(
        (
            name(arm.after),
            str(len(arm.pairs)),
            ratio(arm.corrected or arm.speedup),
            arm.verdict,
            difference(arm.accuracy.corrected or arm.accuracy.difference)
            if arm.accuracy
            else ABSENT,
            arm.accuracy.verdict if arm.accuracy else ABSENT,
        )
        for arm in changes.arms
    )
    table = Table(headers, rows, frozenset({1, 2, 4}), divisible=True)
    needs = Table(("arm", "need", "configs", "ratio", "needs"), tuple(_needs(changes)), _FIGURES)
    tables = (table, needs) if needs.rows else (table,)
    return Section("Arms before and after", tables=tables, paragraphs=(_ARMS_NOTE,))


def _needs(changes: Changes) -> Iterator[Row]:
    name = _names(changes)
    for arm in changes.arms:
        for need in arm.needs:
            shown = ratio(need.corrected or need.ratio)
            configs = str(need.ratio.n)
            yield name(arm.after), NEEDS[need.metric], configs, shown, need.verdict


def _one_sided(changes: Changes) -> Section | None:
    sentences = [
        f"Only {side.label} has {joined(tuple(map(str, arms)))}."
        for side, arms in (
            (changes.before, changes.only_before),
            (changes.after, changes.only_after),
        )
        if arms
    ]
    return Section("Not compared", paragraphs=tuple(sentences)) if sentences else None
