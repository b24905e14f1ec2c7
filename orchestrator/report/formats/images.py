"""The report's charts as files, PNG and SVG, drawn by vl-convert without a browser."""

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts import CHARTS, charts_of
from orchestrator.report.charts.chart import ChartBuilder, in_light, short
from orchestrator.report.document import visible
from orchestrator.storage.private_files import write_named

_WIDTH = 860
_PPI = 144


def draw(
    summary: ReportSummary, folder: Path, charts: Sequence[ChartBuilder] = CHARTS
) -> tuple[Path, ...]:
    """Draw every chart of the report into the folder, which is created if it is missing.

    Return the files, a PNG and an SVG for each chart. They are named after the charts, alike for
    the same summary. Files of these names are replaced; other files are kept.
    """
    import vl_convert  # noqa: PLC0415  (100 ms)

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for chart in charts_of(summary, charts):
        drawn = chart.specification(_WIDTH) | {"title": short(chart.title, 90), "padding": 12}
        svg = vl_convert.vegalite_to_svg(in_light(json.dumps(drawn)))
        for i, name in enumerate(dict.fromkeys(re.findall(r"clip\d+", svg))):
            svg = re.sub(rf"\b{name}\b", f"area{i}", svg)  # Vega counts on over all charts
        head, end, content = svg.partition(">")
        about = f"<title>{escape(visible(chart.title))}</title>"
        about += f"<desc>{escape(visible(chart.description))}</desc>"
        paths += [folder / f"{chart.key}.png", folder / f"{chart.key}.svg"]
        write_named(paths[-2], vl_convert.svg_to_png(svg, ppi=_PPI))
        write_named(paths[-1], f"{head}{end}{about}{content}".encode())
    return tuple(paths)
