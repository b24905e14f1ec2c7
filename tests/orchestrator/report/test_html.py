"""The HTML page without a browser, and its charts, which are image files too."""

import base64
import hashlib
import json
import math
import re
from pathlib import Path
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.arms.arm_summary import PHASES
from orchestrator.analysis.statistics.formatting import ratio
from orchestrator.analysis.summary import summarise
from orchestrator.core.trial import EpochRecord
from orchestrator.report.charts import CHARTS, charts_of
from orchestrator.report.charts.chart import axis
from orchestrator.report.charts.look import DARK, DASHES, LIGHT, SYMBOLS
from orchestrator.report.document import PARTS
from orchestrator.report.formats import html
from orchestrator.report.formats.html import to_html
from orchestrator.report.formats.images import draw
from orchestrator.report.sections.document import document
from tests.building.arms import PORTABLE, UNROLL, XLA
from tests.building.known_records import UNITS, build_record_by_laws
from tests.building.large_records import (
    build_hostile_record,
    build_large_record,
    build_rich_record,
)
from tests.building.records import build_record
from tests.building.trials import build_trial

SVG = "{http://www.w3.org/2000/svg}"


@given(st.text())
def test_json_in_a_script_has_no_markup_and_keeps_its_text(text: str) -> None:
    script = html.script_json({"texts": [text]})
    assert not set("<>&\u2028\u2029") & set(script)
    assert json.loads(script) == {"texts": [text]}


def test_a_page_allows_its_own_scripts_only_and_names_no_server() -> None:
    summary = summarise(build_hostile_record())
    page = html.to_html(summary)
    assert page == html.to_html(summary)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    directives = policy[1].replace("&#39;", "'")
    assert directives.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in directives
    assert "base-uri 'none'; form-action 'none'" in directives
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert re.findall(r"sha256-([^']*)'", directives) == digests
    assert len(digests) == 2
    assert not re.search("jsdelivr|unpkg|cdnjs|vega-lite/v[0-9.]+json", page)


def test_the_script_of_vega_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Mock(return_value="vega()")
    monkeypatch.setattr("vl_convert.javascript_bundle", bundle)
    for place, made in ((tmp_path / "new", 1), (tmp_path / "new", 1), (Path("/dev/null/x"), 2)):
        monkeypatch.setenv("RNNSWEEP_CACHE", str(place))
        assert html.vega.__wrapped__() == "vega()"
        assert bundle.call_count == made


def test_every_section_and_chart_answers_a_question() -> None:
    summary = summarise(build_rich_record())
    sections, charts = document(summary).sections, charts_of(summary)
    questions = html.questions_of(sections, charts)
    assert [id for id, *_ in questions] == [*PARTS]
    parts = [part for *_, parts in questions for part in parts]
    own = [section for section, _ in parts]
    assert own == list(sections)
    assert {p.key for _, plots in parts for p in plots} == {chart.key for chart in charts}
    (trust,) = (
        contents for id, _, contents in html.questions_of(sections[-1:], charts) if id == "trust"
    )
    assert sum(len(plots) for _, plots in trust) == len(charts)


def test_charts_of_many_trials_have_the_points_of_some_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = summarise(build_large_record(blocks=30, kernels=2))

    def points() -> int:
        (chart,) = [c for c in charts_of(summary) if c.key == "effect-step-ms-units"]
        return len([*chart.data["points"]])

    every = points()
    monkeypatch.setattr("orchestrator.analysis.summary.MOST_DRAWN", 40)
    marked = {point.block for front in summary.fronts for point in front.front.points}
    assert 10 <= len(summary.drawn_blocks) < 30 and marked <= summary.drawn_blocks
    assert points() * 30 == every * len(summary.drawn_blocks)


def test_every_chart_is_a_png_and_an_svg_the_same_each_time(tmp_path: Path) -> None:
    summary = summarise(build_large_record(blocks=8, kernels=1, epochs=2))
    paths = draw(summary, tmp_path / "new" / "plots")
    keys = [chart.key for chart in charts_of(summary)]
    assert {"speedups", "phases", "effect-step-ms-units", "crossover-units"} <= set(keys)
    assert {path.name for path in paths} == {f"{k}.{e}" for k in keys for e in ("png", "svg")}
    for path in paths:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            assert ElementTree.parse(path).findtext(f"{SVG}desc")
            assert "var(--" not in path.read_text()
    again = draw(summary, tmp_path / "other", CHARTS[:2])
    assert (
        again
        and {path.name: path.read_bytes() for path in again}.items()
        <= {path.name: path.read_bytes() for path in paths}.items()
    )


def test_names_are_escaped_and_are_no_paths(tmp_path: Path) -> None:
    paths = draw(summarise(build_hostile_record()), tmp_path / "plots")
    assert {path.parent for path in paths} == {tmp_path / "plots"}
    assert all(re.fullmatch(r"[a-z0-9-]{1,160}\.(png|svg)", path.name) for path in paths)
    assert len({path.name for path in paths}) == len(paths)
    for path in paths:
        if path.suffix == ".svg":
            tags = {element.tag for element in ElementTree.parse(path).iter()}
            assert not tags & {f"{SVG}script", f"{SVG}image", f"{SVG}a", "img", "script"}


def test_a_verdict_is_shown_with_the_corrected_interval() -> None:
    """Of two comparisons, the corrected interval is the wider one."""
    laws = {PORTABLE: lambda _: 12.0, XLA: lambda _: 10.0, UNROLL: lambda _: 11.0}
    summary = summarise(build_record_by_laws(laws, [{"units": size} for size in UNITS], noise=0.1))
    charts = {chart.key: chart.specification(800) for chart in charts_of(summary)}
    texts = {key: json.dumps(chart, ensure_ascii=False) for key, chart in charts.items()}
    assert "thin: corrected" in texts["speedups"]
    corrected = [c for c in summary.comparisons if ratio(c.corrected) != ratio(c.speedup)]
    assert corrected  # Holm's procedure does not widen the last one
    for comparison in corrected:
        assert f"{comparison.verdict}: {ratio(comparison.corrected)}" in texts["speedups"]


@pytest.mark.parametrize(("log", "most"), [(True, 100), (False, 250)])
def test_an_axis_covers_all_values_and_cuts_wild_intervals(log: bool, most: float) -> None:
    drawn = axis("x", "x", [0.5, None, math.nan, 2.0], [0.4, 1e-9, math.inf, 3.0], log=log)
    low, high = drawn["scale"]["domain"]
    assert 0.01 < low < 0.4 if log else -200 < low < 0.4
    assert 3 < high < most


def test_55_arms_have_distinct_styles_with_contrast() -> None:
    """The contrast is at least 3 to 1: WCAG 2.2, 1.4.11."""
    looks = {(LIGHT[i % 11], SYMBOLS[i % len(SYMBOLS)], i % len(DASHES)) for i in range(55)}
    assert len(looks) == 55
    for colours, paper in ((LIGHT, "#ffffff"), (DARK, "#14171c")):
        for colour in colours:
            darker, lighter = sorted((_luminance(colour), _luminance(paper)))
            assert (lighter + 0.05) / (darker + 0.05) >= 3


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_a_chart_by_a_param_says_what_is_held_only_where_something_is() -> None:
    """One param alone has nothing to hold; two have."""
    laws = {PORTABLE: lambda c: float(c["units"]), XLA: lambda c: 2.0 * float(c["units"])}
    alone = [{"units": size} for size in UNITS]
    both = [{"units": size, "layers": 1 + place % 2} for place, size in enumerate(UNITS * 2)]
    for configs, is_held in ((alone, False), (both, True)):
        summary = summarise(build_record_by_laws(laws, configs))
        (chart,) = [c for c in charts_of(summary) if c.key == "effect-step-ms-units"]
        assert ("All other params are held" in chart.notes) == is_held


def test_lines_that_lie_on_each_other_are_named() -> None:
    curves = {
        PORTABLE: (0.5, 0.7, 0.9),
        XLA: (0.5, 0.7, 0.9),
        UNROLL: (0.4, 0.6, 0.7),
    }
    trials = [
        build_trial(
            block,
            arm,
            epochs=tuple(
                EpochRecord(i, 1.0, 0.1, {"val_accuracy": value}) for i, value in enumerate(values)
            ),
        )
        for block in range(3)
        for arm, values in curves.items()
    ]
    charts = charts_of(summarise(build_record(trials, tuple(curves))))
    (chart,) = [c for c in charts if c.key == "learning-val-accuracy-epochs"]
    (note,) = chart.notes
    assert PORTABLE.short_name in note and XLA.short_name in note
    assert UNROLL.short_name not in note


def test_every_phase_has_a_colour_of_its_own() -> None:
    seconds = {phase: 1.0 + place for place, phase in enumerate(PHASES)}
    (chart,) = [
        c
        for c in charts_of(summarise(build_record([build_trial(0, PORTABLE, metrics=seconds)])))
        if c.key == "phases"
    ]
    (bars, *_) = chart.layers
    colours = bars["encoding"]["color"]["scale"]["range"]
    assert len(set(colours)) == len(PHASES)


def test_a_front_of_one_config_has_its_values_once() -> None:
    trials = [build_trial(block, XLA, val_accuracy=0.5, train_s=3.0) for block in range(2)]
    trials += [
        build_trial(0, PORTABLE, val_accuracy=0.75, train_s=1.0),
        build_trial(1, PORTABLE, val_accuracy=0.5, train_s=2.0),
    ]
    charts = charts_of(summarise(build_record(trials)))
    (chart,) = [c for c in charts if c.key.startswith("pareto-train-s")]
    assert chart.description.count("0.75") == 1


def test_the_time_against_the_result_is_on_the_first_screen() -> None:
    page = to_html(summarise(build_large_record(8, 3)))
    first, _, rest = page.partition('<section class="question"')
    assert 'id="plot-pareto-train-s-all-hardware"' in first
    assert 'id="plot-pareto-train-s-all-hardware"' not in rest.partition("<script")[0]
