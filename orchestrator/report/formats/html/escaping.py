"""Text from specs and runs, made safe for each place on the page where it stands.

HTML is escaped by the template engine; here is what it does not know: JSON within a script, and
Plotly, which takes `<b>`, `<a href=…>` and entities in any text of a figure for markup, and what
is between two dollars for mathematics.
"""

from __future__ import annotations

import json
import math
import textwrap
from typing import Any

from orchestrator.report.document import visible

LONGEST = 52
"""A longer name is cut in a plot; tables have it whole."""

_PLOTLY = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("$"): "&#36;"}
_SCRIPT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def script_json(value: Any) -> str:
    """JSON that no HTML parser takes for the end of a script: plain ASCII without `<`, `>`, `&`.

    What is not finite is null.
    """
    text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    return text.translate(_SCRIPT)


def plotly_text(raw: str, longest: int = LONGEST) -> str:
    """The text so that Plotly shows it as it stands, on one line of at most `longest` signs."""
    line = visible(raw)
    short = line if len(line) <= longest else f"{line[: longest - 1]}…"
    return short.translate(_PLOTLY)


def plotly_lines(raw: str, width: int = 60) -> str:
    """A longer text in lines, for what appears at a point."""
    lines = textwrap.wrap(visible(raw), width) or [""]
    return "<br>".join(plotly_text(line, width) for line in lines)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
