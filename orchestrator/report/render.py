"""Rendering of a summary as text, Markdown, JSON or an HTML page; text is short by default."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from orchestrator.analysis.pairing.baselines import BaselineError
from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.report.charts import CHARTS
from orchestrator.report.charts.chart import ChartBuilder
from orchestrator.report.document import PARTS, Bullet, Document, Kind, Section
from orchestrator.report.formats.html import to_html
from orchestrator.report.formats.json_format import summary_json
from orchestrator.report.formats.text import to_markdown, to_text
from orchestrator.report.sections.answer import TO_TARGETS, USAGE, answer, report_command
from orchestrator.report.sections.best import best_sentences
from orchestrator.report.sections.document import SECTIONS, ReportSection, document
from orchestrator.report.sections.factors import factor_bullets
from orchestrator.report.sections.headlines import headlines

__all__ = ["BaselineError", "ReportFormat", "ReportSummary", "render", "summarise"]

ReportFormat: TypeAlias = Literal["text", "markdown", "json", "html"]

MOST_LINES = 44
"""The length of the short report, which fits on a screen; targets that are asked for add to it.

Lines of fewer columns than `_USUAL_WIDTH` say less, and are more."""

_USUAL_WIDTH = 100

_LINES_OF_TABLE = 7
"""The lines of a table without its rows: title, heads, rule, the place of the rest, and space."""

_MOST_ROWS, _FEWEST_ROWS = 30, 3

_LINES_OF_HIDDEN = 2
"""The lines that say how many rows are hidden: to hide no more rows than that saves nothing."""

_MOST_DOUBTS = 3
"""The doubts that a short report names before it leaves out answers; then ever fewer."""

_LESS_IMPORTANT = (Kind.EFFECT, Kind.CROSSES)
"""What a short report leaves out first, with all but the first sentence on the best config.

The question is which arm wins."""


def render(  # noqa: PLR0913
    summary: ReportSummary,
    format: ReportFormat,
    *,
    width: int = 100,
    colour: bool = False,
    full: bool = False,
    parts: Collection[str] = (),
    sections: Sequence[ReportSection] = SECTIONS,
    charts: Sequence[ChartBuilder] = CHARTS,
) -> str:
    """Return the report as one string that ends with a newline; ValueError for another format.

    `text` is the short report of about `MOST_LINES`, unless it is to be `full`. Text and Markdown
    can have some `parts` alone, keys of `PARTS`. The width (columns of a terminal) and the colours
    are for text only.

    `sections` and `charts` are for the full report; the JSON format has none.
    """
    if format == "text" and not (full or parts):
        return _short_text(summary, width, colour=colour)
    if format == "text":
        return to_text(_chosen(document(summary, sections), parts), width, colour=colour)
    if format == "markdown":
        return to_markdown(_chosen(document(summary, sections), parts))
    if format == "json":
        return summary_json(summary)
    if format == "html":
        return to_html(summary, sections, charts).rstrip() + "\n"
    raise ValueError(f"unknown format {format!r}: expected text, markdown, json or html")


def to_short_markdown(
    summary: ReportSummary, limit: int, whole: str = "the artifacts of this run"
) -> str:
    """Write the short report as Markdown of fewer characters than `limit`, without its title.

    The title is the name of the run that it describes. MLflow silently cuts a description that is
    longer. So this one has fewer rows and sections, and names the place of the `whole`.
    """
    rest = f"The full report is in {whole}."
    for shorter in _shorter(summary, rest=rest):
        text = to_markdown(replace(shorter, title=""))
        if len(text) < limit:
            break
    return text[: limit - 1]


def _short_text(summary: ReportSummary, width: int, *, colour: bool) -> str:
    most = MOST_LINES * max(1.0, _USUAL_WIDTH / width)
    asked = sum(_LINES_OF_TABLE + min(len(t.arms), _FEWEST_ROWS) for t in summary.targets)
    for shorter in _shorter(summary):
        text = to_text(shorter, width, colour=colour)
        if text.count("\n") <= most + asked:
            break
    return text


def _shorter(summary: ReportSummary, *, rest: str | None = None) -> Iterator[Document]:
    """Yield the short report, each time with less.

    In this order it has fewer rows of arms, no effects of sizes, one sentence on the best config,
    one part of the table, no lines of use, fewer doubts, shorter answers, no other headlines, no
    best config, and at last fewer sections. What is left out of the answers and the doubts is
    counted, with the command that shows it, unless the `rest` says where everything is.
    """
    rows = min(len(summary.arms), _MOST_ROWS)
    fewest = _FEWEST_ROWS if rows > _FEWEST_ROWS + _LINES_OF_HIDDEN else rows
    for most in range(rows, fewest - 1, -1):
        report = answer(summary, most, rest=rest)
        yield report
    first, *others, last = report.sections
    command = f"{report_command(summary)} --section"
    place = f"{command} fastest" if rest is None else None
    bullets, on_best = list(first.bullets), best_sentences(summary)
    for bullet in reversed(first.bullets):
        if bullet.kind in _LESS_IMPORTANT or bullet.text in on_best[1:]:
            bullets.remove(bullet)
            first = _of_some_bullets(first, bullets, report, place)
            yield replace(report, sections=(first, *others, last))
    targets = "".join(f" --target {target.accuracy:g}" for target in summary.targets)
    parts = {TO_TARGETS: f"{command} accuracy{targets}"}
    others = [
        _of_first_columns(s, f"More columns: {parts.get(s.key, f'{command} fastest')}")
        for s in others
    ]
    yield replace(report, sections=(first, *others, last))
    for section in [s for s in others if s.key == USAGE]:
        others.remove(section)
        yield replace(report, sections=(first, *others, last))
    whole = others
    for most in range(_MOST_DOUBTS, 0, -1):
        others = [_of_first_bullets(section, most, f"{command} trust") for section in whole]
        yield replace(report, sections=(first, *others, last))
    first = replace(first, paragraphs=first.paragraphs[:1])
    yield replace(report, sections=(first, *others, last))
    brief = {
        **{head.bullet: Bullet(head.kind, head.sentences[0]) for head in headlines(summary)},
        **dict(zip(factor_bullets(summary), factor_bullets(summary, is_brief=True), strict=True)),
    }
    bullets = [brief.get(bullet, bullet) for bullet in bullets]
    first = _of_some_bullets(first, bullets, report, place)
    yield replace(report, sections=(first, *others, last))
    answers = {bullets[0], *factor_bullets(summary, is_brief=True)}
    best = [bullet for bullet in bullets if bullet.text in on_best]
    in_all = [bullet for bullet in bullets if bullet.kind == Kind.IN_ALL]
    dispensable = [b for b in bullets if b not in {*answers, *best, *in_all}]
    for bullet in (*reversed(in_all), *reversed(dispensable), *best):
        bullets.remove(bullet)
        first = _of_some_bullets(first, bullets, report, place)
        yield replace(report, sections=(first, *others, last))
    others = [_of_first_bullets(section, 0, f"{command} trust") for section in whole]
    yield replace(report, sections=(first, *others, last))
    others.sort(key=lambda section: section.key != TO_TARGETS)  # asked for: the last to go
    while others:
        others.pop()
        yield replace(report, sections=(first, *others, last))
    while len(first.bullets) > 1:
        first = replace(first, bullets=first.bullets[:-1])
        yield replace(report, sections=(first, *others, last))


def _of_some_bullets(
    section: Section, bullets: Sequence[Bullet], report: Document, place: str | None
) -> Section:
    """Return the first section of a report with these bullets, and the place of the others."""
    hidden = len(report.sections[0].bullets) - len(bullets)
    more = (Bullet(Kind.MORE, f"{hidden} more: {place}"),) if hidden and place else ()
    return replace(section, bullets=(*bullets, *more))


def _of_first_columns(section: Section, rest: str) -> Section:
    """Return a section whose tables have the columns that fit side by side."""
    return replace(section, tables=tuple(replace(table, rest=rest) for table in section.tables))


def _of_first_bullets(section: Section, most: int, place: str) -> Section:
    """Return a section with so many bullets, and a last one with the place of the others.

    To hide a single bullet that has a line would save nothing.
    """
    hidden = section.bullets[most:]
    if not hidden or (len(hidden) == 1 and len(hidden[0].text) < _USUAL_WIDTH):
        return section
    more = Bullet(Kind.MORE, f"{len(hidden)} more: {place}")
    return replace(section, bullets=(*section.bullets[:most], more))


def _chosen(report: Document, parts: Collection[str]) -> Document:
    """Return the report with these parts alone; all of them if there are none."""
    used = {section.part for section in report.sections}
    missing = (
        Section(PARTS[part], paragraphs=("This sweep has no figures for it.",), part=part)
        for part in PARTS
        if part in parts and part not in used
    )
    kept = (section for section in report.sections if not parts or section.part in parts)
    return replace(report, sections=(*kept, *missing))
