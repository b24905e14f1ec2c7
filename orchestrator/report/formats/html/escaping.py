"""Escaping of texts from specs and runs, for the places on the page that need their own rules.

The template engine escapes HTML. This module escapes JSON in a script, and texts for Plotly.
Plotly reads `<b>`, `<a href=…>` and entities in any text of a figure as markup, and text between
two dollars as mathematics.
"""

from __future__ import annotations

import json
import math
import textwrap
from typing import Any

from orchestrator.report.document import visible

LONGEST = 52
"""The longest name in a plot, in characters; tables have full names."""

_PLOTLY = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("$"): "&#36;"}
_SCRIPT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def script_json(value: Any) -> str:
    """Write JSON that cannot end a script for an HTML parser: ASCII without `<`, `>`, `&`.

    Numbers that are not finite become null.
    """
    text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    return text.translate(_SCRIPT)


def plotly_text(raw: str, longest: int = LONGEST) -> str:
    """Escape a text so that Plotly shows it unchanged, on one line of `longest` characters."""
    line = visible(raw)
    short = line if len(line) <= longest else f"{line[: longest - 1]}…"
    return short.translate(_PLOTLY)


def plotly_lines(raw: str, width: int = 60) -> str:
    """Escape a longer text and break it into lines, for the box that appears at a point."""
    lines = textwrap.wrap(visible(raw), width) or [""]
    return "<br>".join(plotly_text(line, width) for line in lines)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
