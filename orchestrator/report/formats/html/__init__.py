"""A summary as one HTML page, which makes no network requests, and is not allowed to.

Its style and scripts are files in this folder.
"""

from __future__ import annotations

import json
import math
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
from orchestrator.core.trial_columns import config_names
from orchestrator.report.charts import CHARTS, charts_of
from orchestrator.report.charts.chart import Chart, ChartBuilder, short, slug
from orchestrator.report.charts.look import DARK, LIGHT
from orchestrator.report.charts.trade_offs import trade_off_key
from orchestrator.report.document import PARTS, Kind, Section, visible
from orchestrator.report.formats.csv_rows import HEADER, CsvCell, csv_columns
from orchestrator.report.sections.answer import title
from orchestrator.report.sections.best import best_sentences
from orchestrator.report.sections.document import SECTIONS, ReportSection, document
from orchestrator.report.sections.doubts import doubts
from orchestrator.report.sections.factors import factor_bullets
from orchestrator.report.sections.headlines import headlines
from orchestrator.report.sections.progress import counts
from orchestrator.report.sections.whole_training import whole_training_bullets
from orchestrator.report.verdicts import SIGNS, WORDS
from orchestrator.report.wording import arm_names, grouped
from workloads.data.cache import atomic_write, cache_folder

if TYPE_CHECKING:
    from jinja2 import Template

MOST_ROWS = 300
"""The most rows of a table; the JSON format has all."""

MOST_SHOWN = 3
"""The most metrics with a column of the table; the details of a trial have all metrics."""

_FIRST = ("step_ms", "predict_ms", "train_s", "val_accuracy", "val_loss", "val_bits_per_char")
_HERE = files("orchestrator.report.formats.html")
_SIGNS: Mapping[str, str] = {
    **SIGNS,
    Kind.FASTEST: "★",
    Kind.BEST: "★",
    Kind.PAYS: "▲",
    Kind.NEVER: "▼",
    Kind.FAILED: "✕",
    Kind.DIFFERENT_MATHEMATICS: "✕",
    Kind.PROVISIONAL: "?",
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
    *,
    live_version: int | None = None,
) -> str:
    """Write the full report as one page that needs no network; its first screen is the answer.

    A page with a `live_version` asks its server, next to itself as `live.json`, what runs now, and
    is loaded again once the version there differs.

    Texts from specs and runs are escaped. In addition, the page's policy allows only its own
    scripts, and no requests: a text that became markup could do nothing.
    """
    heads = headlines(summary)
    first, *others = document(summary, sections).sections
    answers = [*whole_training_bullets(summary), *factor_bullets(summary)]
    on_top = {headline.bullet for headline in heads} | set(answers)
    answer = replace(first, bullets=tuple(b for b in first.bullets if b not in on_top))
    plots = {plot.key: plot for plot in charts_of(summary, charts)}
    figures = {key: plot.specification("container") for key, plot in plots.items()}
    forest, trade_off = plots.pop("speedups", None), plots.pop(_time_trade_off(summary), None)
    trials = trial_data(summary)
    names = ["page.js", "plots.js", "trials.js", *(["live.js"] if live_version is not None else [])]
    scripts = [vega(), *map(_file, names)]
    return _template().render(
        title=title(summary),
        version=__version__,
        policy=_policy(scripts, asks_server=live_version is not None),
        live_version=live_version,
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
        questions=questions_of(
            [answer, *others], [*plots.values()], has_trials=bool(summary.trials)
        ),
        signs=_SIGNS,
        most_rows=MOST_ROWS,
        drawn_trials=len(trials["arm_of"]),
        all_trials=trials["of"],
        figures_json=script_json(figures),
        trials_json=script_json(trials),
        scripts=scripts,
    )


def _time_trade_off(summary: ReportSummary) -> str:
    """Return the key of the chart of the result against the time of training, over all hardware."""
    timed = (front for front in summary.fronts if front.expense == "train_s")
    front = next(timed, None)
    return trade_off_key(front) if front else ""


def questions_of(
    sections: Sequence[Section], plots: Sequence[Chart], *, has_trials: bool = True
) -> list[Question]:
    """Return the sections with their plots, grouped by the question that they answer.

    The raw trials are a question of their own, before the last one, how to read the report. A plot
    whose section is missing has one without tables, by which a reader judges the others.
    """
    keys = {section.key for section in sections}
    by_section = grouped((plot.section, plot) for plot in plots)
    groups: dict[str, list[PagePart]] = {part: [] for part in PARTS}
    for section in sections:
        groups[section.part].append((section, by_section.get(section.key, [])))
    if others := [plot for plot in plots if plot.section not in keys]:
        groups["trust"].append((Section("Other charts"), others))
    questions = [(part, PARTS[part], contents) for part, contents in groups.items() if contents]
    if has_trials:
        questions.insert(len(questions) - bool(groups["reading"]), ("trials", "Raw trials", []))
    return questions


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


def _policy(scripts: Iterable[str], *, asks_server: bool) -> str:
    """Return the policy of the page: no requests but to its server, and only these scripts."""
    # Source: W3C, "Content Security Policy Level 3", 2.3.1. Styles have no digests, because Vega
    # writes its own; they cannot request anything.
    digests = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    requests = "connect-src 'self'; " if asks_server else ""
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; {requests}script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def script_json(value: Any) -> str:
    """Write JSON that cannot end a script for an HTML parser: ASCII without `<`, `>`, `&`."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.translate({ord(char): f"\\u{ord(char):04x}" for char in "<>&"})


def trial_data(summary: ReportSummary) -> dict[str, Any]:
    """Return the columns of the trials' CSV; those that are `coded` have indices of `texts`.

    `arms` are in the order of the summary, which also decides the colours of plots; `plotted` is
    the name of an arm in plots. `slower` is the word for a ratio below 1. Fractions have six
    figures. Of many trials those are left out whose blocks are not drawn.
    """
    name = arm_names(summary)
    place = {entry.arm: i for i, entry in enumerate(summary.arms)}
    drawn = summary.drawn_blocks
    trials = [trial for trial in summary.trials if trial.block in drawn]
    columns = csv_columns(trials, summary.matched_runs)
    texts = {"": 0}
    data = dict[str, list[Any]]()
    coded = []
    for column, cells in columns.items():
        if all(cell is None or isinstance(cell, str) for cell in cells):
            coded.append(visible(column))
            data[visible(column)] = [
                texts.setdefault(str(cell or ""), len(texts)) for cell in cells
            ]
        else:
            data[visible(column)] = [_short(cell) for cell in cells]
    settings = len(config_names(trials))
    shown = (metric for metric in (*summary.sweep.objectives, *_FIRST) if metric in columns)
    return {
        "of": len(summary.trials),
        "sweep": slug(summary.sweep.label) or "trials",
        "slower": WORDS["slower"],
        "arms": [
            {
                "name": visible(name(entry.arm)),
                "short": visible(entry.arm.short_name),
                "plotted": short(name(entry.arm)),
                "implementation": visible(entry.arm.implementation),
                "hardware": visible(str(entry.arm.hardware)),
                "variant": visible(entry.arm.variant_name or ""),
            }
            for entry in summary.arms
        ],
        "arm_of": [place[trial.arm] for trial in trials],
        "params": [*data][len(HEADER) : len(HEADER) + settings],
        "shown": [*dict.fromkeys(shown)][:MOST_SHOWN],
        "columns": data,
        "coded": coded,
        "texts": [*map(visible, texts)],
    }


def _short(value: CsvCell) -> CsvCell:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
