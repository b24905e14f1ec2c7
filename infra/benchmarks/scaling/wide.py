"""A wide cluster: many Ray nodes on this machine, whose trials sleep.

One sweep is extended three times: on two nodes, which are measured; on all of them, as estimated by
`rnnsweep plan --nodes`; and once more while nodes are killed and others join. Efficiency is the
time slept in trials, divided by the seconds of all nodes from the first trial to the last.
"""

import contextlib
import os
import secrets
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from infra.benchmarks import rig
from orchestrator.cli.output import quiet
from orchestrator.cluster import connection
from orchestrator.core.version import ROOT
from orchestrator.scheduling.time_left import estimate_fleets
from orchestrator.spec import parse_spec
from orchestrator.storage import resume
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.tracking.mlflow.address import default_mlflow_uri

_DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
_STORE_BYTES = 80_000_000
_FEW, _FEW_TRIALS = 2, 12


class Wide:
    """A cluster of nodes of one CPU each; `changes` has the times at which their number changed."""

    def __init__(self, home: Path, seconds: float) -> None:
        os.environ.update(_DATA["environment"], RAY_AUTH_TOKEN=secrets.token_hex(32))
        os.environ["PYTHONPATH"] = f"{ROOT}:{home.parent}"
        from ray.cluster_utils import Cluster  # noqa: PLC0415  (reads the environment)

        self.cluster = Cluster(shutdown_at_exit=False)  # nodes join in a thread, too
        self.cluster.add_node(num_cpus=0, include_dashboard=False, object_store_memory=_STORE_BYTES)
        self.changes: list[tuple[float, int]] = []
        self._home, self._seconds, self._done = home, seconds, set[str]()

    def join(self, count: int) -> None:
        for _ in range(count):
            self.cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES)
            self.changes.append((time.time(), 1))

    def kill(self, count: int) -> None:
        for node in list(self.cluster.worker_nodes)[:count]:
            self.changes.append((time.time(), -1))
            self.cluster.remove_node(node, allow_graceful=False)

    def shake(self, count: int, done: int, configs: int) -> None:
        # after a third of the trials to come, and after a half
        journal = SweepFolder(self._home, "wide").generation(1) / "journal.jsonl"
        for share, change in ((3, self.kill), (2, self.join)):
            while journal.read_text().count("trial_finished") < done + (configs - done) / share:
                time.sleep(0.5)
            change(count)

    def spec(self, configs: int) -> str:
        changes = {"search": {**_DATA["spec"]["search"], "configs": configs}}
        return yaml.safe_dump({**_DATA["spec"], **changes, "settings": {"seconds": self._seconds}})

    def run(self, name: str, nodes: int, configs: int) -> dict[str, Any]:
        ended, _ = rig.run(self.spec(configs), self._home, self.cluster.address)
        trials = [trial for trial in ended.record.trials if trial.key not in self._done]
        self._done |= {trial.key for trial in trials}
        assert all(trial.status == "complete" for trial in trials), "a trial failed"
        starts_s, ended_s = sorted(t.started_s for t in trials), max(t.ended_s for t in trials)
        row: dict[str, Any] = {"name": name, "trials": len(trials)}
        for column, first in (("once_all_work", nodes - 1), ("efficiency", 0)):
            began_s, count = starts_s[first], len(trials) - first
            there_s = (c * max(0.0, ended_s - max(at_s, began_s)) for at_s, c in self.changes)
            row[column] = self._seconds * count / sum(there_s)
            row |= {"makespan_s": ended_s - began_s, "per_s": count / (ended_s - began_s)}
        return row

    def estimated_s(self, nodes: int, configs: int) -> float:
        spec = parse_spec(self.spec(configs), source="wide")
        state = resume.preview(
            SweepFolder(self._home, "wide"), spec, default_mlflow_uri(self._home, {})
        )
        (fleet,) = estimate_fleets(spec, state, [f"{nodes} x cpu"], ())
        assert fleet.time_left.seconds is not None
        return fleet.time_left.seconds.median


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=3.0, help="the sleep of a trial")
    parser.add_argument("--trials", type=int, default=120, help="trials of a node in each part")
    parser.add_argument("--lost", type=int, default=4, help="nodes that are killed, and that join")
    asked = parser.parse_args()
    environment, nodes = rig.environment("ray", "mlflow"), asked.nodes
    first, second = (_FEW_TRIALS + part * nodes * asked.trials for part in (1, 2))
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(contextlib.chdir(scratch))
        stack.enter_context(quiet(Path("log")))
        # nodes share a folder of Ray, where they would unpack the code over each other
        stack.enter_context(mock.patch.object(connection, "_runtime_env", return_value=None))
        Path("sleeper.py").write_text(_DATA["sleeper"])
        wide = Wide(Path(scratch) / "home", asked.seconds)
        stack.callback(wide.cluster.shutdown)
        wide.join(_FEW)
        rows = [wide.run(f"{_FEW} nodes, measured", _FEW, _FEW_TRIALS)]
        wide.join(nodes - _FEW)
        estimated_s = wide.estimated_s(nodes, first)
        rows.append(wide.run(f"{nodes} nodes", nodes, first))
        shaking = threading.Thread(target=wide.shake, args=(asked.lost, first, second))
        shaking.start()
        rows.append(wide.run(f"{asked.lost} lost and joined", nodes, second))
        shaking.join()
    ratio = estimated_s / rows[1]["makespan_s"]
    lines = [
        f"A wide cluster: {nodes} Ray nodes on this machine; a trial sleeps {asked.seconds:g} s",
        rig.table(rows, _DATA["columns"]),
        f"estimated makespan: {estimated_s:.1f} s, {ratio:.3f} × the real one",
        "to reach: efficiency at least 0.9, estimates within 10 %",
    ]
    rig.publish(asked.output, "wide", environment, lines, rows=rows, estimated_s=estimated_s)


if __name__ == "__main__":
    main()
