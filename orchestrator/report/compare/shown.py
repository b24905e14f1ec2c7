"""The changes between two sweeps as an object: what Python programs and notebooks show."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

from orchestrator.report.compare.changes import Changes
from orchestrator.report.compare.document import changes_document
from orchestrator.report.formats.fragment import to_fragment
from orchestrator.report.formats.text import to_text


@dataclass(frozen=True, slots=True, repr=False)
class ShownChanges(Changes):
    """The changes between two sweeps: `print` shows all of them, a notebook the same as HTML."""

    @classmethod
    def of(cls, changes: Changes, *, busy_counts: bool) -> Self:
        """Return these changes as an object that shows itself."""
        content = {item.name: getattr(changes, item.name) for item in fields(Changes)}
        return cls(**content | {"busy_counts": busy_counts})

    def __str__(self) -> str:
        """Return the changes, as `rnnsweep compare` prints them."""
        return to_text(changes_document(self)).rstrip()

    def _repr_html_(self) -> str:
        return to_fragment(changes_document(self))
