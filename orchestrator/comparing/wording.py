"""Changes as a document for people, and as one JSON object for programs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.comparing.changes import ArmChange, Changes
from orchestrator.comparing.sides import Side
from orchestrator.report.document import Document, Section, Table
from orchestrator.report.numbers import ABSENT, count, difference, joined, ratio
from orchestrator.report.wording import ArmNames
from orchestrator.trial import Arm

FORMAT = "rnnsweep-compare"
VERSION = 1

_COLOURS = {"better": "faster", "worse": "slower"}
_SUBJECTS = {
    "settings": "setting",
    "data": "data",
    "hardware": "hardware",
    "environment": "version",
    "surroundings": "machine",
}


def to_document(changes: Changes) -> Document:
    """What differs, what changed beyond noise, and the figures behind it."""
    sections = (_told(changes), _differences(changes), _arms(changes), _apart(changes))
    title = (
        f"{changes.before.label} → {changes.after.label}: {changes.before.workload}"
        f"{_names(changes).where}"
    )
    return Document(title, tuple(section for section in sections if section))


def as_json(changes: Changes, failed: Iterable[ArmChange]) -> dict[str, Any]:
    """The changes with every pair of configs; numbers are finite or null."""
    names = {str(arm.after) for arm in failed}
    return {
        "format": FORMAT,
        "version": VERSION,
        "before": _side(changes.before),
        "after": _side(changes.after),
        "margin": changes.margin,
        "differences": _plain(changes.differences),
        "accuracy_not_compared": changes.why_no_accuracy or None,
        "moved_together": changes.moved_together,
        "untold": changes.untold,
        "arms": [
            {
                **_plain(arm),
                "other_hardware": arm.is_on_other_hardware,
                "fails": str(arm.after) in names,
            }
            for arm in changes.arms
        ],
        "only_before": _plain(changes.only_before),
        "only_after": _plain(changes.only_after),
    }


def _told(changes: Changes) -> Section:
    arms, name = changes.arms, _names(changes)
    bullets: list[tuple[str, str]] = [
        (arm.verdict, _sentence(arm, _name(arm, name), changes.margin)) for arm in arms
    ]
    bullets += [
        (_COLOURS[arm.accuracy.verdict], _accuracy_sentence(arm, _name(arm, name)))
        for arm in arms
        if arm.accuracy and arm.accuracy.verdict in ("better", "worse")
    ]
    if not arms:
        bullets.append(("cannot tell", "no arm is on both sides: nothing can be compared"))
    notes = [
        f"{side.label} is {side.state}: it may not have all of its trials."
        for side in (changes.before, changes.after)
        if side.state != "complete"
    ]
    if changes.moved_together:
        notes.append(
            "Every arm changed by the same factor: that is the machine more likely than the code."
        )
    notes += _notes(changes)
    return Section("What changed", tuple(bullets), (), tuple(notes))


def _notes(changes: Changes) -> list[str]:
    notes = [
        "Two sweeps ran at two times, and whatever else changed between them is in their ratios. "
        f"A change within {_percent(changes.margin)} of the time per step is called the same."
    ]
    if any(arm.is_on_other_hardware for arm in changes.arms):
        notes.append("Arms on hardware of another name are compared, and never fail a comparison.")
    if any(not arm.quiet_only for arm in changes.arms):
        notes.append("Some trials were disturbed, and too few were quiet to leave them out.")
    if changes.why_no_accuracy:
        notes.append(f"Accuracies are not compared: the {changes.why_no_accuracy} differ.")
    return notes


def _sentence(arm: ArmChange, name: str, margin: float) -> str:
    figures = ratio(arm.corrected or arm.speedup)
    over = count(len(arm.pairs), "config")
    if arm.verdict == "same":
        return f"{name} is as fast as before, within {_percent(margin)}: {figures}, over {over}"
    if arm.verdict != "cannot tell":
        return f"{name} became {arm.verdict}: {figures} as fast as before, over {over}"
    shown = f": {figures} as fast" if arm.speedup else ""
    return f"cannot tell whether {name} became faster or slower{shown} ({arm.reason})"


def _accuracy_sentence(arm: ArmChange, name: str) -> str:
    assert arm.accuracy is not None
    figures = difference(arm.accuracy.corrected or arm.accuracy.difference)
    return f"{name} became {arm.accuracy.verdict}: val_accuracy {figures}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _names(changes: Changes) -> ArmNames:
    """Arms without their hardware, where all of both sides stand on one."""
    every = {arm.hardware for side in (changes.before, changes.after) for arm in side.arms}
    return ArmNames(every.pop() if len(every) == 1 else None)


def _name(arm: ArmChange, name: ArmNames) -> str:
    other = f", before on {arm.before.hardware}" if arm.is_on_other_hardware else ""
    return f"{name(arm.after)}{other}"


def _differences(changes: Changes) -> Section:
    if not changes.differences:
        text = "Settings, data, hardware and recorded versions are the same on both sides."
        return Section("What differs besides", paragraphs=(text,))
    rows = tuple(
        (f"{_SUBJECTS[each.subject]}: {each.name}", each.before, each.after)
        for each in changes.differences
    )
    return Section("What differs besides", tables=(Table(("what", "before", "after"), rows),))


def _arms(changes: Changes) -> Section | None:
    if not changes.arms:
        return None
    headers = ("arm", "configs", "speed-up", "verdict", "Δ val_accuracy", "accuracy", "memory")
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
            ratio(arm.memory),
        )
        for arm in changes.arms
    )
    table = Table(headers, rows, frozenset({1, 2, 4, 6}), divisible=True)
    notes = (
        "Speed-up: time per step before over after, above 1 is faster now; memory: after over "
        "before, of fresh trainers. Intervals of speed and accuracy allow for all arms together.",
    )
    return Section("Each arm against itself", tables=(table,), paragraphs=notes)


def _apart(changes: Changes) -> Section | None:
    told = [
        f"Only {side.label} has {joined(tuple(map(str, arms)))}."
        for side, arms in (
            (changes.before, changes.only_before),
            (changes.after, changes.only_after),
        )
        if arms
    ]
    return Section("Not compared", paragraphs=tuple(told)) if told else None


def _side(side: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "workload": side.workload,
        "state": side.state,
        "trials": len(side.trials),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Arm):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
