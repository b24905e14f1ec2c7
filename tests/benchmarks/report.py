"""Time and memory of a report of 10,000 trials, compared with a plain search for the same runs.

    python -m tests.benchmarks.report [--trials 10000] [--rounds 3] [--store FOLDER]
                                      [--output FOLDER]

The store is made by the recorder itself, from a replayed journal: some minutes, once; with --store
it is kept and used again. Then, in turns, each as a process of its own, wall time and peak memory
of

* `rnnsweep report`, as text and as a page;
* `mlflow.search_runs` of the same runs, MLflow's own way to get at them;
* `import mlflow` and a client of the store: what no command that reads a store can do without.

To reach on two cores: text within 5 s, a page within 15 s, both within 1 GiB. Ends with 1 where one
is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestrator.storage.tracking import address, tracking_uri
from tests.benchmarks import rig
from tests.benchmarks.reporting.recorded import ARMS, NAME, REPEATS, record

_LIMITS_S = {"report, text": 5.0, "report, html": 15.0}
_LIMIT_MIB = 1024.0
_SEARCH = """
import mlflow
found = mlflow.search_runs(experiment_names=[{name!r}], max_results=50000)
assert len(found) == {runs}, len(found)
"""
_CLIENT = "from mlflow import MlflowClient; MlflowClient().search_experiments()"


@dataclass(frozen=True)
class Cost:
    """Time and memory of a process. Memory is its largest resident set."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def main() -> int:
    """Create the store if necessary, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", type=Path, help="Keep the store here, and use what is there.")
    parser.add_argument("--output", type=Path, help="Write report.json and report.txt here.")
    asked = parser.parse_args()
    environment = rig.environment("mlflow", "pyarrow", "scipy", "plotly")
    with tempfile.TemporaryDirectory(prefix="rnnsweep-report-") as scratch:
        home = (asked.store or Path(scratch) / "home").resolve()
        trials = record(home, asked.trials // (len(ARMS) * REPEATS))
        commands = _commands(trials, Path(scratch))
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        load: list[float] = []
        for _ in range(asked.rounds):
            for name, command in commands.items():
                load.append(os.getloadavg()[0])
                costs[name].append(_run(command, _environ(home)))
    result = _result(environment, trials, home, costs, max(load))
    text = as_text(result)
    print(text)
    if asked.output is not None:
        rig.keep(asked.output, "report", result, text)
    return 1 if missed(result) else 0


def _commands(trials: int, scratch: Path) -> Mapping[str, list[str]]:
    report = [sys.executable, "-m", "orchestrator", "report", NAME]
    search = _SEARCH.format(name=NAME, runs=trials + 1)  # including the parent run
    return {
        "report, text": [*report, "-o", str(scratch / "report.txt")],
        "report, html": [*report, "-o", str(scratch / "report.html")],
        "mlflow.search_runs": [sys.executable, "-c", search],
        "import mlflow and a client": [sys.executable, "-c", _CLIENT],
    }


def _environ(home: Path) -> dict[str, str]:
    environ = {**os.environ, "RNNSWEEP_HOME": str(home), "PYTHONWARNINGS": "ignore"}
    address.set_defaults(environ)
    return environ | {"MLFLOW_TRACKING_URI": tracking_uri(home, {})}


def _run(command: list[str], environ: Mapping[str, str]) -> Cost:
    """Run a command and measure it.

    Raises:
        RuntimeError: it failed.
    """
    began_s = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environ)
    _, status, usage = os.wait4(pid, 0)
    wall_s = time.perf_counter() - began_s
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _result(
    environment: Mapping[str, str],
    trials: int,
    home: Path,
    costs: Mapping[str, Sequence[Cost]],
    load: float,
) -> dict[str, object]:
    return {
        "benchmark": "report",
        "environment": environment,
        "trials": trials,
        "arms": len(ARMS),
        "store_mib": round((home / "mlflow.db").stat().st_size / 2**20),
        "highest_load_before_a_run": round(load, 2),
        "commands": {
            name: {
                "median_wall_s": round(statistics.median(cost.wall_s for cost in own), 2),
                "median_cpu_s": round(statistics.median(cost.cpu_s for cost in own), 2),
                "median_peak_mib": round(statistics.median(cost.peak_mib for cost in own)),
                "runs": [asdict(cost) for cost in own],
            }
            for name, own in costs.items()
        },
    }


def as_text(result: Mapping[str, Any]) -> str:
    """Format the measurements and the verdict on each limit."""
    lines = [
        f"Reports of {result['trials']} trials of {result['arms']} arms, from SQLite "
        f"({result['store_mib']} MiB); each in a process of its own",
        rig.heading(result["environment"]),
        f"highest load when one was started: {result['highest_load_before_a_run']}",
        "",
        f"{'median':<28}{'wall':>10}{'CPU':>10}{'peak':>12}  to reach",
    ]
    for name, cost in result["commands"].items():
        limit_s = _LIMITS_S.get(name)
        verdict = "missed" if name in missed(result) else "reached"
        aim = f"{limit_s:.0f} s, 1 GiB: {verdict}" if limit_s else ""
        lines.append(
            f"{name:<28}{cost['median_wall_s']:>8.2f} s{cost['median_cpu_s']:>8.2f} s"
            f"{cost['median_peak_mib']:>8} MiB  {aim}".rstrip()
        )
    return "\n".join(lines)


def missed(result: Mapping[str, Any]) -> list[str]:
    """Return the commands that exceeded their limit."""
    return [
        name
        for name, cost in result["commands"].items()
        if name in _LIMITS_S
        and (cost["median_wall_s"] > _LIMITS_S[name] or cost["median_peak_mib"] > _LIMIT_MIB)
    ]


if __name__ == "__main__":
    sys.exit(main())
