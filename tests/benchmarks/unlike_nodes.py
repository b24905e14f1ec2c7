"""Idle time of fast hardware on a cluster whose hardware classes differ 20 × in speed.

    python -m tests.benchmarks.unlike_nodes [--output FOLDER] [--only real|simulated] [--note TEXT]

* real: a Ray cluster on this machine, of nodes that may use one CPU (the fast class: one node) or
  two (the slow class: four nodes), as a sweep of rnnsweep with random search and as plain Tune with
  the same sampler. Trials sleep, so that the machine's CPUs are free for the scheduling. Targets:
  every class idle for at most 5 % of its time, and a makespan of at most 1.10 × its bound.
* simulated: the trade between idle hardware and learning of the sampler, over many seeds.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.benchmarks import rig
from tests.benchmarks.unlike.real import ours, plain_tune, unlike_nodes
from tests.benchmarks.unlike.simulated import Question, Result, simulated

_DEVICES = {"fast": 1, "slow": 4}
_RATIO = 20
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "random, all open": {"sampler": "random"},
    "tpe, 2 open": {"sampler": "tpe", "open_blocks": 2},
    "tpe, usual": {"sampler": "tpe"},
    "tpe, 20 open": {"sampler": "tpe", "open_blocks": 20},
    "tpe, all open": {"sampler": "tpe", "open_blocks": 1_000},
    "tpe, over the fast arm": {"sampler": "tpe", "over": "* on *, 1 CPU"},
    "tpe, slow arm with a fifth of the work": {"sampler": "tpe", "less_rounds": 2},
    "tpe, the same, both arms read": {"sampler": "tpe", "less_rounds": 2, "over": "* on *"},
}


def main() -> None:
    """Measure, print the tables, and write them with their figures if requested."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--fast-s", type=float, default=1.5, help="a fast trial's mean seconds")
    parser.add_argument("--seeds", type=int, default=40, help="simulations of each setting")
    parser.add_argument("--only", choices=["real", "simulated"])
    parser.add_argument("--note", default="", help="a remark about this run, which is recorded")
    parser.add_argument("--output", type=Path, help="a folder for the tables and their figures")
    asked = parser.parse_args()
    environment = rig.environment("ray", "optuna", "mlflow")
    base = Question("", asked.blocks, asked.fast_s, _RATIO * asked.fast_s, _DEVICES)
    result: dict[str, Any] = {"environment": environment, "blocks": asked.blocks}
    devices = ", ".join(f"{count} {name}" for name, count in _DEVICES.items())
    title = f"Unlike nodes: {devices}; a slow trial takes {_RATIO} × a fast one"
    texts = [f"{title}\n{rig.heading(environment)}", *([asked.note] if asked.note else [])]
    if asked.only != "simulated":
        with unlike_nodes(**_DEVICES) as address:
            runs = {"rnnsweep": ours, "plain Tune, OptunaSearch": plain_tune}
            rows = [_row([run(replace(base, name=name), address)]) for name, run in runs.items()]
        result["real"] = rows
        texts.append(_table("Random search, all blocks open", rows))
    if asked.only != "real":
        rows = [
            _row([simulated(replace(base, name=name, seed=seed, **changes)) for seed in seeds])
            for seeds in [range(asked.seeds)]
            for name, changes in _SETTINGS.items()
        ]
        result["simulated"] = rows
        texts.append(_table(f"Simulated clock, means over {asked.seeds} seeds", rows))
    print("\n\n".join(texts))
    if asked.output:
        rig.keep(asked.output, "unlike_nodes", result, "\n\n".join(texts))


def _row(results: Sequence[Result]) -> dict[str, Any]:
    """Return the means of some runs, and of the best configs' true values."""
    fast, slow = zip(*(result.uses for result in results), strict=True)
    best = [result.best for result in results if result.best is not None]
    return {
        "name": results[0].name,
        "fast_idle_share": statistics.fmean(use.idle_share for use in fast),
        "slow_idle_share": statistics.fmean(use.idle_share for use in slow),
        "fast_done_s": statistics.fmean(use.done_s for use in fast),
        "makespan_s": statistics.fmean(result.makespan_s for result in results),
        "stretch": statistics.fmean(result.makespan_s / result.bound_s for result in results),
        "best": statistics.fmean(best) if best else None,
        "runs": [asdict(result) for result in results] if len(results) == 1 else None,
    }


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        title,
        f"{'':<42}{'idle: fast':>11}{'slow':>8}{'fast done':>11}{'makespan':>10}{'× bound':>9}"
        f"{'best':>8}",
    ]
    for row in rows:
        best = f"{row['best']:.3f}" if row["best"] is not None else "–"
        lines.append(
            f"{row['name']:<42}{row['fast_idle_share']:>10.1%} {row['slow_idle_share']:>7.1%} "
            f"{row['fast_done_s']:>8.0f} s {row['makespan_s']:>7.0f} s {row['stretch']:>8.2f}"
            f"{best:>8}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
