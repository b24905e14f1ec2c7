"""Idle time of fast hardware on a cluster whose hardware classes differ 20 × in speed.

    python -m tests.benchmarks.unlike_nodes [--output FOLDER] [--only real|simulated] [--note TEXT]

* real: a Ray cluster on this machine, of nodes that may use one CPU (the fast class: one node) or
  two (the slow class: four nodes), as a sweep of rnnsweep with random search and as plain Tune with
  the same sampler. Trials sleep, so that the machine's CPUs are free for the scheduling. Targets:
  every class idle for at most 5 % of its time, and a makespan of at most 1.10 × its bound.
* simulated: the trade between idle hardware and learning of the sampler, over many seeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.benchmarks import rig
from tests.benchmarks.unlike.real import cluster_of_unlike_nodes, ours, plain_tune
from tests.benchmarks.unlike.simulated import DEVICES, RATIO, Question, simulated

_SEARCHES: Mapping[str, Mapping[str, Any]] = {
    "random, all open": {"sampler": "random"},
    "tpe, 2 open": {"sampler": "tpe", "open_blocks": 2},
    "tpe, usual": {"sampler": "tpe"},
    "tpe, 20 open": {"sampler": "tpe", "open_blocks": 20},
    "tpe, all open": {"sampler": "tpe", "open_blocks": 1_000},
    "tpe, over the fast arm": {"sampler": "tpe", "over": "* on *, 1 CPU"},
    "tpe, slow arm with a fifth of the work": {"sampler": "tpe", "slow_rounds": 2},
    "tpe, the same, both arms read": {"sampler": "tpe", "slow_rounds": 2, "over": "* on *"},
}


def main() -> None:
    """Measure, print the tables, and write them with their figures if requested."""
    parser = rig.arguments(__doc__)
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--fast-s", type=float, default=1.5, help="a fast trial's mean seconds")
    parser.add_argument("--seeds", type=int, default=40, help="simulations of each search")
    parser.add_argument("--only", choices=["real", "simulated"])
    parser.add_argument("--note", default="", help="a remark about this run, which is recorded")
    asked = parser.parse_args()
    environment = rig.environment("ray", "optuna", "mlflow")
    base = Question(asked.blocks, asked.fast_s)
    devices = ", ".join(f"{count} {name}" for name, count in DEVICES.items())
    lines = [f"Unlike nodes: {devices}; a slow trial takes {RATIO} × a fast one"]
    lines += [asked.note] if asked.note else []
    figures: dict[str, Any] = {"blocks": asked.blocks}
    if asked.only != "simulated":
        with cluster_of_unlike_nodes() as address:
            runs = {"rnnsweep": ours, "plain Tune, OptunaSearch": plain_tune}
            rows = [_means(name, [run(base, address)]) for name, run in runs.items()]
        figures["real"] = rows
        lines += _table("Random search, all blocks open", rows)
    if asked.only != "real":
        rows = [
            _means(name, [simulated(replace(base, seed=n, **search)) for n in range(asked.seeds)])
            for name, search in _SEARCHES.items()
        ]
        figures["simulated"] = rows
        lines += _table(f"Simulated clock, means over {asked.seeds} seeds", rows)
    rig.publish(asked.output, "unlike_nodes", environment, lines, **figures)


def _means(name: str, runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the means of some runs' figures."""
    return {"name": name, **{key: statistics.fmean(run[key] for run in runs) for key in runs[0]}}


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = (
        f"{'idle: fast':>11}{'slow':>8}{'fast done':>11}{'makespan':>10}{'× bound':>9}{'best':>8}"
    )
    return [
        f"\n{title}",
        f"{'':<42}{columns}",
        *(
            f"{row['name']:<42}{row['fast_idle_share']:>10.1%} {row['slow_idle_share']:>7.1%} "
            f"{row['fast_done_s']:>8.0f} s {row['makespan_s']:>7.0f} s {row['stretch']:>8.2f}"
            f"{row.get('best', math.nan):>8.3f}"
            for row in rows
        ),
    ]


if __name__ == "__main__":
    main()
