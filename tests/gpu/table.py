"""Write the table of `docs/gpu.md`: `python -m tests.gpu.table FILE`, the file of `make gpu`."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

PAGE = Path(__file__).resolve().parents[2] / "docs/gpu.md"
RESULTS = Path(__file__).with_name("results.json")
_TEMPLATE = Path(__file__).with_name("table.j2")
_BLOCK = re.compile(r"(?<=<!-- speed -->\n).*?(?=<!-- end of speed -->)", re.DOTALL)


def render(page: str, results: Mapping[str, Any]) -> str:
    """Return the page with the table of these results, or with the note that there are none."""
    template = jinja2.Template(_TEMPLATE.read_text(), trim_blocks=True, lstrip_blocks=True)
    rows = [check for check in results.get("checks", ()) if check["name"] == "speed"]
    by_hand = {row["case"]: row for row in rows if row["implementation"] == "torch/by hand"}
    table = template.render(results=results, rows=rows, by_hand=by_hand)
    return _BLOCK.sub(lambda _: table, page)


if __name__ == "__main__":
    RESULTS.write_text(Path(sys.argv[1]).read_text())
    PAGE.write_text(render(PAGE.read_text(), json.loads(RESULTS.read_text())))
