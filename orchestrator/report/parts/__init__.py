"""The parts of a report in their order: each module makes one out of a summary.

A part is facts, tables and notes that are fixed texts with numbers in them.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import PARTS, Document, Section
from orchestrator.report.names import PartBuilder, arm_names
from orchestrator.report.parts.answer import answer_part, title
from orchestrator.report.parts.comparisons import comparisons_part
from orchestrator.report.parts.cost import cost_part
from orchestrator.report.parts.quality import quality_part
from orchestrator.report.parts.sizes import sizes_part
from orchestrator.report.parts.trust import trust_part

PARTS_OF_A_REPORT: Mapping[str, PartBuilder] = {
    "answer": answer_part,
    "comparisons": comparisons_part,
    "quality": quality_part,
    "sizes": sizes_part,
    "cost": cost_part,
    "trust": trust_part,
}
"""The function that makes each part of a full report, by its key of `PARTS`."""


def full_report(
    summary: ReportSummary,
    chosen: Collection[str] = (),
    builders: Mapping[str, PartBuilder] = PARTS_OF_A_REPORT,
) -> Document:
    """Return a report with all parts that the sweep has figures for, or with the `chosen` ones.

    A chosen part without figures says so.
    """
    name, sections = arm_names(summary), list[Section]()
    for part, build in builders.items():
        if chosen and part not in chosen:
            continue
        section = build(summary, name)
        if section is not None:
            sections.append(replace(section, part=part))
        elif part in chosen:
            note = "This sweep has no figures for it."
            sections.append(Section(PARTS.get(part, part), notes=(note,), part=part))
    return Document(title(summary), tuple(sections))
