"""A summary as one HTML page, which makes no network requests, and is not allowed to.

Its style and its script are files in this folder.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

from orchestrator import __version__
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts import CHARTS, charts_of
from orchestrator.report.charts.chart import Chart, ChartBuilder
from orchestrator.report.charts.look import DARK, LIGHT
from orchestrator.report.charts.trade_offs import trade_off_key
from orchestrator.report.document import PARTS, Document, Section, Tone, visible
from orchestrator.report.names import grouped
from workloads.data.cache import atomic_write, cache_folder

if TYPE_CHECKING:
    from jinja2 import Template

MOST_DATA_ROWS = 300
"""The most rows of a table; the JSON format has all."""

_HERE = files("orchestrator.report.formats.html")
_SIGNS: Mapping[Tone, str] = {Tone.PLAIN: "•", Tone.GOOD: "★", Tone.BAD: "✕", Tone.DOUBT: "?"}
"""The signs of facts, so that colour is not their only mark."""

PagePart: TypeAlias = tuple[Section, list[Chart]]
"""A part of the report with its charts."""


def to_html(
    summary: ReportSummary, document: Document, charts: Sequence[ChartBuilder] = CHARTS
) -> str:
    """Write a report as one page that needs no network; its first screen is the first part.

    Texts from specs and runs are escaped. In addition, the page's policy allows only its own
    scripts, and no requests: a text that became markup could do nothing.
    """
    plots = {plot.key: plot for plot in charts_of(summary, charts)}
    specifications = {key: plot.specification("container") for key, plot in plots.items()}
    first = [plots.pop(key) for key in (_time_trade_off(summary), "speedups") if key in plots]
    scripts = [vega(), _file("charts.js")]
    page = _template().render(
        title=document.title,
        version=__version__,
        policy=_policy(scripts),
        css=_file("page.css"),
        colours=list(zip(LIGHT, DARK, strict=True)),
        head=summary.sweep,
        first_plots=first,
        parts=parts_of(document.sections, [*plots.values()]),
        signs=_SIGNS,
        most_rows=MOST_DATA_ROWS,
        charts_json=script_json(specifications),
        scripts=scripts,
    )
    return page.rstrip() + "\n"


def _time_trade_off(summary: ReportSummary) -> str:
    """Return the key of the chart of the result against the time of training, over all hardware."""
    timed = (front for front in summary.fronts if front.expense == "train_s")
    front = next(timed, None)
    return trade_off_key(front) if front else ""


def parts_of(sections: Sequence[Section], plots: Sequence[Chart]) -> list[PagePart]:
    """Return the parts of a report with their charts; a part may have charts alone."""
    by_part = grouped((plot.section, plot) for plot in plots)
    with_text = [section.part for section in sections]
    others = [
        Section(PARTS.get(part, part), part=part) for part in by_part if part not in with_text
    ]
    return [(section, by_part.get(section.part, [])) for section in (*sections, *others)]


def _template() -> Template:
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415

    engine = Environment(autoescape=True, undefined=StrictUndefined)
    engine.filters.update(visible=visible)
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
