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
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from orchestrator.storage.tracking import address
from orchestrator.storage.tracking.address import tracking_uri
from tests.benchmarks import rig
from tests.benchmarks.recorded_sweep import ARMS, NAME, REPEATS, record

_LIMITS_S = {"report, text": 5.0, "report, html": 15.0}
_LIMIT_MIB = 1024.0
_SEARCH = """
import mlflow
found = mlflow.search_runs(experiment_names=[{name!r}], max_results=50000)
assert len(found) == {runs}, len(found)
"""
_CLIENT = "from mlflow import MlflowClient; MlflowClient().search_experiments()"


def main() -> int:
    """Create the store if necessary, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", type=Path, help="Keep the store here, and use what is there.")
    parser.add_argument("--output", type=Path, help="Write report.json and report.txt here.")
    asked = parser.parse_args()
    environment = rig.environment("mlflow", "pyarrow", "scipy")
    with tempfile.TemporaryDirectory(prefix="rnnsweep-report-") as scratch:
        home = (asked.store or Path(scratch) / "home").resolve()
        trials = record(home, asked.trials // (len(ARMS) * REPEATS))
        report = [sys.executable, "-m", "orchestrator", "report", NAME, "-o"]
        search = _SEARCH.format(name=NAME, runs=trials + 1)  # including the parent run
        commands = {
            "report, text": [*report, f"{scratch}/report.txt"],
            "report, html": [*report, f"{scratch}/report.html"],
            "mlflow.search_runs": [sys.executable, "-c", search],
            "import mlflow and a client": [sys.executable, "-c", _CLIENT],
        }
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        for _ in range(asked.rounds):
            for name, command in commands.items():
                load = {"load_before": os.getloadavg()[0]}
                runs[name].append(load | _run(command, _environ(home)))
        store_mib = (home / "mlflow.db").stat().st_size / 2**20
    lines = [
        f"Reports of {trials} trials of {len(ARMS)} arms, from SQLite ({store_mib:.0f} MiB);"
        " each in a process of its own",
        rig.heading(environment),
        "",
        f"{'median':<28}{'wall':>10}{'CPU':>10}{'peak':>12}  to reach",
    ]
    medians, missed = {}, []
    for name, own in runs.items():
        cost = medians[name] = {key: statistics.median(one[key] for one in own) for key in own[0]}
        limit_s = _LIMITS_S.get(name, math.inf)
        if limit_s < math.inf and (cost["wall_s"] > limit_s or cost["peak_mib"] > _LIMIT_MIB):
            missed.append(name)
        verdict = "missed" if name in missed else "reached"
        aim = f"{limit_s:.0f} s, 1 GiB: {verdict}" if limit_s < math.inf else ""
        lines.append(
            f"{name:<28}{cost['wall_s']:>8.2f} s{cost['cpu_s']:>8.2f} s"
            f"{cost['peak_mib']:>8.0f} MiB  {aim}".rstrip()
        )
    print("\n".join(lines))
    if asked.output is not None:
        result = {"environment": environment, "trials": trials, "medians": medians, "runs": runs}
        rig.keep(asked.output, "report", result, "\n".join(lines))
    return 1 if missed else 0


def _environ(home: Path) -> dict[str, str]:
    environ = {**os.environ, "RNNSWEEP_HOME": str(home), "PYTHONWARNINGS": "ignore"}
    address.set_defaults(environ)
    return environ | {"MLFLOW_TRACKING_URI": tracking_uri(home, {})}


def _run(command: list[str], environ: Mapping[str, str]) -> dict[str, float]:
    """Run a command and return its time and the largest resident set of its processes.

    Raises:
        RuntimeError: it failed.
    """
    began_s = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environ)
    _, status, usage = os.wait4(pid, 0)
    wall_s = time.perf_counter() - began_s
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return {"wall_s": wall_s, "cpu_s": cpu_s, "peak_mib": usage.ru_maxrss / 1024}


if __name__ == "__main__":
    sys.exit(main())
