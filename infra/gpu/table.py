"""Write the tables of `docs/gpu.md`: `python -m infra.gpu.table FILE...`, the files of `make gpu`.

It needs Python's standard library alone.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs/gpu.md"
RESULTS = Path(__file__).with_name("results.json")
_COLUMNS = ("shape", "implementation", "ms", "× portable", "× by hand (PyTorch)", "% of peak")
_NOT_MEASURED = "**Not measured yet**: no GPU has run `make gpu`.\n"
_LIBRARY = re.compile("nvidia-(cudnn|cuda-runtime)")
_BLOCK = re.compile(r"(?<=<!-- speed -->\n).*?(?=<!-- end of speed -->)", re.DOTALL)


def render(page: str, files: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with a table of each file's results, or with the note that there are none."""
    tables = [_table(results) for results in files]
    text = "\n".join(filter(None, tables)) or _NOT_MEASURED
    return _BLOCK.sub(lambda _: text, page)


def _table(results: Mapping[str, Any]) -> str:
    """Return where the speeds were measured, and a row for each time; "" if there is none.

    Only results under the latest versions count.
    """
    checks = [
        check
        for check in results["checks"]
        if check["name"] == "speed"
        and not check["judges"]
        and check["key"] == results["current"][check["backend"]]
    ]
    if not checks:
        return ""
    gpus = ", ".join(results["hardware"]["gpus"])
    lines = [f"Measured on {gpus} on {results['date']} (`make gpu`), forward and backward"]
    for backend, key in results["current"].items():
        lines.append(f"({_versions(backend, results['conditions'][key])})")
    lines += ["", f"| {' | '.join(_COLUMNS)} |", "| --- " * len(_COLUMNS) + "|"]
    by_hand_ms = {
        check["case"]: check["measured"].get("step_ms")
        for check in checks
        if check["implementation"] == "torch/by hand"
    }
    for check in checks:
        measured = check["measured"]
        step_ms = measured.get("step_ms")
        if not step_ms:
            continue
        by_hand = by_hand_ms.get(check["case"])
        figures = (
            step_ms,
            measured.get("step_ms portable/this"),
            by_hand / step_ms if by_hand else None,
            measured.get("model_flops_utilization_pct"),
        )
        cells = [f"{figure:.3g}" if figure else "–" for figure in figures]
        lines.append(f"| {check['case']} | {check['implementation']} | {' | '.join(cells)} |")
    return "".join(f"{line}\n" for line in lines)


def _versions(backend: str, conditions: Mapping[str, str]) -> str:
    """Return the versions that a reader of the table needs, as they were installed."""
    libraries = [f"{name} {conditions[name]}" for name in conditions if _LIBRARY.match(name)]
    names = [f"{backend} {conditions.get(backend, '?')}", *libraries]
    return ", ".join([*names, f"driver {conditions['driver']}", f"code {conditions['commit']}"])


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit("expected files of results: run make gpu first")
    RESULTS.write_text(json.dumps([json.loads(Path(name).read_text()) for name in sys.argv[1:]]))
    PAGE.write_text(render(PAGE.read_text(), json.loads(RESULTS.read_text())))
