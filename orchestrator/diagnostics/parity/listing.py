"""The result of a parity check as a document and as one versioned object."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from orchestrator.core.formats import Format
from orchestrator.core.text import counted, joined
from orchestrator.diagnostics.parity.parity_check import ParityCheck, ParityPair, machine
from orchestrator.diagnostics.parity.participants import Excluded
from orchestrator.report.document import Bullet, Column, Document, Kind, Section, Table, make_table
from workloads.tasks.image_rows.settings import ImageRowsSettings

PARITY = Format("a check of parity", 2, id="rnnsweep-parity")
_LEGEND = (
    "A difference is the largest one between the outputs of the two implementations on the same "
    "validation images, as a share of the largest output. Weights are also read back after "
    "loading. ≠ marks those that differ from the saved ones in any bit. Of pairs that agree, each "
    "loading implementation has its worst one; JSON has all."
)


def parity_document(check: ParityCheck) -> Document:
    """Return conclusions, the table of pairs, and the implementations that cannot run."""
    stopped = [] if check.is_complete else [_stopped(check)]
    if check.source is None:
        title = f"Weights and outputs saved in {check.folder} on {machine()}"
        return Document(title, (Section("", (*stopped, *_saved(check), *_excluded(check))),))
    defaults = ImageRowsSettings().model_dump()
    settings = ", ".join(
        f"{name} {str(value).lower() if isinstance(value, bool) else value}"
        for name, value in check.settings.items()
        if name != "cell" and value != defaults.get(name)
    )
    where = f"Machine: {machine()}. Weights and outputs were saved on {check.source.machine}."
    return Document(
        f"Portability of weights: image_rows on {check.data} ({settings})",
        (
            Section("", bullets=(*stopped, _conclusion(check), *_excluded(check))),
            Section("Pairs", (), (_table(check),) if check.pairs else (), (_LEGEND, where)),
        ),
    )


def parity_json(check: ParityCheck) -> dict[str, Any]:
    """Return the results as one versioned object."""
    place = {"implementation", "device"}
    return {
        **PARITY.head(),
        "passed": check.is_good,
        "complete": check.is_complete,
        "machine": machine(),
        "saved_on": check.source.machine if check.source else machine(),
        "folder": str(check.folder),
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


def _stopped(check: ParityCheck) -> Bullet:
    text = f"stopped after {check.finished} of {len(check.participants)} implementations"
    return Bullet(Kind.INCONCLUSIVE, text)


def _saved(check: ParityCheck) -> Iterator[Bullet]:
    for cell in dict.fromkeys(saved.cell for saved in check.saved):
        labels = [saved.label for saved in check.saved if saved.cell == cell]
        yield Bullet(Kind.SAVED, f"{cell}: {joined(labels)}")


def _conclusion(check: ParityCheck) -> Bullet:
    bad = sum(not pair.is_within for pair in check.pairs)
    if not check.pairs:
        return Bullet(Kind.SLOWER, "nothing was compared")
    if bad:
        return Bullet(Kind.SLOWER, f"{counted(bad, 'pair')} of {len(check.pairs)} ✗")
    return Bullet(Kind.FASTER, f"all {counted(len(check.pairs), 'pair')} ✓")


def _excluded(check: ParityCheck) -> Iterator[Bullet]:
    by_reason: dict[str, list[Excluded]] = {}
    for excluded in check.excluded:
        if excluded.failed_on is None:
            by_reason.setdefault(excluded.reason, []).append(excluded)
        else:
            label = f"{excluded.implementation} on {excluded.failed_on}, {excluded.cell}"
            yield Bullet(Kind.SLOWER, f"failed ✗ {label}: {excluded.reason}")
    checked = {participant.cell for participant in check.participants}
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
