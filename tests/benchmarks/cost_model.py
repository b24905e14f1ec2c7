"""How far the cost model is off on configs that it was not shown, of a real sweep.

    python -m tests.benchmarks.cost_model [--output FOLDER] [--sweep NAME]

Runs tests/benchmarks/cost_model.yaml into RNNSWEEP_HOME (or goes on with it, so that a second start
only judges), or takes the trials of a sweep that is there. Then, many times over, a third of the
configs is hidden with all of their trials; the model is chosen and fitted on the others; and what
was measured of the hidden ones is held against its predictions and their 90 % intervals. Beside it
stand the errors of each method alone: each arm's median is what there is to beat. Draws with known
truth stand below, and show what is the model's own error, and what a machine's noise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator import __version__
from orchestrator.cost_model import (
    METHODS,
    MIN_GROUPS,
    TARGETS,
    NotPredicted,
    Observation,
    fit,
    observe,
)
from orchestrator.home import SweepFolder, sweep_home
from orchestrator.journal import read, replay
from orchestrator.refusal import Refusal
from tests.benchmarks.cost_known import Known, known

SPEC = Path(__file__).with_suffix(".yaml")
_NAME = "cost-model"
_HIDDEN = 1 / 3


@dataclass(frozen=True, slots=True)
class Row:
    """One target's errors on hidden configs, as shares of what was measured.

    `refused` are hidden trials that were too far from those shown; `alone` the median error of each
    method by itself.
    """

    target: str
    trials: int
    refused: int
    median: float
    ninetieth: float
    coverage: float
    interval: float
    chosen: Mapping[str, int]
    alone: Mapping[str, float]
    fit_s: float


def main() -> None:
    """Measure, print the table, and write it with its figures where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sweep", help="a sweep of this home (NAME or NAME#1) instead")
    parser.add_argument("--splits", type=int, default=12, help="how often a third is hidden")
    parser.add_argument("--output", type=Path, help="a folder for the table and its figures")
    asked = parser.parse_args()
    truths = list(known())
    loads = [os.getloadavg()[0]]
    if asked.sweep is None:
        _run()
        loads.append(os.getloadavg()[0])
    observations = _observed(asked.sweep or _NAME)
    rows = [
        row for target in TARGETS if (row := judge(observations, target, asked.splits)) is not None
    ]
    found = {
        "environment": _environment(loads),
        "sweep": asked.sweep or _NAME,
        "configs": len({each.group for each in observations}),
        "trials": len(observations),
        "splits": asked.splits,
        "rows": [asdict(row) for row in rows],
        "known": [asdict(each) for each in truths],
    }
    text = f"{_table(found, rows)}\n\n{_known_table(truths)}"
    print(text)
    if asked.output:
        asked.output.mkdir(parents=True, exist_ok=True)
        (asked.output / "cost_model.txt").write_text(text + "\n")
        (asked.output / "cost_model.json").write_text(json.dumps(found, indent=2) + "\n")


def judge(observations: Sequence[Observation], target: str, splits: int) -> Row | None:
    """Hide a third of the configs, `splits` times over; None where too little was measured."""
    known = [each for each in observations if target in each.took]
    groups = sorted({each.group for each in known})
    if len(groups) * (1 - _HIDDEN) < MIN_GROUPS:
        return None
    errors, inside, widths, chosen = list[float](), list[bool](), list[float](), list[str]()
    alone: dict[str, list[float]] = {method: [] for method in METHODS}
    refused, fit_s = 0, list[float]()
    for split in range(splits):
        hidden = set(random.Random(split).sample(groups, max(1, round(len(groups) * _HIDDEN))))
        shown = [each for each in known if each.group not in hidden]
        started_s = time.perf_counter()
        model = fit(shown, target)
        fit_s.append(time.perf_counter() - started_s)
        chosen.append(model.method)
        singles = {method: fit(shown, target, [method]) for method in METHODS}
        for each in known:
            if each.group not in hidden:
                continue
            measured = each.took[target]
            try:
                found = model.predict(each.params, each.arm)
            except NotPredicted:
                refused += 1
                continue
            errors.append(abs(found.value / measured - 1))
            inside.append(found.low <= measured <= found.high)
            widths.append(found.high / found.value - 1)
            for method, single in singles.items():
                value = single.predict(each.params, each.arm).value
                alone[method].append(abs(value / measured - 1))
    return Row(
        target,
        len(errors),
        refused,
        float(np.median(errors)),
        float(np.quantile(errors, 0.9)),
        float(np.mean(inside)),
        float(np.median(widths)),
        {method: chosen.count(method) for method in METHODS},
        {method: float(np.median(each)) for method, each in alone.items()},
        float(np.median(fit_s)),
    )


def _run() -> None:
    ended = subprocess.run([sys.executable, "-m", "orchestrator", "run", SPEC], check=False)
    if ended.returncode:
        raise SystemExit(f"the sweep ended with exit code {ended.returncode}")


def _observed(label: str) -> list[Observation]:
    name, _, number = label.partition("#")
    generation = int(number) if number.isdigit() else 0
    folder = SweepFolder(sweep_home(), name)
    state = replay(read(folder.generation(generation or folder.latest())))
    if state is None:
        raise Refusal(f"no sweep {name!r} in {folder.home}: run it first")
    return observe(state.finished.values(), state.identity.settings)


def _table(found: Mapping[str, Any], rows: Sequence[Row]) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in found["environment"].items())
    lines = [
        f"Cost model on {found['configs']} configs, {found['trials']} trials of {found['sweep']}; "
        f"a third hidden, {found['splits']} times",
        facts,
        "",
        "The model, on hidden configs: errors as shares of what was measured",
        f"{'':14}{'trials':>8}{'refused':>9}{'median':>9}{'90 %':>9}{'in interval':>13}"
        f"{'interval':>10}{'fit':>8}",
    ]
    lines += [
        f"{row.target:14}{row.trials:8}{row.refused:9}{row.median:9.1%}{row.ninetieth:9.1%}"
        f"{row.coverage:13.1%}{f'+{row.interval:.0%}':>10}{row.fit_s:6.1f} s"
        for row in rows
    ]
    lines += ["", "Each method alone: median error, and how often it was chosen"]
    lines.append(f"{'':14}" + "".join(f"{method:>24}" for method in METHODS))
    lines += [
        f"{row.target:14}"
        + "".join(
            f"{row.alone[method]:>17.1%} {f'({row.chosen[method]})':>6}" for method in METHODS
        )
        for row in rows
    ]
    absent = [target for target in TARGETS if target not in {row.target for row in rows}]
    if absent:
        lines.append(f"  Not measured here: {', '.join(absent)}.")
    return "\n".join(lines)


def _known_table(truths: Sequence[Known]) -> str:
    lines = [
        "Draws with known truth, three arms: errors against the truth without its noise",
        f"{'configs':>8}{'noise':>8}{'median':>9}{'90 %':>9}{'in interval':>13}"
        f"{'medians alone':>15}",
    ]
    lines += [
        f"{each.configs:8}{each.noise:8.0%}{each.median:9.1%}{each.ninetieth:9.1%}"
        f"{each.coverage:13.1%}{each.medians_alone:15.1%}"
        for each in truths
    ]
    return "\n".join(lines)


def _environment(loads: Sequence[float]) -> dict[str, str]:
    packages = {name: version(name) for name in ("scikit-learn", "numpy", "tensorflow")}
    return {
        "date": time.strftime("%Y-%m-%d"),
        "rnnsweep": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": str(os.cpu_count()),
        "load": " to ".join(f"{each:.0f}" for each in loads),
        **packages,
    }


if __name__ == "__main__":
    main()
