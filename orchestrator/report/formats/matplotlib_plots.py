"""The report's plots as files, PNG and SVG, drawn by Matplotlib without a display."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.statistics.formatting import number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts import Chart, Heat, Plot, palette, plots_of
from orchestrator.report.charts.chart import Axis, Series
from orchestrator.report.charts.scale import reach, ticks
from orchestrator.report.document import visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _QUIET, _RULE = "#1b2026", "#525c69", "#d7dde4"
_UP, _DOWN = "#63c7a6", "#f2a679"
_WIDTH_IN = 9.0
_DPI = 144
_LONGEST = 60  # signs of a name; the report's tables have it whole
_MOST_MARKS = 24
_MARKERS = {
    "circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v",
    "cross": "P", "x": "X", "star": "*", "pentagon": "p", "hexagram": (6, 1, 0),
}  # fmt: skip
_DASHES: dict[str, Any] = {
    "solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.5)), "dashdot": (0, (5, 2, 1, 2)),
    "longdash": (0, (9, 3)),
}  # fmt: skip


def draw(summary: ReportSummary, folder: Path) -> tuple[Path, ...]:
    """Draw every plot of the report into the folder, which is made where it is missing.

    Names are those of the plots (`speedups.png`, `pareto-train-s-nvidia-h200.svg`), the same for
    the same summary; files of these names are written anew, others are left alone. The same plots
    stand on the HTML page.

    Returns:
        The files written, a PNG and an SVG for each plot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(path for plot in plots_of(summary) for path in _files(plot, folder))


def _files(plot: Plot, folder: Path) -> Iterator[Path]:
    import matplotlib as mpl  # noqa: PLC0415  # it takes half a second
    from matplotlib.figure import Figure  # noqa: PLC0415

    settings = {
        "svg.hashsalt": plot.key,  # so that the same plot is the same file
        "text.parse_math": False,  # a name with two dollars is no mathematics
        "text.usetex": False,
        "font.size": 10,
        "hatch.linewidth": 0.7,
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=(_WIDTH_IN, _height_in(plot)), layout="constrained", dpi=_DPI)
        if isinstance(plot, Chart):
            _chart(plot, figure)
        else:
            _heat(plot, figure)
        for suffix, metadata in (("png", {"Title": plot.title}), ("svg", _svg_metadata(plot))):
            path = folder / f"{plot.key}.{suffix}"
            figure.savefig(path, metadata=metadata)
            yield path


def _svg_metadata(plot: Plot) -> dict[str, str | None]:
    """Its text alternative, and no date."""
    return {"Title": visible(plot.title), "Description": visible(plot.told), "Date": None}


def _height_in(plot: Plot) -> float:
    if isinstance(plot, Heat):
        return 1.2 + 0.55 * len(plot.rows)
    legend = 0.24 * math.ceil(len(_listed(plot)) / 2)
    return legend + (1.2 + 0.52 * len(plot.at.places) if plot.at.places else 4.4)


def _listed(chart: Chart) -> dict[str, list[Series]]:
    """The series of each name that the legend has; none where the rows have their names."""
    if chart.at.places and all(series.drawn != "bars" for series in chart.series):
        return {}
    own: dict[str, list[Series]] = {}
    for series in chart.series:
        own.setdefault(series.name, []).append(series)
    return own


def _chart(chart: Chart, figure: Figure) -> None:
    axes = figure.subplots()
    _frame(chart, axes)
    lefts: dict[int, float] = {}
    for series in chart.series:
        if series.drawn == "bars":
            _bars(series, axes, lefts)
        else:
            _marks(chart, series, axes)
    if len(listed := _listed(chart)) > 1:
        figure.legend(
            handles=[_handle(name, own) for name, own in listed.items()],
            loc="outside lower left",
            ncols=4 if chart.at.places else 2,
            frameon=False,
            fontsize=9,
            labelcolor=_INK,
        )


def _handle(name: str, own: list[Series]) -> Artist:
    """The legend's sample of all series of a name: a bar, or their line and their symbol."""
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    style, colour = own[0].style, palette.colour(own[0].style)
    kinds = {series.drawn for series in own}
    if "bars" in kinds:
        hatch = 2 * palette.hatch(style)
        return Patch(facecolor=colour, edgecolor="white", hatch=hatch, label=_short(name))
    return Line2D(
        [], [], color=colour, linewidth=1.6, markersize=6, label=_short(name),
        linestyle=_DASHES[palette.dash(style)] if kinds & {"line", "marked line"} else "none",
        marker="" if kinds == {"line"} else _MARKERS[palette.symbol(style)],
    )  # fmt: skip


def _frame(chart: Chart, axes: Axes) -> None:
    """Title, axes, grid, bands, and the names of rows above them."""
    axes.set_title(_short(chart.title, 90), loc="left", fontweight="bold", color=_INK)
    across, up = (chart.values, chart.at) if chart.sideways else (chart.at, chart.values)
    _scale(chart, across, axes.xaxis, axes.set_xlim)
    _scale(chart, up, axes.yaxis, axes.set_ylim)
    axes.grid(color=_RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[:].set_color(_QUIET)
    axes.tick_params(colors=_QUIET)
    for band in chart.bands:
        on_x = chart.sideways == (band.along == "values")
        if band.low == band.high:
            (axes.axvline if on_x else axes.axhline)(band.low, color=_QUIET, ls=":", lw=1.3)
        else:
            (axes.axvspan if on_x else axes.axhspan)(band.low, band.high, color=_RULE, lw=0)
    labels = {int(at): s.labels[i] for s in chart.series for i, at in enumerate(s.at) if s.labels}
    for place, name in enumerate(chart.at.places):
        text = "   ".join(filter(None, (_short(name), _short(labels.get(place, ""), 80))))
        axes.annotate(
            text, (0, place - 0.24), xycoords=("axes fraction", "data"), xytext=(3, 0),
            textcoords="offset points", va="bottom", fontsize=9, color=_INK, zorder=5,
            bbox={"facecolor": "white", "alpha": 0.75, "lw": 0, "pad": 0.5},
        )  # fmt: skip


def _scale(chart: Chart, axis: Axis, drawn: Any, set_limits: Any) -> None:
    low, high = reach(chart, axis)
    if axis.places:
        set_limits(high, low - 0.15)
        drawn.set_ticks([])
        return
    if axis.log:
        (drawn.axes.set_xscale if drawn.axis_name == "x" else drawn.axes.set_yscale)("log")
    places = ticks(low, high, log=axis.log)
    set_limits(low, high)
    drawn.set_ticks(places, [number(place) for place in places])
    drawn.set_ticks([], minor=True)
    drawn.set_label_text(_short(axis.title, 90), color=_QUIET)


def _bars(series: Series, axes: Axes, lefts: dict[int, float]) -> None:
    places = [int(at) for at in series.at]
    lengths = [value or 0.0 for value in series.values]
    axes.barh(
        places, lengths, left=[lefts.get(place, 0.0) for place in places], height=0.4,
        color=palette.colour(series.style), edgecolor="white", linewidth=0.6,
        hatch=2 * palette.hatch(series.style),
    )  # fmt: skip
    for place, length in zip(places, lengths, strict=True):
        lefts[place] = lefts.get(place, 0.0) + length


def _marks(chart: Chart, series: Series, axes: Axes) -> None:
    colour = palette.colour(series.style)
    values = [math.nan if value is None else value for value in series.values]
    x, y = (values, series.at) if chart.sideways else (series.at, values)
    if series.low and "line" in series.drawn:
        axes.fill_between(series.at, series.low, series.high, color=colour, alpha=0.15, lw=0)
    if series.low and "line" not in series.drawn:
        wide = series.drawn == "interval"
        over = [max(0.0, h - v) for h, v in zip(_near(chart, series.high), values, strict=True)]
        under = [max(0.0, v - low) for low, v in zip(_near(chart, series.low), values, strict=True)]
        ends = [under, over]
        axes.errorbar(
            x, y, xerr=ends if chart.sideways else None, yerr=None if chart.sideways else ends,
            fmt="none", ecolor=colour, elinewidth=1.2 if wide else 3.2, capsize=4 if wide else 0,
        )  # fmt: skip
    if series.drawn == "interval":
        return
    lines = "line" in series.drawn
    axes.plot(
        x, y, color=colour, alpha=0.4 if series.faint else 1.0, linewidth=1.6,
        linestyle=_DASHES[palette.dash(series.style)] if lines else "none",
        marker=None if series.drawn == "line" else _MARKERS[palette.symbol(series.style)],
        markersize=5 if series.faint or lines else 7,
        markerfacecolor="white" if series.hollow else colour, markeredgecolor=colour,
        markevery=max(1, len(series.at) // _MOST_MARKS),
        drawstyle="steps-post" if series.stepped else "default",
    )  # fmt: skip


def _near(chart: Chart, ends: tuple[float, ...]) -> list[float]:
    """The intervals' ends, cut off where the axis is: some are endless."""
    low, high = reach(chart, chart.values)
    return [min(max(end, low), high) for end in ends]


def _heat(heat: Heat, figure: Figure) -> None:
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    axes = figure.subplots()
    shades = [[math.nan if s is None else s for s in row] for row in heat.shades]
    colours = LinearSegmentedColormap.from_list("speed-up", [_DOWN, "white", _UP])
    across, down = ([i - 0.5 for i in range(len(n) + 1)] for n in (heat.columns, heat.rows))
    axes.pcolormesh(across, down, shades, cmap=colours, vmin=-1, vmax=1)
    axes.invert_yaxis()
    axes.set_title(_short(heat.title, 90), loc="left", fontweight="bold", color=_INK)
    axes.set_xticks(range(len(heat.columns)), [_short(c, 26) for c in heat.columns])
    axes.set_yticks(range(len(heat.rows)), [_short(row, 34) for row in heat.rows])
    axes.xaxis.tick_top()
    axes.tick_params(length=0, colors=_INK)
    axes.spines[:].set_color(_RULE)
    for y, (numbers, verdicts) in enumerate(zip(heat.cells, heat.verdicts, strict=True)):
        for x, told in enumerate(zip(numbers, verdicts, strict=True)):
            text = "\n".join(filter(None, told))
            axes.text(x, y, text, ha="center", va="center", fontsize=8.5, color=_INK)


def _short(raw: str, longest: int = _LONGEST) -> str:
    line = visible(raw)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
