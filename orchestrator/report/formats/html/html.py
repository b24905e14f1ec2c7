"""A summary as one HTML page, which makes no network requests, and is not allowed to."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

from orchestrator import __version__
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts import Chart, charts_of
from orchestrator.report.charts.chart import DARK, LIGHT, short, slug
from orchestrator.report.charts.speedups import SIGNS
from orchestrator.report.document import Document, Section, visible
from orchestrator.report.formats.html.rows import trial_columns
from orchestrator.report.sections.document import document
from orchestrator.report.wording import ArmNames, arm_names
from workloads.data.cache import atomic_write, cache_folder

if TYPE_CHECKING:
    from jinja2 import Template

MOST_ROWS = 300
"""The most rows of a table; the JSON format has all."""

_HERE = files("orchestrator.report.formats.html")
_MARKS = SIGNS | {
    "equal": "=", "better": "▲", "worse": "▼", "best": "★", "pays": "▲", "never": "▼",
}  # fmt: skip

PagePart: TypeAlias = tuple[str, Section, list[Chart]]
"""A part of the page: its id, its section and its plots."""


def to_html(summary: ReportSummary) -> str:
    """Write the full report as one page that needs no network.

    Texts from specs and runs are escaped. In addition, the page's policy allows only its own
    scripts, and no requests: a text that became markup could do nothing.
    """
    name = arm_names(summary)
    report = document(summary)
    plots = charts_of(summary)
    arms = [entry.arm for entry in summary.arms]
    hardware = list(dict.fromkeys(str(arm.hardware) for arm in arms))
    choices = {
        "hardware": hardware,
        "implementation": list(dict.fromkeys(arm.implementation for arm in arms)),
    }
    filters = {key: texts for key, texts in choices.items() if len(texts) > 1}
    outcomes = dict.fromkeys(trial.status.replace("_", " ") for trial in summary.trials)
    scripts = [vega(), _file("plots.js"), _file("trials.js")]
    return _template().render(
        title=report.title,
        version=__version__,
        policy=_policy(scripts),
        css=_file("page.css"),
        colours=list(zip(LIGHT, DARK, strict=True)),
        head=summary.sweep,
        arms=len(arms),
        hardware=name.hardware or f"{len(hardware)} classes",
        plot_filters=filters if plots else {},
        trial_filters={"arm": [name(arm) for arm in arms], **filters, "outcome": list(outcomes)},
        parts=parts_of(report, plots),
        marks=_MARKS,
        trials=bool(summary.trials),
        most_rows=MOST_ROWS,
        figures_json=script_json(_figures(summary, plots, name)),
        trials_json=script_json(trial_columns(summary, name)),
        scripts=scripts,
    )


def parts_of(report: Document, plots: Sequence[Chart]) -> list[PagePart]:
    """Return the sections in their order; plots without one precede the sections on validity."""
    sections = list(report.sections)
    missing = [
        Section(part)
        for part in dict.fromkeys(plot.part for plot in plots)
        if not any(section.title.startswith(part) for section in sections)
    ]
    validity = (i for i, s in enumerate(sections) if s.title in ("Excluded", "Validity"))
    end = next(validity, len(sections))
    return [
        (
            f"part-{i}-{slug(section.title) or 'part'}",
            section,
            [plot for plot in plots if section.title.startswith(plot.part)],
        )
        for i, section in enumerate([*sections[:end], *missing, *sections[end:]], 1)
    ]


def _template() -> Template:
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415

    engine = Environment(autoescape=True, undefined=StrictUndefined)
    engine.filters.update(visible=visible, short=short, slug=slug)
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
    """Return the policy of the page: no requests, and only these scripts, by their digests.

    Source: W3C, "Content Security Policy Level 3", 2.3.1. Styles have no digests, because Vega
    writes its own; they cannot request anything.
    """
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


def _figures(summary: ReportSummary, plots: Sequence[Chart], name: ArmNames) -> dict[str, Any]:
    """Return the charts, and the arms behind their names, for the choice of arms."""
    arms = {
        short(name(entry.arm)): {
            "implementation": visible(entry.arm.implementation),
            "hardware": visible(str(entry.arm.hardware)),
        }
        for entry in summary.arms
    }
    return {"arms": arms, "plots": {p.key: p.specification("container") for p in plots}}
