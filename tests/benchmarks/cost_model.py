"""Errors of the cost model on new configs of real sweeps.

    python -m tests.benchmarks.cost_model [--output FOLDER] [--sweep NAME]

Runs cost_model_time.yaml and cost_model_memory.yaml of this folder in RNNSWEEP_HOME, or resumes
them, so that a second start only judges. That takes some twelve minutes on an idle machine. Or it
uses the trials of an existing sweep. Then, many times over, a third of the configs is hidden with
all of their trials, and the model is chosen and fitted on the others. The measurements of the
hidden ones are compared with its predictions and their 90 % intervals. The table also has the
errors of each method alone; each arm's median is the baseline. Simulated data with known truth show
the error without a machine's noise.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.analysis.cost_model import (
    MEMORY,
    METHODS,
    MIN_GROUPS,
    TARGETS,
    NotPredicted,
    Observation,
    fit,
    observe,
)
from orchestrator.core.errors import Refusal
from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.home import SweepFolder, sweep_home
from orchestrator.storage.journal import read, replay
from tests.benchmarks import rig
from tests.benchmarks.cost_known import Accuracy, simulated_accuracies

TIME = tuple(target for target in TARGETS if target not in MEMORY)
SWEEPS = {"time": TIME, "memory": MEMORY}
"""The targets that each of the two sweeps judges."""

_HIDDEN = 1 / 3
_ENOUGH = math.ceil(MIN_GROUPS / (1 - _HIDDEN))


@dataclass(frozen=True, slots=True)
class Row:
    """One target's errors on hidden configs, as shares of the measured values.

    `refused` counts hidden trials too far from the visible ones; `alone` is the median error of
    each method by itself. `least` and `most` are the extreme measurements.
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
    least: float
    most: float


def main() -> None:
    """Measure, print the table, and write it with its figures if requested."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sweep", help="a sweep of this home (NAME or NAME#1) instead")
    parser.add_argument("--splits", type=int, default=12, help="how often a third is hidden")
    parser.add_argument("--output", type=Path, help="a folder for the table and its figures")
    asked = parser.parse_args()
    environment = rig.environment("scikit-learn", "numpy", "keras", "tensorflow", "torch")
    asked_of = {asked.sweep: TARGETS} if asked.sweep else _run()
    environment["load after"] = f"{os.getloadavg()[0]:.1f}"
    rows, absent, sweeps = list[Row](), dict[str, str](), list[dict[str, Any]]()
    for label, targets in asked_of.items():
        finished, observations = _observed(label)
        configs = len({observation.group for observation in observations})
        sweeps.append({"sweep": label, "configs": configs, "trials": len(observations)})
        for target in targets:
            row = judge(observations, target, asked.splits)
            if row is None:
                absent[target] = _reason(finished, observations, target)
            else:
                rows.append(row)
    truths = list(simulated_accuracies())
    result = {
        "environment": environment,
        "sweeps": sweeps,
        "splits": asked.splits,
        "rows": [asdict(row) for row in rows],
        "not_judged": absent,
        "known": [asdict(truth) for truth in truths],
    }
    text = f"{_table(result, rows)}\n\n{_simulated_table(truths)}"
    print(text)
    if asked.output:
        rig.keep(asked.output, "cost_model", result, text)


def judge(observations: Sequence[Observation], target: str, splits: int) -> Row | None:
    """Hide a third of the configs `splits` times; return None if too little was measured."""
    measured_trials = [observation for observation in observations if target in observation.took]
    groups = sorted({observation.group for observation in measured_trials})
    if len(groups) < _ENOUGH:
        return None
    errors, inside, widths, chosen = list[float](), list[bool](), list[float](), list[str]()
    alone: dict[str, list[float]] = {method: [] for method in METHODS}
    refused, fit_s = 0, list[float]()
    for split in range(splits):
        hidden = set(random.Random(split).sample(groups, max(1, round(len(groups) * _HIDDEN))))
        shown = [observation for observation in measured_trials if observation.group not in hidden]
        started_s = time.perf_counter()
        model = fit(shown, target)
        fit_s.append(time.perf_counter() - started_s)
        chosen.append(model.method)
        singles = {method: fit(shown, target, [method]) for method in METHODS}
        for observation in measured_trials:
            if observation.group not in hidden:
                continue
            measured = observation.took[target]
            try:
                prediction = model.predict(observation.params, observation.arm)
            except NotPredicted:
                refused += 1
                continue
            errors.append(abs(prediction.value / measured - 1))
            inside.append(prediction.low <= measured <= prediction.high)
            widths.append(prediction.high / prediction.value - 1)
            for method, single in singles.items():
                value = single.predict(observation.params, observation.arm).value
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
        {method: float(np.median(method_errors)) for method, method_errors in alone.items()},
        float(np.median(fit_s)),
        min(observation.took[target] for observation in measured_trials),
        max(observation.took[target] for observation in measured_trials),
    )


def _run() -> dict[str, Sequence[str]]:
    """Run or resume both sweeps; return their names and the targets that each judges."""
    targets_by_sweep: dict[str, Sequence[str]] = {}
    for name, targets in SWEEPS.items():
        spec = Path(__file__).with_name(f"cost_model_{name}.yaml")
        command = [sys.executable, "-m", "orchestrator", "run", "--yes", str(spec)]
        ended = subprocess.run(command, check=False)
        if ended.returncode:
            raise SystemExit(f"the sweep of {spec.name} ended with exit code {ended.returncode}")
        targets_by_sweep[f"cost-model-{name}"] = targets
    return targets_by_sweep


def _observed(label: str) -> tuple[list[FinishedTrial], list[Observation]]:
    name, _, number = label.partition("#")
    generation = int(number) if number.isdigit() else 0
    folder = SweepFolder(sweep_home(), name)
    state = replay(read(folder.generation(generation or folder.latest())))
    if state is None:
        raise Refusal(f"no sweep {name!r} in {folder.home}: run it first")
    finished = list(state.finished.values())
    return finished, observe(finished, state.identity.settings)


def _reason(
    finished: Iterable[FinishedTrial], observations: Sequence[Observation], target: str
) -> str:
    """Return the reason why a target is not judged."""
    reasons = Counter(reason for trial in finished if (reason := trial.telemetry.energy_absent))
    if target == "energy_j" and reasons:
        return reasons.most_common(1)[0][0]
    if target == "peak_gpu_mib" and all(e.arm.device == "cpu" for e in observations):
        return "no arm runs on a GPU"
    configs = {observation.group for observation in observations if target in observation.took}
    return f"expected of at least {_ENOUGH} configs, received of {len(configs)}"


def _table(result: Mapping[str, Any], rows: Sequence[Row]) -> str:
    lines = [
        "The cost model, on a third of the configs that was hidden from it, "
        f"{result['splits']} times: errors as shares of the measured values",
        rig.heading(result["environment"]),
        *(
            f"{entry['sweep']}: {entry['configs']} configs, {entry['trials']} trials"
            for entry in result["sweeps"]
        ),
        "",
        f"{'':14}{'measured':>18}{'trials':>8}{'refused':>9}{'median':>9}{'90 %':>9}"
        f"{'in interval':>13}{'interval':>10}{'fit':>8}",
    ]
    lines += [
        f"{row.target:14}{f'{row.least:.3g} to {row.most:.3g}':>18}{row.trials:8}{row.refused:9}"
        f"{row.median:9.1%}{row.ninetieth:9.1%}{row.coverage:13.1%}{f'+{row.interval:.0%}':>10}"
        f"{row.fit_s:6.1f} s"
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
    lines += [
        "",
        *(f"Not judged: {name}: {reason}." for name, reason in result["not_judged"].items()),
    ]
    return "\n".join(lines)


def _simulated_table(truths: Sequence[Accuracy]) -> str:
    lines = [
        "Simulated data, three arms: errors against the noise-free truth",
        f"{'configs':>8}{'noise':>8}{'median':>9}{'90 %':>9}{'in interval':>13}"
        f"{'medians alone':>15}",
    ]
    lines += [
        f"{row.configs:8}{row.noise:8.0%}{row.median:9.1%}{row.ninetieth:9.1%}"
        f"{row.coverage:13.1%}{row.medians_alone:15.1%}"
        for row in truths
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
