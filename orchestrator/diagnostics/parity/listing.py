"""The result of a parity check as a document and as one versioned object."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from orchestrator.analysis.statistics.formatting import joined
from orchestrator.core.text import counted
from orchestrator.diagnostics.parity.parity_check import ParityCheck, machine
from orchestrator.diagnostics.parity.participants import Excluded, ParityPair, Participant
from orchestrator.report.document import Column, Document, Section, Table, make_table
from workloads.settings import ImageRowsSettings

FORMAT, VERSION = "rnnsweep-parity", 1
_MOST_LISTED = 5
"""The most failing pairs that are listed as sentences; the tables have them all."""
_LEGEND = (
    "A figure is the largest difference between the outputs of the two implementations on the "
    "same validation images, as a share of the largest output. Weights are also read back "
    "after loading. ≠ marks those that differ from the saved ones in any bit."
)


def to_document(check: ParityCheck) -> Document:
    """Return conclusions, a table for each cell, and the implementations that cannot run."""
    if check.kept_in is not None:
        title = f"Weights saved in {check.kept_in} on {machine()}"
        return Document(title, (Section("", (*_saved(check), *_excluded(check))),))
    defaults = ImageRowsSettings().model_dump()
    settings = ", ".join(
        f"{name} {str(value).lower() if isinstance(value, bool) else value}"
        for name, value in check.settings.items()
        if name != "cell" and value != defaults.get(name)
    )
    where = f"Machine: {machine()}."
    if check.loaded:
        where += f" Weights and outputs were saved on {check.loaded.machine}."
    cells = dict.fromkeys(pair.saved.cell for pair in check.pairs)
    return Document(
        f"Portability of weights: image_rows on {check.data} ({settings})",
        (
            Section("", bullets=(*_conclusions(check), *_excluded(check))),
            *(Section(cell, tables=(_table(check, cell),)) for cell in cells),
            Section("", paragraphs=(_LEGEND, where)),
        ),
    )


def as_json(check: ParityCheck) -> dict[str, Any]:
    """Return the results as one versioned object."""
    place = {"implementation", "device"}
    return {
        "format": FORMAT,
        "version": VERSION,
        "passed": check.is_good,
        "machine": machine(),
        "saved_on": check.loaded and check.loaded.machine,
        "kept_in": check.kept_in and str(check.kept_in),
        "workload": "image_rows",
        "data": check.data,
        "settings": dict(check.settings),
        "saved": [participant.model_dump() for participant in check.saved],
        "pairs": [
            {
                "cell": pair.saved.cell,
                "saved_by": pair.saved.model_dump(include=place),
                "loaded_by": pair.loaded.model_dump(include=place),
                "difference": pair.difference,
                "tolerance": pair.tolerance,
                "exact": pair.exact,
                "within": pair.is_within,
            }
            for pair in check.pairs
        ],
        "failed": [{**_place(one), "device": one.failed_on} for one in check.failed],
        "impossible": [_place(one) for one in check.excluded if one.failed_on is None],
    }


def _place(excluded: Excluded) -> dict[str, Any]:
    name = str(excluded.implementation)
    return {"implementation": name, "cell": excluded.cell, "reason": excluded.reason}


def _saved(check: ParityCheck) -> Iterator[tuple[str, str]]:
    for cell in dict.fromkeys(saved.cell for saved in check.saved):
        labels = [saved.label for saved in check.saved if saved.cell == cell]
        yield "", f"{cell}: {joined(labels)}"


def _conclusions(check: ParityCheck) -> Iterator[tuple[str, str]]:
    bad = sorted(
        (pair for pair in check.pairs if not pair.is_within), key=attrgetter("excess"), reverse=True
    )
    if not check.across:
        all_failed = check.failed and not check.pairs
        reason = "all failed" if all_failed else "each cell has only one implementation"
        yield "slower", f"nothing was compared: {reason}"
    elif bad:
        yield "slower", f"{counted(len(bad), 'pair')} of {len(check.pairs)} ✗:"
        yield from (("slower", _sentence(pair)) for pair in bad[:_MOST_LISTED])
        if len(bad) > _MOST_LISTED:
            yield "slower", f"and {len(bad) - _MOST_LISTED} more, marked ✗ below"
    else:
        largest = _sentence(max(check.across, key=attrgetter("excess")))
        yield "faster", f"all {counted(len(check.pairs), 'pair')} ✓; the largest: {largest}"


def _sentence(pair: ParityPair) -> str:
    differ = "not finite" if pair.difference is None else f"differ by {_figure(pair.difference)}"
    pair_text = f"{pair.saved.cell}, saved by {pair.saved.label}, loaded by {pair.loaded.label}"
    text = f"{pair_text}: outputs {differ} (tolerance {_figure(pair.tolerance)})"
    return text if pair.exact else f"{text}, and the weights do not read back as they were saved"


def _excluded(check: ParityCheck) -> Iterator[tuple[str, str]]:
    by_reason: dict[str, list[Excluded]] = {}
    for one in check.excluded:
        if one.failed_on is None:
            by_reason.setdefault(one.reason, []).append(one)
        else:
            label = f"{one.implementation} on {one.failed_on}, {one.cell}"
            yield "slower", f"failed ✗ {label}: {one.reason}"
    checked = {one.cell for one in check.saved} | {one.cell for one in check.failed}
    for reason, impossible in by_reason.items():
        names = joined(list(dict.fromkeys(str(one.implementation) for one in impossible)))
        cells = list(dict.fromkeys(one.cell for one in impossible))
        where = "" if checked <= set(cells) else f" ({joined(cells)})"
        yield "inconclusive", f"cannot run here: {names}{where}: {reason}"


def _table(check: ParityCheck, cell: str) -> Table:
    """Return a table: rows saved, columns loaded. Participants are numbered to save width."""
    pairs = {(pair.saved, pair.loaded): pair for pair in check.pairs if pair.saved.cell == cell}
    rows = list(dict.fromkeys(saved for saved, _ in pairs))
    loaded = list(dict.fromkeys(by for _, by in pairs))
    numbers = {one: f"[{i}]" for i, one in enumerate(dict.fromkeys([*loaded, *rows]), 1)}

    def column(by: Participant) -> Column[Participant]:
        title = numbers[by] if by in rows else f"{numbers[by]} {by.label}"
        return Column(title, lambda saved: pairs.get((saved, by)), show=_cell, numeric=True)

    def name(saved: Participant) -> str:
        return f"{numbers[saved]} {saved.label}"

    first = Column("saved by (row), loaded by (column)", name)
    return make_table([first, *map(column, loaded)], rows, divisible=True)


def _cell(pair: ParityPair) -> str:
    mark = "✓" if pair.is_within else "✗"
    return f"{_figure(pair.difference)}{'' if pair.exact else ' ≠'} {mark}"


def _figure(value: float | None) -> str:
    if value is None:
        return "nan"
    return f"{value:.1e}" if value else "0"
