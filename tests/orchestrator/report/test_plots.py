"""The report's plots as files."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from orchestrator.analysis.statistics.formatting import ratio
from orchestrator.report.charts import plots_of
from orchestrator.report.charts.chart import Chart, Heat
from orchestrator.report.formats.matplotlib_plots import draw
from orchestrator.report.render import summarise
from tests.browser import samples
from tests.orchestrator.analysis.known_sweeps import UNITS, obeying
from tests.orchestrator.sample_records import PORTABLE, UNROLL, XLA

SVG = "{http://www.w3.org/2000/svg}"


def test_every_plot_is_a_png_and_an_svg(tmp_path: Path) -> None:
    summary = samples.summary(samples.small())
    paths = draw(summary, tmp_path / "new" / "plots")
    keys = [plot.key for plot in plots_of(summary)]
    assert {"speedups", "matrix", "phases", "crossover-units"} <= set(keys)
    assert {path.name for path in paths} == {f"{k}.{e}" for k in keys for e in ("png", "svg")}
    for path in paths:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            assert ElementTree.parse(path).getroot().tag == f"{SVG}svg"
    assert "matplotlib.pyplot" not in sys.modules or not _open_figures()


def test_the_same_summary_gives_the_same_files(tmp_path: Path) -> None:
    summary = samples.summary(samples.rich(blocks=6, repeats=1, of=samples.arms()[:2]))
    one, other = (draw(summary, tmp_path / name) for name in ("one", "other"))
    assert [path.name for path in one] == [path.name for path in other]
    for first, second in zip(one, other, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name


def test_a_verdict_is_shown_with_the_corrected_interval() -> None:
    """Of two comparisons, the corrected interval is the wider one."""
    laws = {PORTABLE: lambda _: 12.0, XLA: lambda _: 10.0, UNROLL: lambda _: 11.0}
    summary = summarise(obeying(laws, [{"units": size} for size in UNITS], noise=0.1))
    plots = {plot.key: plot for plot in plots_of(summary)}
    chart, heat = plots["speedups"], plots["matrix"]
    assert isinstance(chart, Chart)
    assert isinstance(heat, Heat)
    assert chart.values.title.endswith("; thin: corrected")
    labels = [label for series in chart.series for label in series.labels]
    cells = [cell for row in heat.cells for cell in row]
    corrected = [
        comparison
        for comparison in summary.comparisons
        if ratio(comparison.corrected) != ratio(comparison.speedup)
    ]
    assert corrected  # Holm's procedure does not widen the last one
    for comparison in corrected:
        assert any(
            label.endswith(f"{comparison.verdict}: {ratio(comparison.corrected)}")
            for label in labels
        )
        assert ratio(comparison.corrected) in cells
        assert ratio(comparison.speedup) not in cells


def test_names_are_escaped_and_are_no_paths(tmp_path: Path) -> None:
    paths = draw(samples.summary(samples.hostile()), tmp_path / "plots")
    assert {path.parent for path in paths} == {tmp_path / "plots"}
    for path in paths:
        if path.suffix == ".svg":
            tags = {element.tag for element in ElementTree.parse(path).iter()}
            assert not tags & {f"{SVG}script", f"{SVG}image", f"{SVG}a", "img", "script"}


@pytest.mark.parametrize("blocks", [0, 1])
def test_plots_of_few_blocks_are_drawn(tmp_path: Path, blocks: int) -> None:
    summary = samples.summary(samples.rich(blocks=blocks, repeats=1, epochs=0))
    assert len(draw(summary, tmp_path)) == 2 * len(plots_of(summary))


def _open_figures() -> list[int]:
    from matplotlib import pyplot  # noqa: PLC0415

    return pyplot.get_fignums()
