"""The result of a parity check as a document and as one versioned object."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from orchestrator.analysis.statistics.formatting import joined
from orchestrator.core.text import counted
from orchestrator.diagnostics.parity.parity_check import Excluded, ParityCheck, ParityPair, machine
from orchestrator.report.document import Bullet, Column, Document, Kind, Section, Table, make_table
from workloads.tasks.image_rows.settings import ImageRowsSettings

PARITY_FORMAT, PARITY_VERSION = "rnnsweep-parity", 1
_LEGEND = (
    "A difference is the largest one between the outputs of the two implementations on the same "
    "validation images, as a share of the largest output. Weights are also read back after "
    "loading. ≠ marks those that differ from the saved ones in any bit. Of pairs that agree, each "
    "loading implementation has its worst one; JSON has all."
)


def parity_document(check: ParityCheck) -> Document:
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
    return Document(
        f"Portability of weights: image_rows on {check.data} ({settings})",
        (
            Section("", bullets=(*_conclusions(check), *_excluded(check))),
            Section("Pairs", (), (_table(check),) if check.pairs else (), (_LEGEND, where)),
        ),
    )


def parity_json(check: ParityCheck) -> dict[str, Any]:
    """Return the results as one versioned object."""
    place = {"implementation", "device"}
    return {
        "format": PARITY_FORMAT,
        "version": PARITY_VERSION,
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
        "failed": [{**_place(excluded), "device": excluded.failed_on} for excluded in check.failed],
        "impossible": [
            _place(excluded) for excluded in check.excluded if excluded.failed_on is None
        ],
    }


def _place(excluded: Excluded) -> dict[str, Any]:
    name = str(excluded.implementation)
    return {"implementation": name, "cell": excluded.cell, "reason": excluded.reason}


def _saved(check: ParityCheck) -> Iterator[Bullet]:
    for cell in dict.fromkeys(saved.cell for saved in check.saved):
        labels = [saved.label for saved in check.saved if saved.cell == cell]
        yield Bullet(Kind.SAVED, f"{cell}: {joined(labels)}")


def _conclusions(check: ParityCheck) -> Iterator[Bullet]:
    bad = sum(not pair.is_within for pair in check.pairs)
    if not check.across:
        all_failed = check.failed and not check.pairs
        reason = "all failed" if all_failed else "each cell has only one implementation"
        yield Bullet(Kind.SLOWER, f"nothing was compared: {reason}")
    elif bad:
        yield Bullet(Kind.SLOWER, f"{counted(bad, 'pair')} of {len(check.pairs)} ✗")
    else:
        yield Bullet(Kind.FASTER, f"all {counted(len(check.pairs), 'pair')} ✓")


def _excluded(check: ParityCheck) -> Iterator[Bullet]:
    by_reason: dict[str, list[Excluded]] = {}
    for excluded in check.excluded:
        if excluded.failed_on is None:
            by_reason.setdefault(excluded.reason, []).append(excluded)
        else:
            label = f"{excluded.implementation} on {excluded.failed_on}, {excluded.cell}"
            yield Bullet(Kind.SLOWER, f"failed ✗ {label}: {excluded.reason}")
    checked = {excluded.cell for excluded in check.saved} | {
        excluded.cell for excluded in check.failed
    }
    for reason, impossible in by_reason.items():
        names = joined(list(dict.fromkeys(str(excluded.implementation) for excluded in impossible)))
        cells = list(dict.fromkeys(excluded.cell for excluded in impossible))
        where = "" if checked <= set(cells) else f" ({joined(cells)})"
        text = f"cannot run here: {names}{where}: {reason}"
        yield Bullet(Kind.INCONCLUSIVE, text)


def _table(check: ParityCheck) -> Table:
    """Return the pairs that fail, and the worst one of each implementation that loaded weights."""
    worst = {pair.loaded: pair for pair in sorted(check.pairs, key=attrgetter("excess"))}
    columns: list[Column[ParityPair]] = [
        Column("cell", lambda pair: pair.saved.cell),
        Column("saved by", lambda pair: pair.saved.label),
        Column("loaded by", lambda pair: pair.loaded.label),
        Column("difference", _difference, numeric=True),
        Column("tolerance", lambda pair: f"{pair.tolerance:.1e}", numeric=True),
        Column("", lambda pair: "✓" if pair.is_within else "✗"),
    ]
    shown = (pair for pair in check.pairs if not pair.is_within or pair is worst[pair.loaded])
    return make_table(columns, shown)


def _difference(pair: ParityPair) -> str:
    if pair.difference is None:
        return "nan"
    return f"{pair.difference:.1e}{'' if pair.exact else ' ≠'}"
