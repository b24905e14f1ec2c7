"""How many of the quickstart's verdicts are given beside other work, and whether they are right.

`sweeps/quickstart.yaml` runs once on the machine as it is, and then several times while a process
takes half of one core. Each verdict of a busy run is compared with the quiet run's.
"""

import argparse
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from orchestrator.api import run_sweep
from orchestrator.report.render import summarise
from orchestrator.storage.home import sweep_home
from orchestrator.storage.tracking.mlflow.address import default_mlflow_uri
from tests.benchmarks import rig
from tests.benchmarks.other_work import other_work

SPEC = Path(__file__).resolve().parents[2] / "sweeps/quickstart.yaml"


def verdicts(path: Path, home: Path, number: int) -> dict[str, dict[str, Any]]:
    """Run the spec, the busy ones under names of their own; return the comparison of each arm."""
    spec = yaml.safe_load(path.read_text(encoding="utf-8"))
    if number:  # the quiet one keeps its name
        spec["name"] += f"-busy-{number}"
    ended = run_sweep(spec, home=home, tracking_uri=default_mlflow_uri(home, {}))
    assert ended.stopped is None, ended.stopped
    found = {}
    for comparison in summarise(ended.record).comparisons:
        speedup = comparison.speedup
        found[comparison.arm.short_name] = {
            "verdict": comparison.verdict,
            "provisional": comparison.provisional,
            "speedup": round(speedup.value, 3) if speedup else None,
            "low": round(speedup.low, 3) if speedup else None,
            "high": round(speedup.high, 3) if speedup else None,
            "bias": round(comparison.bias, 2) if comparison.bias else None,
            "disturbed": len(comparison.disturbed_blocks),
        }
    return found


def judge(quiet: Mapping[str, Any], busy: Mapping[str, Any]) -> str:
    """Return how a busy verdict stands to the quiet one: given, not given, contradicts or more."""
    before, after = quiet["verdict"], busy["verdict"]
    if after == "inconclusive":
        return "not given" if before != "inconclusive" else "open in both"
    if before == "inconclusive":
        return "given beside other work alone"
    return "given" if before == after else "contradicts"


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--runs", type=int, default=10, help="runs beside other work")
    parser.add_argument("--share", type=int, default=50, help="of one core, in percent")
    parser.add_argument("--spec", type=Path, default=SPEC, help="another sweep than the quickstart")
    asked: argparse.Namespace = parser.parse_args()
    home = sweep_home()
    home.mkdir(parents=True, exist_ok=True)
    environment = rig.environment("ray", "keras", "tensorflow")
    quiet = verdicts(asked.spec, home, 0)
    print("quiet:", quiet, flush=True)
    runs = []
    core = min(os.sched_getaffinity(0))
    for number in range(1, asked.runs + 1):
        with other_work(home) as work:
            work.set({core: asked.share})
            runs.append(verdicts(asked.spec, home, number))
        print(f"run {number}:", runs[-1], flush=True)
    counts = Counter(judge(quiet[arm], run[arm]) for run in runs for arm in quiet if arm in run)
    lines = [
        f"The quickstart's verdicts beside a process that takes {asked.share} % of one core",
        *(f"{what}: {count}" for what, count in counts.most_common()),
    ]
    rig.publish(
        asked.output, "busy_quickstart", environment, lines, quiet=quiet, runs=runs, counts=counts
    )


if __name__ == "__main__":
    main()
