"""A summary as one HTML page, which makes no network requests, and is not allowed to."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from orchestrator import __version__
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts import Chart, Plot, palette, plots_of
from orchestrator.report.document import visible
from orchestrator.report.formats.html.escaping import script_json
from orchestrator.report.formats.html.figure import figure, legend_names
from orchestrator.report.formats.html.legend import entries
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
    plots = plots_of(summary)
    scripts = [_plotly(), _file("plots.js"), _file("trials.js")]
    return _template().render(
        title=report.title,
        version=__version__,
        policy=_policy(scripts),
        css=_file("page.css"),
        colours=list(zip(palette.LIGHT, palette.DARK, strict=True)),
        facts=_facts(summary, name),
        arm_filters=_arm_filters(summary, "plot") if any(map(_by_arm, plots)) else [],
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
    engine.filters["visible"] = visible
    engine.globals["entries"] = entries
    return engine.from_string(_file("page.html.jinja"))


def _file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Return Plotly's script from the installed package."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    return str(get_plotlyjs())


def _policy(scripts: Iterable[str]) -> str:
    """Return the policy of the page: no requests, and only these scripts, by their digests.

    Source: W3C, "Content Security Policy Level 3", 2.3.1. Styles have no digests, because Plotly
    writes its own; they cannot request anything.
    """
    digests = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _figures(summary: ReportSummary, plots: Sequence[Plot], name: ArmNames) -> dict[str, Any]:
    """Return the figures, and the arms behind their legend entries, for the choice of arms."""
    arms = {
        name(entry.arm): {
            "implementation": visible(entry.arm.implementation),
            "hardware": visible(str(entry.arm.hardware)),
        }
        for entry in summary.arms
    }
    return {
        "styles": len(palette.LIGHT),
        "arms": arms,
        "plots": [
            {**figure(plot), "groups": legend_names(plot), "by_arm": _by_arm(plot)}
            for plot in plots
            if isinstance(plot, Chart)
        ],
    }


def _by_arm(plot: Plot) -> bool:
    return isinstance(plot, Chart) and plot.part != "phases"


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
