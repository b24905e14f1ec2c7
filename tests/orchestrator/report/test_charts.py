"""The charts of a report: their data, and the image files."""

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from orchestrator.analysis.contrasts.contrast import Verdict
from orchestrator.analysis.summary import summarise
from orchestrator.core.trial import EpochRecord
from orchestrator.report.charts import CHARTS, charts_of
from orchestrator.report.charts.chart import axis
from orchestrator.report.charts.look import DARK, DASHES, LIGHT, SYMBOLS
from orchestrator.report.document import PARTS
from orchestrator.report.formats.images import draw
from orchestrator.report.words import TIME_WORDS
from tests.building.arms import PORTABLE, UNROLL, XLA
from tests.building.known_records import UNITS, build_record_by_laws
from tests.building.large_records import build_hostile_record, build_large_record
from tests.building.records import build_record
from tests.building.trials import build_trial

SVG = "{http://www.w3.org/2000/svg}"


def test_charts_of_many_trials_have_the_points_of_some_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = summarise(build_large_record(blocks=30, kernels=2))

    def points() -> int:
        (chart,) = [c for c in charts_of(summary) if c.key == "speedup-by-units"]
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
    assert {chart.section for chart in charts_of(summary)} <= {*PARTS}
    assert {"speedups", "speedup-by-units", "learning-val-accuracy-epochs"} <= set(keys)
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


def test_every_arm_has_its_verdict_and_the_interval_that_decides_it() -> None:
    laws = {PORTABLE: lambda _: 12.0, XLA: lambda _: 10.0, UNROLL: lambda _: 11.9}
    summary = summarise(build_record_by_laws(laws, [{"units": size} for size in UNITS]))
    (chart,) = [chart for chart in charts_of(summary) if chart.key == "speedups"]
    drawn = {row["name"]: row for row in chart.data["rows"]}
    for arm in (XLA, UNROLL):
        contrast = summary.contrast(arm, PORTABLE, "step_ms")
        assert contrast is not None
        row, estimate = drawn[arm.short_name], contrast.estimate
        assert (row["value"], row["low"], row["high"]) == (
            estimate.value,
            estimate.low,
            estimate.high,
        )
        assert row["label"].startswith(TIME_WORDS[contrast.verdict])
        assert (row["fill"] == "var(--paper)") == (contrast.verdict == Verdict.OPEN)
    assert [*drawn] == [XLA.short_name, UNROLL.short_name]


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


def test_a_chart_by_a_size_says_what_is_held_only_where_something_is() -> None:
    """One param alone has nothing to hold; two have."""
    laws = {PORTABLE: lambda c: float(c["units"]), XLA: lambda c: 2.0 * float(c["units"])}
    alone = [{"units": size} for size in UNITS]
    both = [{"units": size, "layers": 1 + place % 2} for place, size in enumerate(UNITS * 2)]
    for configs, is_held in ((alone, False), (both, True)):
        summary = summarise(build_record_by_laws(laws, configs))
        (chart,) = [c for c in charts_of(summary) if c.key == "speedup-by-units"]
        assert ("All other params are held constant" in chart.notes) == is_held


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


def test_a_front_of_one_config_has_its_values_once() -> None:
    trials = [build_trial(block, XLA, val_accuracy=0.5, train_s=3.0) for block in range(2)]
    trials += [
        build_trial(0, PORTABLE, val_accuracy=0.75, train_s=1.0),
        build_trial(1, PORTABLE, val_accuracy=0.5, train_s=2.0),
    ]
    charts = charts_of(summarise(build_record(trials)))
    (chart,) = [c for c in charts if c.key.startswith("pareto-train-s")]
    assert chart.description.count("0.75") == 1
