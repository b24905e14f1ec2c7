"""A summary as one HTML page, which makes no network requests, and is not allowed to.

Its style and scripts are files in this folder.
"""

from __future__ import annotations

import json
import math
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
from orchestrator.core.trial import FinishedTrial
from orchestrator.core.trial_columns import COLUMNS, QUALIFIERS, config_names, metric_names
from orchestrator.report.charts import Chart, charts_of
from orchestrator.report.charts.chart import DARK, LIGHT, short, slug
from orchestrator.report.charts.speedups import SIGNS
from orchestrator.report.document import Document, Section, visible
from orchestrator.report.sections.document import document
from orchestrator.report.wording import ArmNames, arm_names, kernel_text
from workloads.data.cache import atomic_write, cache_folder

if TYPE_CHECKING:
    from jinja2 import Template

MOST_ROWS = 300
"""The most rows of a table; the JSON format has all."""

MOST_SHOWN = 3
"""The most metrics with a column of the table; the details of a trial have all metrics."""

_FIRST = ("step_ms", "train_s", "val_accuracy", "val_loss", "val_bits_per_char")
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
        "variant": list(dict.fromkeys(filter(None, (arm.variant_name for arm in arms)))),
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
        figures_json=script_json({p.key: p.specification("container") for p in plots}),
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
    validity = (i for i, s in enumerate(sections) if s.part in ("trust", "reading"))
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
    """Return the policy of the page: no requests, and only these scripts, by their digests."""
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


def trial_columns(summary: ReportSummary, name: ArmNames) -> dict[str, Any]:
    """Return a list for each field with a value per trial; texts are numbers of `texts`.

    `arms` are in the order of the summary, which also decides the colours of plots; `plotted` is
    the name of an arm in plots.
    """
    texts = {"": 0}

    def numbered(cells: Iterable[Any]) -> list[int]:
        return [texts.setdefault(visible(cell or ""), len(texts)) for cell in cells]

    trials = summary.trials
    place = {entry.arm: i for i, entry in enumerate(summary.arms)}
    metrics = metric_names(trials)
    cells = {column.name: [column.get(trial) for trial in trials] for column in COLUMNS}
    shown = [m for m in (*summary.sweep.objectives, *_FIRST) if m in metrics]
    return {
        "arms": [
            {
                "name": visible(name(entry.arm)),
                "plotted": short(name(entry.arm)),
                "implementation": visible(entry.arm.implementation),
                "hardware": visible(str(entry.arm.hardware)),
                "variant": visible(entry.arm.variant_name or ""),
            }
            for entry in summary.arms
        ],
        "shown": list(dict.fromkeys(shown))[:MOST_SHOWN],
        "arm": [place[trial.arm] for trial in trials],
        **{field: cells[field] for field in ("block", "repeat", "attempt")},
        **{field: numbered(cells[field]) for field in ("node", "failure")},
        "outcome": numbered(trial.status.replace("_", " ") for trial in trials),
        "run": [visible(trial.run_id) for trial in trials],
        "kernel": numbered(map(_kernel, trials)),
        "params": _columns(config_names(trials), [trial.params for trial in trials]),
        "metrics": _columns(metrics, [trial.metrics for trial in trials]),
        "notes": {c.name: numbered(cells[c.name]) for c in QUALIFIERS if any(cells[c.name])},
        "texts": list(texts),
    }


def _columns(
    names: Iterable[str], rows: list[Mapping[str, bool | float | str]]
) -> dict[str, list[Any]]:
    return {visible(name): [_short(row.get(name)) for row in rows] for name in names}


def _short(value: bool | float | str | None) -> bool | float | str | None:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value


def _kernel(trial: FinishedTrial) -> str:
    if trial.kernel is None:
        return ""
    ran = kernel_text(trial.kernel.asked, trial.kernel.ran)
    return f"{ran} ({trial.kernel.evidence or 'no evidence'})"
