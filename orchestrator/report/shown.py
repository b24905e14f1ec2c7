"""The report of a sweep as an object: what Python programs and notebooks show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.formats import SUFFIXES
from orchestrator.report.formats.fragment import to_fragment
from orchestrator.report.parts.answer import short_report
from orchestrator.report.render import render
from orchestrator.storage.private_files import write_named


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The report of a sweep: `print` shows the answer, a notebook also its table.

    `summary` has all its numbers.
    """

    summary: ReportSummary

    def __repr__(self) -> str:
        """Return what the report is of, in a line."""
        trials = self.summary.sweep.trials
        ended = trials.expected - trials.missing
        done = f"{ended} of {trials.expected} trials, {trials.failed} failed"
        return f"<Report of {self.summary.sweep.label}: {done}>"

    def __str__(self) -> str:
        """Return the short report, as `rnnsweep report` prints it."""
        return render(self.summary, "text").rstrip()

    def _repr_html_(self) -> str:
        return to_fragment(short_report(self.summary))

    def save(self, path: str | Path) -> None:
        """Write the whole report to a file; its suffix decides the format.

        The suffixes are `.html`, `.md`, `.json` and `.txt`. Raise `ValueError` for another one.
        """
        path = Path(path)
        form = next((form for form, suffix in SUFFIXES.items() if suffix == path.suffix), None)
        if form is None:
            raise ValueError(
                f"{path}: expected a name that ends in {', '.join(SUFFIXES.values())}; received"
                f" {path.suffix or 'none'}"
            )
        text = render(self.summary, form, full=True)
        write_named(path, text.encode(errors="replace"))
