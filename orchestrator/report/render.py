"""Rendering of a summary in one of `FORMATS`; text is short by default."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from orchestrator.analysis.pairing.baselines import BaselineError
from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.report.charts import CHARTS
from orchestrator.report.charts.chart import ChartBuilder
from orchestrator.report.formats import FORMATS, ReportContent
from orchestrator.report.formats.text import to_markdown
from orchestrator.report.names import PartBuilder
from orchestrator.report.parts import PARTS_OF_A_REPORT, full_report
from orchestrator.report.parts.answer import short_report

__all__ = ["BaselineError", "ReportSummary", "render", "summarise", "to_short_markdown"]


def render(  # noqa: PLR0913
    summary: ReportSummary,
    format: str,
    *,
    width: int = 100,
    colour: bool = False,
    full: bool = False,
    parts: Collection[str] = (),
    builders: Mapping[str, PartBuilder] = PARTS_OF_A_REPORT,
    charts: Sequence[ChartBuilder] = CHARTS,
) -> str:
    """Return the report as one string that ends with a newline; ValueError for another format.

    `text` is the answer alone, at most 24 lines of 80 columns for six arms, unless it is to be
    `full` or to have some `parts`, keys of `builders`. Markdown can have some parts alone, too. The
    width (columns of a terminal) and the colours are for text only.

    `builders` and `charts` make a full report; the JSON format has the summary instead.
    """
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}: expected {', '.join(FORMATS)}")
    form = FORMATS[format]
    if form.is_short and not (full or parts):
        document = short_report(summary)
    else:
        document = full_report(summary, parts, builders)
    return form.write(ReportContent(summary, document, charts, width, colour))


def to_short_markdown(
    summary: ReportSummary, limit: int, whole: str = "the artifacts of this run"
) -> str:
    """Return the answer as Markdown of fewer characters than `limit`, without its title.

    The title is the name of the run that it describes. MLflow silently cuts a description that is
    longer, and so does this. The last line names the place of the `whole`.
    """
    document = short_report(summary, rest=f"The full report is in {whole}.")
    return to_markdown(replace(document, title=""))[: limit - 1]
