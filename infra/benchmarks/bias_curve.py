"""Write the bounds of verdicts on a busy machine from the result of `make benchmark-bias`.

`python -m infra.benchmarks.bias_curve` writes the data that reports read, and the table of
`docs/methodology.md`. `make bias-curve` calls it.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.analysis.statistics.bias import BiasPoint, MeasuredBias, bias_from_json

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "infra/benchmarks/results/bias.json"
DATA = ROOT / "orchestrator/analysis/statistics/bias.json"
PAGE = ROOT / "docs/methodology.md"
_BLOCK = re.compile(r"(?<=<!-- bias -->\n).*?(?=<!-- end of bias -->)", re.DOTALL)
_KINDS = {
    "within": "within one backend",
    "between": "between TensorFlow and JAX",
    "between barriers": "between PyTorch and those",
    "alone": "TensorFlow or JAX, with other work beside one arm alone",
    "alone barriers": "PyTorch, with other work beside one arm alone",
}


def curves(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `bias.json`: the largest bias of each kind by each load.

    Others took unlike shares beside unlike arms. The smallest counts, so that no bound is too low.
    """
    groups: dict[tuple[str, str, str], dict[int, list[Mapping[str, Any]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for bias in result["biases"]:
        groups[bias["mode"], bias["kind"], bias["where"]][bias["dose"]].append(bias)
    made: list[dict[str, Any]] = [
        {
            "measure": mode,
            "kind": kind,
            "where": where,
            "points": [
                {
                    "dose_pct": dose,
                    "others_pct": round(min(bias["others_pct"] for bias in own), 1),
                    "factor": round(max(bias["at_most"] for bias in own) + 0.0005, 3),
                }
                for dose, own in sorted(by_dose.items())
            ],
        }
        for (mode, kind, where), by_dose in sorted(groups.items())
    ]
    top = max(bias["others_pct"] for bias in result["biases"])
    facts = result["environment"]
    source = f"make benchmark-bias on {facts['cpus']} CPUs of an {facts['cpu']}, {facts['date']}"
    return {"source": source, "up_to_pct": float(math.ceil(top)), "curves": made}


def table(measured: MeasuredBias) -> str:
    """Return the table of the documents: kinds of ratios as rows, doses as columns."""
    doses = sorted({point.dose_pct for curve in measured.curves for point in curve.points})
    lines = [
        f"| ratio, other work on | {' | '.join(f'{dose} %' for dose in doses)} |",
        f"| --- | {'--- | ' * len(doses)}".rstrip(),
    ]
    for measure, what in (("full", "whole trainings"), ("timing", "slices")):
        for kind, text in _KINDS.items():
            for curve in reversed(measured.curves):  # one core first
                if (curve.measure, curve.kind) != (measure, kind):
                    continue
                points = {point.dose_pct: point for point in curve.points}
                cells = [_cell(points[dose]) if dose in points else "–" for dose in doses]
                lines.append(f"| {what}, {text}, {curve.where} | {' | '.join(cells)} |")
    return "".join(f"{line}\n" for line in lines)


def _cell(point: BiasPoint) -> str:
    digits = 2 if point.factor < 10 else 0
    return f"{point.factor:.{digits}f} × ({point.others_pct:.0f} %)"


def page(text: str, measured: MeasuredBias) -> str:
    """Return the page of the documents with the table, and where it was measured."""
    block = f"{table(measured)}\nMeasured by {measured.source}.\n"
    return _BLOCK.sub(lambda _: block, text)


def main() -> None:
    data = curves(json.loads(RESULT.read_text(encoding="utf-8")))
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), bias_from_json(data)), encoding="utf-8")


if __name__ == "__main__":
    main()
