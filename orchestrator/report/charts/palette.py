"""Colours, symbols, dashes and hatchings that distinguish arms, with or without colours.

The hues follow Okabe and Ito's palette for colour-blind readers ("Color universal design", 2008),
darker on white and lighter on black so that each has a contrast of 3 to 1 at least (WCAG 2.2,
1.4.11). Colours repeat after 8 arms and symbols after 10, so 40 arms differ.
"""

from __future__ import annotations

LIGHT = (
    "#0067b1", "#c8500a", "#00795c", "#a8478f", "#8a6800", "#2585b4", "#4f5661", "#a3213b",
)  # fmt: skip
DARK = (
    "#5ab4f0", "#ff9d5c", "#3dcfa6", "#e29bd0", "#e3c043", "#9fdcf5", "#c3cad4", "#ff8a94",
)  # fmt: skip
SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "triangle-down",
    "cross", "x", "star", "pentagon", "hexagram",
)  # fmt: skip
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
HATCHES = ("", "/", "\\", "x", "-", "|", "+", ".")
"""The names are the same in Plotly and Matplotlib."""


def colour(style: int, colours: tuple[str, ...] = LIGHT) -> str:
    """Return the colour of a style."""
    return colours[style % len(colours)]


def symbol(style: int) -> str:
    """Return the symbol of a style, by Plotly's name."""
    return SYMBOLS[style % len(SYMBOLS)]


def dash(style: int) -> str:
    """Return the dashes of a style, by Plotly's name."""
    return DASHES[style % len(DASHES)]


def hatch(style: int) -> str:
    """Return the hatching of a style; it differs between styles of the same colour."""
    return HATCHES[(style + style // len(LIGHT)) % len(HATCHES)]
