"""Write the table of `docs/gpu.md`: `python -m tests.gpu.table FILE`, the file of `make gpu`."""

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
_BLOCK = re.compile(r"(?<=<!-- speed -->\n).*?(?=<!-- end of speed -->)", re.DOTALL)


def render(page: str, results: Mapping[str, Any]) -> str:
    """Return the page with the table of these results, or with the note that there are none."""
    checks = [check for check in results.get("checks", ()) if check["name"] == "speed"]
    text = _table(results, checks) if checks else _NOT_MEASURED
    return _BLOCK.sub(lambda _: text, page)


def _table(results: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]) -> str:
    """Return where the speeds were measured, and a row for each check that has a time."""
    gpus = ", ".join(results["hardware"]["gpus"])
    lines = [f"Measured on {gpus} on {results['date']} (`make gpu`), forward and backward"]
    for backend, facts in results["versions"].items():
        lines.append(
            f"({backend} {facts[backend]}, CUDA {facts['cuda_build']}, "
            f"cuDNN {facts['cudnn_build']}, driver {facts['driver']})"
        )
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


if __name__ == "__main__":
    RESULTS.write_text(Path(sys.argv[1]).read_text())
    PAGE.write_text(render(PAGE.read_text(), json.loads(RESULTS.read_text())))
