"""The shape of each stored format: the fields and types of the classes that it is made from."""

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.formats import Format
from orchestrator.core.trial import FinishedTrial, digest
from orchestrator.hardware.files import HARDWARE
from orchestrator.hardware.profile import Node
from orchestrator.report.formats.json_format import REPORT, TRIAL_ENTRY
from orchestrator.storage import journal
from orchestrator.storage.tracking import stored_records, trial_table

_KINDS: dict[str, tuple[Format, tuple[Any, ...]]] = {
    "journal": (journal.FORMAT, typing.get_args(journal.Record)),
    "manifest": (stored_records.MANIFEST.format, (stored_records.Manifest,)),
    "lease": (stored_records.LEASE.format, (stored_records.Lease,)),
    "trial": (stored_records.TRIAL.format, (FinishedTrial,)),
    "table": (trial_table.TABLE, ()),
    "report": (REPORT, (ReportSummary,)),
    "hardware": (HARDWARE, (Node,)),
}


def formats_now() -> dict[str, Any]:
    """Return the number and the shape of each format as they are now."""
    found: dict[str, Any] = {}
    for name, (form, kinds) in _KINDS.items():
        lines = sorted({line for kind in kinds for line in _lines(kind, set())})
        shape = [*lines, *TRIAL_ENTRY] if form is REPORT else lines
        found[name] = {"number": form.number, "shape": digest(shape)}
    return found


def _lines(kind: Any, seen: set[Any]) -> Iterator[str]:
    """Yield a line for each field of a class, and of the classes that its fields have."""
    if kind in seen:
        return
    seen.add(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        for item in dataclasses.fields(kind):
            hint = hints[item.name]
            yield f"{getattr(kind, '__name__', kind)}.{item.name}: {hint}"
            yield from _lines(hint, seen)
    for part in typing.get_args(kind):
        if isinstance(part, type) or typing.get_args(part):
            yield from _lines(part, seen)
