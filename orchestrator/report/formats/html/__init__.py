"""A summary as one HTML page, which makes no network requests, and is not allowed to.

Its style and its script are files in this folder.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

from orchestrator import __version__
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts import CHARTS, charts_of
from orchestrator.report.charts.chart import Chart, ChartBuilder, slug
from orchestrator.report.charts.look import DARK, LIGHT
from orchestrator.report.charts.trade_offs import trade_off_key
from orchestrator.report.document import PARTS, Kind, Section, visible
from orchestrator.report.sections.answer import title
from orchestrator.report.sections.best import best_sentences
from orchestrator.report.sections.document import SECTIONS, ReportSection, document
from orchestrator.report.sections.doubts import doubts
from orchestrator.report.sections.factors import factor_bullets
from orchestrator.report.sections.headlines import headlines
from orchestrator.report.sections.progress import counts
from orchestrator.report.sections.whole_training import whole_training_bullets
from orchestrator.report.verdicts import SIGNS
from orchestrator.report.wording import grouped
from workloads.data.cache import atomic_write, cache_folder

if TYPE_CHECKING:
    from jinja2 import Template

MOST_ROWS = 300
"""The most rows of a table; the JSON format has all."""

_HERE = files("orchestrator.report.formats.html")
_SIGNS: Mapping[str, str] = {
    **SIGNS,
    Kind.FASTEST: "★",
    Kind.BEST: "★",
    Kind.PAYS: "▲",
    Kind.NEVER: "▼",
    Kind.FAILED: "✕",
    Kind.DIFFERENT_MATHEMATICS: "✕",
    Kind.BUSY: "?",
}
"""The signs of bullets and headlines; others have a dot."""

PagePart: TypeAlias = tuple[Section, list[Chart]]
"""A section with its plots."""
Question: TypeAlias = tuple[str, str, list[PagePart]]
"""An id, a question that people ask, and the sections that answer it."""


def to_html(
    summary: ReportSummary,
    sections: Sequence[ReportSection] = SECTIONS,
    charts: Sequence[ChartBuilder] = CHARTS,
) -> str:
    """Write the full report as one page that needs no network; its first screen is the answer.

    Texts from specs and runs are escaped. In addition, the page's policy allows only its own
    scripts, and no requests: a text that became markup could do nothing.
    """
    heads = headlines(summary)
    first, *others = document(summary, sections).sections
    answers = [*whole_training_bullets(summary), *factor_bullets(summary)]
    on_top = {headline.bullet for headline in heads} | set(answers)
    answer = replace(first, bullets=tuple(b for b in first.bullets if b not in on_top))
    plots = {plot.key: plot for plot in charts_of(summary, charts)}
    specifications = {key: plot.specification("container") for key, plot in plots.items()}
    forest, trade_off = plots.pop("speedups", None), plots.pop(_time_trade_off(summary), None)
    scripts = [vega(), _file("charts.js")]
    return _template().render(
        title=title(summary),
        version=__version__,
        policy=_policy(scripts),
        css=_file("page.css"),
        colours=list(zip(LIGHT, DARK, strict=True)),
        head=summary.sweep,
        headlines=heads,
        best=" ".join(best_sentences(summary)[:1]),
        counts=counts(summary),
        doubts=doubts(summary),
        forest=forest,
        trade_off=trade_off,
        answers=answers,
        questions=questions_of([answer, *others], [*plots.values()]),
        signs=_SIGNS,
        most_rows=MOST_ROWS,
        charts_json=script_json(specifications),
        scripts=scripts,
    )


def _time_trade_off(summary: ReportSummary) -> str:
    """Return the key of the chart of the result against the time of training, over all hardware."""
    timed = (front for front in summary.fronts if front.expense == "train_s")
    front = next(timed, None)
    return trade_off_key(front) if front else ""


def questions_of(sections: Sequence[Section], plots: Sequence[Chart]) -> list[Question]:
    """Return the sections with their plots, grouped by the question that they answer.

    A plot whose section is missing has one without tables, by which a reader judges the others.
    """
    keys = {section.key for section in sections}
    by_section = grouped((plot.section, plot) for plot in plots)
    groups: dict[str, list[PagePart]] = {part: [] for part in PARTS}
    for section in sections:
        groups[section.part].append((section, by_section.get(section.key, [])))
    if others := [plot for plot in plots if plot.section not in keys]:
        groups["trust"].append((Section("Other charts"), others))
    return [(part, PARTS[part], contents) for part, contents in groups.items() if contents]


def _template() -> Template:
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415

    engine = Environment(autoescape=True, undefined=StrictUndefined)
    engine.filters.update(visible=visible, slug=slug)
    return engine.from_string(_file("page.html.jinja"))


def _file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


@cache
def vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, from the installed vl-convert.

    vl-convert takes two seconds to make it, so the script is kept in the cache.
    """
    kept = cache_folder() / f"vega-of-vl-convert-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        return kept.read_text(encoding="utf-8")
    import vl_convert  # noqa: PLC0415

    script = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    with suppress(OSError), atomic_write(kept) as file:  # a full disk, or a home that is read-only
        file.write(script.encode())
    return script


def _policy(scripts: Iterable[str]) -> str:
    """Return the policy of the page: no requests, and only these scripts."""
    # Source: W3C, "Content Security Policy Level 3", 2.3.1. Styles have no digests, because Vega
    # writes its own; they cannot request anything.
    digests = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def script_json(value: Any) -> str:
    """Write JSON that cannot end a script for an HTML parser: ASCII without `<`, `>`, `&`."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.translate({ord(char): f"\\u{ord(char):04x}" for char in "<>&"})
