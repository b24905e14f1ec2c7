"""The sections of a full report in their order: a summary becomes a document.

`docs/adding/report_section.md` shows how to add one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import PARTS, Document
from orchestrator.report.sections import (
    accuracy,
    answer,
    arms,
    compiling,
    configs,
    crossovers,
    doubts,
    effects,
    excluded,
    factors,
    fastest,
    front,
    learning,
    phases,
    published,
    rankings,
    reading,
    speed,
    sweep,
    targets,
    telemetry,
    trade_offs,
    validity,
)
from orchestrator.report.wording import SectionBuilder, arm_names


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A section of reports: where it stands, and the function that makes it.

    `key` is unique and names the section for its charts. `part` is the key of `PARTS` whose
    question the section answers. `build` is called once for each report, with its summary and the
    names of its arms; it returns None if the sweep has nothing to show. A report of a sweep in
    which every trial failed has only the sections with `shows_failures`.
    """

    key: str
    part: str
    build: SectionBuilder
    shows_failures: bool = False

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise ValueError(f"section {self.key!r}: expected a part of {', '.join(PARTS)}")


SECTIONS: tuple[ReportSection, ...] = (
    ReportSection("fastest", "fastest", fastest.fastest_section, shows_failures=True),
    ReportSection("factors", "fastest", factors.factors_section),
    ReportSection("rankings", "fastest", rankings.rankings_section),
    ReportSection("speed", "speed", speed.speed_section),
    ReportSection("compiling", "speed", compiling.compiling_section),
    ReportSection("accuracy", "accuracy", accuracy.accuracy_section),
    ReportSection("targets", "accuracy", targets.targets_section),
    ReportSection("learning", "accuracy", learning.learning_section),
    ReportSection("effects", "sizes", effects.effects_section),
    ReportSection("crossovers", "sizes", crossovers.crossovers_section),
    ReportSection("configs", "sizes", configs.configs_section),
    ReportSection("front", "sizes", front.front_section),
    ReportSection("trade_offs", "sizes", trade_offs.trade_offs_section),
    ReportSection("arms", "cost", arms.arms_section),
    ReportSection("phases", "cost", phases.phases_section),
    ReportSection("doubts", "trust", doubts.doubts_section, shows_failures=True),
    ReportSection("sweep", "trust", sweep.sweep_section, shows_failures=True),
    ReportSection("excluded", "trust", excluded.excluded_section, shows_failures=True),
    ReportSection("validity", "trust", validity.validity_section),
    ReportSection("telemetry", "trust", telemetry.telemetry_section),
    ReportSection("published", "trust", published.published_section),
)
"""The sections of every report, within a part in their order."""


def document(summary: ReportSummary, sections: Sequence[ReportSection] = SECTIONS) -> Document:
    """Make the full report, by the questions of its parts; how to read it comes last."""
    name = arm_names(summary)
    built = []
    for part in PARTS:
        for section in sections:
            if section.part != part:
                continue
            if summary.is_without_success and not section.shows_failures:
                continue
            content = section.build(summary, name)
            if content:
                built.append(replace(content, key=section.key, part=part))
    return Document(answer.title(summary), (*built, reading.reading_section(summary, built)))
