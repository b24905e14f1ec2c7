"""Parts of the HTML page, without a browser: escaping, columns, scales, sections and policy."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.charts import Chart, palette, plots_of
from orchestrator.report.charts.chart import Axis, Series
from orchestrator.report.charts.scale import reach, ticks
from orchestrator.report.charts.telemetry import title_of
from orchestrator.report.document import Table
from orchestrator.report.formats.html import to_html
from orchestrator.report.formats.html.escaping import plotly_lines, plotly_text, script_json
from orchestrator.report.formats.html.figure import figure
from orchestrator.report.formats.html.parts import parts_of
from orchestrator.report.formats.html.rows import trial_columns
from orchestrator.report.sections.document import document
from orchestrator.report.wording import arm_names
from tests.browser import samples

PAPER: dict[tuple[str, ...], str] = {palette.LIGHT: "#ffffff", palette.DARK: "#14171c"}


@given(st.text())
def test_json_in_a_script_has_no_markup_and_keeps_its_text(text: str) -> None:
    script = script_json({"texts": [text]})
    assert not set("<>&\u2028\u2029") & set(script)
    assert json.loads(script) == {"texts": [text]}


def test_json_in_a_script_has_null_for_numbers_that_are_not_finite() -> None:
    assert script_json([math.inf, math.nan, (1.5, None)]) == "[null,null,[1.5,null]]"


def test_a_text_for_plotly_is_escaped() -> None:
    assert plotly_text('<a href="x">&lt;</a>') == '&lt;a href="x"&gt;&amp;lt;&lt;/a&gt;'
    assert plotly_text("$x$") == "&#36;x&#36;"
    assert plotly_text("a\nb\x1b") == "a b\\x1b"
    assert plotly_text("x" * 60, 10) == "x" * 9 + "…"
    assert plotly_lines("one two <br> three", 8) == "one two<br>&lt;br&gt;<br>three"


def test_a_page_allows_its_own_scripts_only() -> None:
    page = to_html(samples.summary(samples.hostile()))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    directives = policy[1].replace("&#39;", "'")
    assert directives.startswith("default-src 'none'; script-src 'sha256-")
    assert "base-uri 'none'; form-action 'none'" in directives
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert re.findall(r"sha256-([^']*)'", directives) == digests
    assert len(digests) == 3


def test_a_page_is_the_same_for_the_same_summary() -> None:
    summary = samples.summary(samples.small())
    assert to_html(summary) == to_html(summary)


def test_every_plot_is_in_the_section_of_its_figures() -> None:
    summary = samples.summary(samples.rich())
    full_report, plots = document(summary), plots_of(summary)
    parts = parts_of(full_report, plots)
    assert [part.title for part in parts] == [section.title for section in full_report.sections]
    assert sum(len(part.plots) for part in parts) == len(plots)
    assert len({part.id for part in parts}) == len(parts)


def test_the_matrix_of_one_hardware_class_is_in_the_speed_up_section() -> None:
    summary = samples.summary(samples.rich(blocks=7, repeats=1, of=samples.arms()[:2]))
    parts = parts_of(document(summary), plots_of(summary))
    (speed,) = (part for part in parts if part.title.startswith("Speed-up"))
    assert [plot.key for plot in speed.plots] == ["speedups", "matrix"]


def test_plots_without_a_section_get_one_before_the_validity() -> None:
    summary = samples.summary(samples.small())
    full_report = document(summary)
    one_section = type(full_report)(
        full_report.title, tuple(s for s in full_report.sections if s.title == "Validity")
    )
    parts = parts_of(one_section, plots_of(summary))
    assert parts[-1].title == "Validity"
    assert "Phases" in [part.title for part in parts]


@pytest.mark.parametrize("of", [samples.rich, samples.hostile])
def test_plots_have_unique_names_that_are_file_names(of: object) -> None:
    assert callable(of)
    keys = [plot.key for plot in plots_of(samples.summary(of()))]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z0-9-]{1,160}", key) for key in keys)


def test_columns_have_every_trial_and_texts_once() -> None:
    record = samples.rich()
    summary = samples.summary(record)
    columns = trial_columns(summary, arm_names(summary))
    failed = [i for i, t in enumerate(summary.trials) if t.status == "failed"]
    assert [columns["texts"][columns["failure"][i]] for i in failed] == [
        summary.trials[i].failure_text for i in failed
    ]
    assert columns["run"] == [trial.run_id for trial in summary.trials]
    assert columns["params"]["units"] == [trial.config["units"] for trial in summary.trials]
    step_times = columns["metrics"]["step_ms"]
    for trial, value in zip(summary.trials, step_times, strict=True):
        expected = trial.metrics.get("step_ms")
        assert value == (None if expected is None else pytest.approx(expected, rel=1e-5))
    assert columns["shown"] == ["val_accuracy", "step_ms", "train_s"]
    assert len(columns["texts"]) == len(set(columns["texts"]))


@pytest.mark.parametrize("colours", PAPER)
def test_colours_contrast_with_the_page(colours: tuple[str, ...]) -> None:
    """The contrast is at least 3 to 1: WCAG 2.2, 1.4.11."""
    assert min(contrast(colour, PAPER[colours]) for colour in colours) >= 3


def test_forty_arms_have_distinct_styles() -> None:
    looks = {(palette.colour(i), palette.symbol(i), palette.dash(i)) for i in range(40)}
    assert len(looks) == 40
    bars = {(palette.colour(i), palette.hatch(i)) for i in range(16)}
    assert len(bars) == 16


@given(
    st.floats(1e-6, 1e6),
    st.floats(1.01, 1e6),
    st.booleans(),
)
def test_ticks_are_few_and_within_the_axis(low: float, times: float, log: bool) -> None:
    high = low * times
    positions = ticks(low, high, log=log)
    assert 1 <= len(positions) <= 9
    assert list(positions) == sorted(set(positions))
    assert all(low * 0.999 <= tick <= high * 1.001 for tick in positions)


def test_an_axis_covers_all_values_and_cuts_infinite_intervals() -> None:
    series = Series("a", 0, "points", (0, 1), (0.5, 2.0), (0.4, 1e-9), (0.6, math.inf))
    chart = Chart(
        "k", "speed", "t", "", Axis("", categories=("a", "b")), Axis("x", log=True), (series,),
        Table((), ()), sideways=True,
    )  # fmt: skip
    low, high = reach(chart, chart.values)
    assert 0.01 < low < 0.4
    assert 2 < high < 100
    assert reach(chart, chart.positions) == (-0.5, 1.5)
    errors = [trace["error_x"] for trace in figure(chart)["data"]]
    assert all(math.isfinite(end) for end in (*errors[0]["array"], *errors[0]["arrayminus"]))


def test_curves_are_titled_with_their_units() -> None:
    assert title_of("system/gpu_0_temperature_celsius") == "GPU 0 temperature (°C)"
    assert title_of("system/trainer_memory_usage_megabytes") == "trainer memory usage (MB)"


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours by WCAG."""
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
