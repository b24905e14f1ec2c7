"""Idle time of fast hardware on a cluster whose hardware classes differ 20 × in speed.

    python -m tests.benchmarks.unlike_nodes [--output FOLDER] [--only random|tpe|simulated]
                                            [--note TEXT]

A Ray cluster on this machine, of nodes that may use one CPU (the fast class: one node) or two (the
slow class: four nodes). Trials sleep, so that the machine's CPUs are free for the scheduling.

* random: all blocks open, as a sweep of rnnsweep, and as plain Tune with the same searcher.
  Targets: every class idle for at most 5 % of its time, and a makespan of at most 1.10 × its bound.
* tpe: the trade between idle hardware and learning of the sampler, one run of several settings.
* simulated: the same settings and more with a simulated clock, and the product's `Blocks` and
  `Suggester`, over many seeds: the best value, which varies between runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.analysis.statistics.estimates import t_interval
from tests.benchmarks import rig
from tests.benchmarks.unlike.busy import Result
from tests.benchmarks.unlike.nodes import unlike_nodes
from tests.benchmarks.unlike.simulated import simulated
from tests.benchmarks.unlike.sweeps import Question, ours, plain_tune

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
_REAL = (
    "tpe, 2 open",
    "tpe, usual",
    "tpe, all open",
    "tpe, over the fast arm",
    "tpe, slow arm with a fifth of the work",
)


def main() -> None:
    """Measure, print the tables, and write them with their figures if requested."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--fast-s", type=float, default=1.5, help="a fast trial's mean seconds")
    parser.add_argument("--seeds", type=int, default=40, help="simulations of each setting")
    parser.add_argument("--only", choices=["random", "tpe", "simulated"])
    parser.add_argument("--note", default="", help="a remark about this run, which is recorded")
    parser.add_argument("--output", type=Path, help="a folder for the tables and their figures")
    asked = parser.parse_args()
    parts = [asked.only] if asked.only else ["random", "tpe", "simulated"]
    environment = rig.environment("ray", "optuna", "mlflow")
    result: dict[str, Any] = {"environment": environment, "asked": _plain(vars(asked))}
    texts = [_heading(environment, asked.note)]
    base = Question("", asked.blocks, asked.fast_s, _RATIO * asked.fast_s, _DEVICES)

    def show(part: str, rows: list[dict[str, Any]], table: str) -> None:
        result[part] = rows
        texts.append(table)
        print(f"{texts[-1]}\n")
        if asked.output:
            rig.keep(asked.output, "unlike_nodes", result, "\n\n".join(texts))

    print(f"{texts[0]}\n")
    if {"random", "tpe"} & set(parts):
        with unlike_nodes(**_DEVICES) as address:
            if "random" in parts:
                rows = [
                    _as_row(run(dataclasses.replace(base, name=name), address))
                    for run, name in ((ours, "rnnsweep"), (plain_tune, "plain Tune, OptunaSearch"))
                ]
                show("random", rows, _table("Random search, all blocks open", rows))
            if "tpe" in parts:
                short = dataclasses.replace(base, fast_s=base.fast_s / 4, slow_s=base.slow_s / 4)
                rows = [_as_row(ours(_question(short, name), address)) for name in _REAL]
                title = f"TPE, one sweep each, with trials of {short.fast_s:.2g} s on average"
                show("tpe", rows, _table(title, rows))
    if "simulated" in parts:
        rows = [_over_seeds(base, name, asked.seeds) for name in _SETTINGS]
        show("simulated", rows, _simulated_table(rows, asked.seeds))


def _question(base: Question, name: str, seed: int = 0) -> Question:
    return dataclasses.replace(base, name=name, seed=seed, **_SETTINGS[name])


def _as_row(result: Result) -> dict[str, Any]:
    return {**dataclasses.asdict(result), "stretch": result.stretch}


def _over_seeds(base: Question, name: str, seeds: int) -> dict[str, Any]:
    results = [simulated(_question(base, name, seed)) for seed in range(seeds)]
    best = t_interval([result.best or 0.0 for result in results])

    def mean(of: Callable[[Result], float]) -> float:
        return statistics.fmean(of(result) for result in results)

    return {
        "name": name,
        "seeds": seeds,
        "fast_idle_share": mean(lambda result: result.uses[0].idle_share),
        "slow_idle_share": mean(lambda result: result.uses[1].idle_share),
        "fast_done_s": mean(lambda result: result.uses[0].done_s),
        "makespan_s": mean(lambda result: result.makespan_s),
        "stretch": mean(lambda result: result.stretch),
        "best": dataclasses.asdict(best) if best else None,
    }


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        title,
        f"{'':<42}{'idle: fast':>11}{'slow':>8}{'fast done':>11}{'makespan':>10}{'× bound':>9}"
        f"{'best':>8}",
    ]
    for row in rows:
        fast, slow = row["uses"]
        best = f"{row['best']:.3f}" if row["best"] is not None else "–"
        lines.append(
            f"{row['name']:<42}{fast['idle_share']:>10.1%} {slow['idle_share']:>7.1%} "
            f"{fast['done_s']:>8.0f} s {row['makespan_s']:>7.0f} s {row['stretch']:>8.2f}{best:>8}"
        )
    return "\n".join(lines)


def _simulated_table(rows: Iterable[Mapping[str, Any]], seeds: int) -> str:
    lines = [
        f"Simulated clock, means over {seeds} seeds; best: true value, 95 % interval",
        f"{'':<42}{'idle: fast':>11}{'slow':>8}{'fast done':>11}{'makespan':>10}{'× bound':>9}"
        f"{'best':>8}",
    ]
    for row in rows:
        best = row["best"]
        interval = f" ({best['low']:.3f}–{best['high']:.3f})" if best else ""
        lines.append(
            f"{row['name']:<42}{row['fast_idle_share']:>10.1%} {row['slow_idle_share']:>7.1%} "
            f"{row['fast_done_s']:>8.0f} s {row['makespan_s']:>7.0f} s {row['stretch']:>8.2f}"
            f"{best['value'] if best else 0:>8.3f}{interval}"
        )
    return "\n".join(lines)


def _heading(environment: Mapping[str, str], note: str) -> str:
    devices = ", ".join(f"{count} {name}" for name, count in _DEVICES.items())
    title = f"Unlike nodes: {devices}; a slow trial takes {_RATIO} × a fast one"
    about = f"{title}\n{rig.heading(environment)}"
    return f"{about}\n\n{note}" if note else about


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, int | float) else str(value)
        for name, value in values.items()
    }


if __name__ == "__main__":
    main()
