"""The look that all charts share: colours, symbols, dashes, row names, Vega's configuration."""

from collections.abc import Mapping
from typing import Any

LIGHT = [
    "#0067b1",
    "#c8500a",
    "#00795c",
    "#a8478f",
    "#8a6800",
    "#2585b4",
    "#4f5661",
    "#a3213b",
    "#6a4fb3",
    "#5b7a00",
    "#7a4a2b",
]
DARK = [
    "#5ab4f0",
    "#ff9d5c",
    "#3dcfa6",
    "#e29bd0",
    "#e3c043",
    "#9fdcf5",
    "#c3cad4",
    "#ff8a94",
    "#b7a2f2",
    "#b5d35c",
    "#d9a98a",
]
"""Colours that distinguish arms on white and on black.

The hues follow Okabe and Ito's palette for colour-blind readers ("Color universal design", 2008),
darker on white and lighter on black so that each has a contrast of 3 to 1 at least (WCAG 2.2,
1.4.11). They repeat after 11 arms, symbols after 9 and dashes after 5: 55 arms differ. Each phase
has a colour of its own.
"""

SYMBOLS = [
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "cross",
    "triangle-left",
    "triangle-right",
    "M-1,-1L1,1L0,0L1,-1L-1,1L0,0Z",
]
DASHES = [[1, 0], [7, 3], [2, 3], [7, 3, 2, 3], [12, 4]]

TOKENS = {"ink": "#1b2026", "quiet": "#525c69", "rule": "#d7dde4", "paper": "#ffffff"}
"""The light theme's colours of the page's CSS variables (`var(--ink)`), for image files."""

ROW_NAMES: Mapping[str, Mapping[str, Any]] = {
    "row": {
        "color": "var(--ink)",
        "fontSize": 12,
        "fontWeight": "bold",
        "align": "left",
        "x": 0,
        "dy": {"expr": "width > 600 ? -16 : -25"},
        "limit": {"expr": "width > 600 ? width - 260 : width"},
    },
    "label": {
        "color": "var(--ink)",
        "fontSize": 12,
        "align": {"expr": "width > 600 ? 'right' : 'left'"},
        "x": {"expr": "width > 600 ? width : 0"},
        "dy": {"expr": "width > 600 ? -16 : -11"},
        "limit": {"expr": "width"},
    },
}
"""How the fields `row` and `label` of a row are drawn above it.

The label is at the right of the name, or below it in a narrow chart.
"""

CHART_CONFIG: Mapping[str, Any] = {
    "background": "var(--paper)",
    "font": "Liberation Sans, Helvetica, Arial, sans-serif",
    "aria": False,
    "view": {"stroke": None},
    "title": {"color": "var(--ink)", "anchor": "start", "fontSize": 15},
    "axis": {
        "labelColor": "var(--quiet)",
        "titleColor": "var(--quiet)",
        "gridColor": "var(--rule)",
        "domainColor": "var(--quiet)",
        "tickColor": "var(--quiet)",
        "labelFontSize": 12,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "tickCount": 6,
        "labelOverlap": "greedy",
        "titleLimit": 600,
    },
    "axisQuantitative": {"format": ".6~g"},
    "legend": {
        "labelColor": "var(--ink)",
        "labelFontSize": 12,
        "labelLimit": 380,
        "orient": "bottom",
        "columns": 1,
        "symbolSize": 90,
        "symbolOpacity": 1,
        "title": None,
    },
}
"""Vega's configuration. It has no `aria`, because the page describes each chart as a whole."""
