"""The result of a parity check as text and as one versioned object."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from orchestrator.analysis.statistics.formatting import count, joined
from orchestrator.diagnostics.parity.findings import Findings, ParityPair, worst
from orchestrator.diagnostics.parity.request import Impossible, Participant
from orchestrator.report.document import Document, Section, Table
from orchestrator.report.formats.text import to_text
from workloads.eligibility import Cell
from workloads.settings.tasks import ImageRowsSettings

FORMAT, VERSION = "rnnsweep-parity", 1
_MARKS = {True: "✓", False: "✗"}
_MOST_LISTED = 5
"""The most failing pairs that are listed as sentences; the tables have them all."""


def as_text(findings: Findings, width: int = 100) -> str:
    """Return conclusions, a table for each cell, and the implementations that cannot run."""
    if findings.kept_in is not None:
        return _kept_as_text(findings, findings.kept_in, width)
    sections = [
        Section("", bullets=tuple(_conclusions(findings))),
        *(_table(findings, cell) for cell in findings.cells()),
        Section("", paragraphs=tuple(_notes(findings))),
    ]
    return to_text(Document(_title(findings), tuple(sections)), width)


def as_json(findings: Findings) -> dict[str, Any]:
    """Return the findings as one versioned object."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "passed": findings.is_good,
        "machine": findings.machine,
        "saved_on": findings.saved_on,
        "kept_in": None if findings.kept_in is None else str(findings.kept_in),
        "workload": "image_rows",
        "data": findings.data,
        "settings": dict(findings.settings),
        "saved": [_participant(participant) for participant in findings.saved],
        "pairs": [_pair(pair) for pair in findings.pairs],
        "failed": [
            {**_participant(one.participant), "reason": one.reason} for one in findings.failed
        ],
        "impossible": [
            {
                "implementation": str(failed.implementation),
                "cell": failed.cell,
                "reason": failed.reason,
            }
            for failed in findings.impossible
        ],
    }


def _kept_as_text(findings: Findings, folder: Path, width: int) -> str:
    """Return a list of the saved weights and the command that compares them."""
    cells = {cell: [s for s in findings.saved if s.cell == cell] for cell in _cells(findings.saved)}
    bullets = [
        *(
            ("", f"{cell}: {joined([participant.label for participant in participants])}")
            for cell, participants in cells.items()
        ),
        *_outsiders(findings),
    ]
    title = f"Weights saved in {folder} on {findings.machine}"
    text = to_text(Document(title, (Section("", tuple(bullets)),)), width)
    command = shlex.join(["rnnsweep", "parity", "--load", str(folder)])  # whole, to be copied
    return f"{text}\nTo compare, here or on another machine that has the folder:\n  {command}\n"


def _participant(participant: Participant) -> dict[str, str]:
    return {**_implementation_on_device(participant), "cell": participant.cell}


def _implementation_on_device(participant: Participant) -> dict[str, str]:
    return {"implementation": str(participant.implementation), "device": participant.device}


def _pair(pair: ParityPair) -> dict[str, Any]:
    return {
        "cell": pair.saved.cell,
        "saved_by": _implementation_on_device(pair.saved),
        "loaded_by": _implementation_on_device(pair.loaded),
        "difference": pair.difference,
        "tolerance": pair.tolerance,
        "exact": pair.exact,
        "within": pair.within,
    }


def _title(findings: Findings) -> str:
    defaults = ImageRowsSettings().model_dump()
    settings = ", ".join(
        f"{name} {str(value).lower() if isinstance(value, bool) else value}"
        for name, value in findings.settings.items()
        if name != "cell" and value != defaults.get(name)
    )
    return f"Portability of weights: image_rows on {findings.data} ({settings})"


def _conclusions(findings: Findings) -> Iterator[tuple[str, str]]:
    across = [pair for pair in findings.pairs if findings.is_across(pair)]
    bad = [pair for pair in worst(findings.pairs) if not pair.within]
    if not across:
        all_failed = findings.failed and not findings.pairs
        reason = "all failed" if all_failed else "each cell has only one implementation"
        yield "slower", f"nothing was compared: {reason}"
    elif bad:
        yield "slower", f"{count(len(bad), 'pair')} of {len(findings.pairs)} ✗:"
        yield from (("slower", _sentence(pair)) for pair in bad[:_MOST_LISTED])
        if len(bad) > _MOST_LISTED:
            yield "slower", f"and {len(bad) - _MOST_LISTED} more, marked ✗ below"
    else:
        first = next(worst(tuple(across)))
        yield (
            "faster",
            f"all {count(len(findings.pairs), 'pair')} ✓; the largest: {_sentence(first)}",
        )
    yield from _outsiders(findings)


def _sentence(pair: ParityPair) -> str:
    differ = "not finite" if pair.difference is None else f"differ by {_figure(pair.difference)}"
    pair_text = f"{pair.saved.cell}, saved by {pair.saved.label}, loaded by {pair.loaded.label}"
    text = f"{pair_text}: outputs {differ} (tolerance {_figure(pair.tolerance)})"
    return text if pair.exact else f"{text}, and the weights do not read back as they were saved"


def _outsiders(findings: Findings) -> Iterator[tuple[str, str]]:
    for failed in findings.failed:
        yield (
            "slower",
            f"failed ✗ {failed.participant.label}, {failed.participant.cell}: {failed.reason}",
        )
    by_reason: dict[str, list[Impossible]] = {}
    for arm in findings.impossible:
        by_reason.setdefault(arm.reason, []).append(arm)
    everywhere = _cells([*findings.saved, *(failed.participant for failed in findings.failed)])
    for reason, impossible in by_reason.items():
        names = joined(list(dict.fromkeys(str(arm.implementation) for arm in impossible)))
        cells = list(dict.fromkeys(arm.cell for arm in impossible))
        where = "" if set(everywhere) <= set(cells) else f" ({joined(cells)})"
        yield "inconclusive", f"cannot run here: {names}{where}: {reason}"


def _table(findings: Findings, cell: Cell) -> Section:
    """Return a table: rows saved, columns loaded. Participants are numbered to save width."""
    pairs = {(pair.saved.label, pair.loaded.label): pair for pair in findings.of(cell)}
    rows = list(dict.fromkeys(saved for saved, _ in pairs))
    columns = list(dict.fromkeys(loaded for _, loaded in pairs))
    numbers = {label: number for number, label in enumerate(dict.fromkeys((*columns, *rows)), 1)}
    headers = ("saved by (row), loaded by (column)", *(f"[{numbers[label]}]" for label in columns))
    body = tuple(
        (f"[{numbers[label]}] {label}", *(_cell(pairs.get((label, by))) for by in columns))
        for label in rows
    )
    legend = [f"[{numbers[label]}] {label}" for label in columns if label not in rows]
    numeric = frozenset(range(1, len(headers)))
    table = Table(headers, body, numeric, divisible=True)
    return Section(cell, tables=(table,), paragraphs=tuple(legend))


def _cell(pair: ParityPair | None) -> str:
    if pair is None:
        return "–"
    return f"{_figure(pair.difference)}{'' if pair.exact else ' ≠'} {_MARKS[pair.within]}"


def _figure(value: float | None) -> str:
    if value is None:
        return "nan"
    return f"{value:.1e}" if value else "0"


def _notes(findings: Findings) -> Iterator[str]:
    yield (
        "A figure is the largest difference between the outputs of the two implementations on the "
        "same validation images, as a share of the largest output. Weights are also read back "
        "after loading. ≠ marks those that differ from the saved ones in any bit."
    )
    where = f"Machine: {findings.machine}."
    if findings.saved_on is not None:
        where += f" Weights and outputs were saved on {findings.saved_on}."
    yield where


def _cells(participants: Sequence[Participant]) -> tuple[Cell, ...]:
    return tuple(dict.fromkeys(participant.cell for participant in participants))
