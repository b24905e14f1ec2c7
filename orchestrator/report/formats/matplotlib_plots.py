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
_LONGEST = 60  # characters of a name; the tables of the report have full names
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
    """Draw every plot of the report into the folder, which is created if it is missing.

    The file names are those of the plots (`speedups.png`, `pareto-train-s-nvidia-h200.svg`), the
    same for the same summary. Files of these names are replaced; other files are kept. The HTML
    page has the same plots.

    Returns:
        The files written, a PNG and an SVG for each plot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(path for plot in plots_of(summary) for path in _files(plot, folder))


def _files(plot: Plot, folder: Path) -> Iterator[Path]:
    import matplotlib as mpl  # noqa: PLC0415  # it takes half a second
    from matplotlib.figure import Figure  # noqa: PLC0415

    settings = {
        "svg.hashsalt": plot.key,  # the same plot gives the same file
        "text.parse_math": False,  # a name with two dollars is not mathematics
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
    """Return the text alternative of the plot, and no date."""
    return {"Title": visible(plot.title), "Description": visible(plot.description), "Date": None}


def _height_in(plot: Plot) -> float:
    if isinstance(plot, Heat):
        return 1.2 + 0.55 * len(plot.rows)
    legend = 0.24 * math.ceil(len(_listed(plot)) / 2)
    return legend + (
        1.2 + 0.52 * len(plot.positions.categories) if plot.positions.categories else 4.4
    )


def _listed(chart: Chart) -> dict[str, list[Series]]:
    """Return the series of each legend entry; empty if the rows have names already."""
    if chart.positions.categories and all(series.mark != "bars" for series in chart.series):
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
        if series.mark == "bars":
            _bars(series, axes, lefts)
        else:
            _marks(chart, series, axes)
    if len(listed := _listed(chart)) > 1:
        figure.legend(
            handles=[_handle(name, own) for name, own in listed.items()],
            loc="outside lower left",
            ncols=4 if chart.positions.categories else 2,
            frameon=False,
            fontsize=9,
            labelcolor=_INK,
        )


def _handle(name: str, own: list[Series]) -> Artist:
    """Make the sample of a legend entry: a bar, or a line with its symbol."""
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    style, colour = own[0].style, palette.colour(own[0].style)
    kinds = {series.mark for series in own}
    if "bars" in kinds:
        hatch = 2 * palette.hatch(style)
        return Patch(facecolor=colour, edgecolor="white", hatch=hatch, label=_short(name))
    return Line2D(
        [], [], color=colour, linewidth=1.6, markersize=6, label=_short(name),
        linestyle=_DASHES[palette.dash(style)] if kinds & {"line", "marked line"} else "none",
        marker="" if kinds == {"line"} else _MARKERS[palette.symbol(style)],
    )  # fmt: skip


def _frame(chart: Chart, axes: Axes) -> None:
    """Draw the title, axes, grid and bands, and the names of rows above them."""
    axes.set_title(_short(chart.title, 90), loc="left", fontweight="bold", color=_INK)
    across, up = (
        (chart.values, chart.positions) if chart.sideways else (chart.positions, chart.values)
    )
    _scale(chart, across, axes.xaxis, axes.set_xlim)
    _scale(chart, up, axes.yaxis, axes.set_ylim)
    axes.grid(color=_RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[:].set_color(_QUIET)
    axes.tick_params(colors=_QUIET)
    for band in chart.bands:
        on_x = chart.sideways == (band.axis == "values")
        if band.low == band.high:
            (axes.axvline if on_x else axes.axhline)(band.low, color=_QUIET, ls=":", lw=1.3)
        else:
            (axes.axvspan if on_x else axes.axhspan)(band.low, band.high, color=_RULE, lw=0)
    labels = {
        int(at): s.labels[i] for s in chart.series for i, at in enumerate(s.positions) if s.labels
    }
    for place, name in enumerate(chart.positions.categories):
        text = "   ".join(filter(None, (_short(name), _short(labels.get(place, ""), 80))))
        axes.annotate(
            text, (0, place - 0.24), xycoords=("axes fraction", "data"), xytext=(3, 0),
            textcoords="offset points", va="bottom", fontsize=9, color=_INK, zorder=5,
            bbox={"facecolor": "white", "alpha": 0.75, "lw": 0, "pad": 0.5},
        )  # fmt: skip


def _scale(chart: Chart, axis: Axis, mpl_axis: Any, set_limits: Any) -> None:
    low, high = reach(chart, axis)
    if axis.categories:
        set_limits(high, low - 0.15)
        mpl_axis.set_ticks([])
        return
    if axis.log:
        (mpl_axis.axes.set_xscale if mpl_axis.axis_name == "x" else mpl_axis.axes.set_yscale)("log")
    places = ticks(low, high, log=axis.log)
    set_limits(low, high)
    mpl_axis.set_ticks(places, [number(place) for place in places])
    mpl_axis.set_ticks([], minor=True)
    mpl_axis.set_label_text(_short(axis.title, 90), color=_QUIET)


def _bars(series: Series, axes: Axes, lefts: dict[int, float]) -> None:
    places = [int(at) for at in series.positions]
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
    x, y = (values, series.positions) if chart.sideways else (series.positions, values)
    if series.low and "line" in series.mark:
        axes.fill_between(series.positions, series.low, series.high, color=colour, alpha=0.15, lw=0)
    if series.low and "line" not in series.mark:
        wide = series.mark == "interval"
        over = [max(0.0, h - v) for h, v in zip(_near(chart, series.high), values, strict=True)]
        under = [max(0.0, v - low) for low, v in zip(_near(chart, series.low), values, strict=True)]
        ends = [under, over]
        axes.errorbar(
            x, y, xerr=ends if chart.sideways else None, yerr=None if chart.sideways else ends,
            fmt="none", ecolor=colour, elinewidth=1.2 if wide else 3.2, capsize=4 if wide else 0,
        )  # fmt: skip
    if series.mark == "interval":
        return
    lines = "line" in series.mark
    axes.plot(
        x, y, color=colour, alpha=0.4 if series.faint else 1.0, linewidth=1.6,
        linestyle=_DASHES[palette.dash(series.style)] if lines else "none",
        marker=None if series.mark == "line" else _MARKERS[palette.symbol(series.style)],
        markersize=5 if series.faint or lines else 7,
        markerfacecolor="white" if series.hollow else colour, markeredgecolor=colour,
        markevery=max(1, len(series.positions) // _MOST_MARKS),
        drawstyle="steps-post" if series.stepped else "default",
    )  # fmt: skip


def _near(chart: Chart, ends: tuple[float, ...]) -> list[float]:
    """Return the ends of intervals, cut off at the ends of the axis: some are infinite."""
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
        for x, texts in enumerate(zip(numbers, verdicts, strict=True)):
            text = "\n".join(filter(None, texts))
            axes.text(x, y, text, ha="center", va="center", fontsize=8.5, color=_INK)


def _short(raw: str, longest: int = _LONGEST) -> str:
    line = visible(raw)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
