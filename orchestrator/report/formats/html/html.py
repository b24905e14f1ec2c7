"""A summary as one HTML page, which makes no network requests, and is not allowed to."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from orchestrator import __version__
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts import Chart, charts_of
from orchestrator.report.charts.chart import DARK, LIGHT, short
from orchestrator.report.document import visible
from orchestrator.report.formats.html.parts import parts_of
from orchestrator.report.formats.html.rows import trial_columns
from orchestrator.report.sections.document import document
from orchestrator.report.wording import ArmNames, arm_names

if TYPE_CHECKING:
    from jinja2 import Template

MOST_ROWS = 300
"""The most rows of a table; the JSON format has all."""

_HERE = files("orchestrator.report.formats.html")


def to_html(summary: ReportSummary) -> str:
    """Write the full report as one page that needs no network.

    Texts from specs and runs are escaped. In addition, the page's policy allows only its own
    scripts, and no requests: a text that became markup could do nothing.
    """
    name = arm_names(summary)
    report = document(summary)
    plots = charts_of(summary)
    scripts = [_vega(), _file("plots.js"), _file("trials.js")]
    return _template().render(
        title=report.title,
        version=__version__,
        policy=_policy(scripts),
        css=_file("page.css"),
        colours=list(zip(LIGHT, DARK, strict=True)),
        facts=_facts(summary, name),
        arm_filters=_arm_filters(summary, "plot") if plots else [],
        trial_filters=_trial_filters(summary, name),
        parts=parts_of(report, plots),
        trials=bool(summary.trials),
        most_rows=MOST_ROWS,
        run_id=summary.sweep.run_id,
        figures_json=script_json(_figures(summary, plots, name)),
        trials_json=script_json(trial_columns(summary, name)),
        scripts=scripts,
    )


def _template() -> Template:
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415

    engine = Environment(autoescape=True, undefined=StrictUndefined)
    engine.filters.update(visible=visible, short=short)
    return engine.from_string(_file("page.html.jinja"))


def _file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


@cache
def _vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, from the installed vl-convert."""
    import vl_convert  # noqa: PLC0415

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


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


def _facts(summary: ReportSummary, name: ArmNames) -> list[tuple[str, str]]:
    head, trials = summary.sweep, summary.sweep.trials
    hardware = {entry.arm.hardware for entry in summary.arms}
    return [
        ("state", head.state),
        ("trials", f"{trials.complete} complete of {trials.expected}"),
        ("failed", str(trials.failed)),
        ("blocks", str(head.blocks)),
        ("arms", str(len(summary.arms))),
        ("hardware", name.hardware or f"{len(hardware)} classes"),
    ]


def _arm_filters(summary: ReportSummary, page: str) -> list[tuple[str, str, list[str]]]:
    """Return the choices of hardware and implementation that have more than one option."""
    arms = [entry.arm for entry in summary.arms]
    return [
        (f"{page}-{key.lower()}", key, choices)
        for key, choices in (
            ("Hardware", _unlike(str(arm.hardware) for arm in arms)),
            ("Implementation", _unlike(arm.implementation for arm in arms)),
        )
        if len(choices) > 1
    ]


def _trial_filters(summary: ReportSummary, name: ArmNames) -> list[tuple[str, str, list[str]]]:
    arms = _unlike(name(entry.arm) for entry in summary.arms)
    outcomes = _unlike(trial.status.replace("_", " ") for trial in summary.trials)
    return [
        ("trial-arm", "Arm", arms),
        *_arm_filters(summary, "trial"),
        ("trial-outcome", "Outcome", outcomes),
    ]


def _unlike(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
