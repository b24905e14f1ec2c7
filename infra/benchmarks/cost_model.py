"""Errors of the cost model on new configs of real sweeps.

Runs cost_model_time.yaml and cost_model_memory.yaml of this folder in RNNSWEEP_HOME, or resumes
them. Then, many times over, a third of the configs is hidden with all of their trials, and the
model is fitted to the others. Its predictions and 90 % intervals are compared with the measurements
that it was not shown, and so is each arm's median.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sklearn.model_selection import GroupShuffleSplit

from infra.benchmarks import rig
from orchestrator.analysis.cost_model import (
    MIN_CONFIGS,
    TARGETS,
    MeasuredTrial,
    config_groups,
    fit,
    observe,
)
from orchestrator.storage.home import SweepFolder, sweep_home
from orchestrator.storage.journal import read
from workloads.metrics import FRESH_ONLY

Split: TypeAlias = tuple[list[MeasuredTrial], list[MeasuredTrial]]

SWEEPS = {"cost-model-time": tuple(set(TARGETS) - set(FRESH_ONLY)), "cost-model-memory": FRESH_ONLY}

_HIDDEN = 1 / 3
_ENOUGH = math.ceil(MIN_CONFIGS / (1 - _HIDDEN))
_COLUMNS = {
    "trials": "d",
    "refused": "d",
    "median": ".1%",
    "ninetieth": ".1%",
    "coverage": ".1%",
    "medians": ".1%",
    "ridge": "d",
}
"""Errors on hidden configs; `medians`: of each arm's median; `ridge`: a number of splits."""


def judge(target: str, splits: Sequence[Split]) -> dict[str, Any]:
    """Return the errors of models of the shown trials on the hidden ones, over all splits."""
    errors, medians, inside, refused, ridge = [], [], [], 0, 0
    for shown, hidden in splits:
        model = fit(shown, target)
        ridge += model.method == "ridge"
        expected = model.predict([(observation.params, observation.arm) for observation in hidden])
        for observation, expectation in zip(hidden, expected, strict=True):
            if expectation.value is None or expectation.low is None or expectation.high is None:
                refused += 1
                continue
            took = observation.took[target]
            own = [other.took[target] for other in shown if other.arm == observation.arm]
            errors.append(abs(expectation.value / took - 1))
            medians.append(abs(float(np.median(own)) / took - 1))
            inside.append(expectation.low <= took <= expectation.high)
    median, ninetieth = np.quantile(errors, (0.5, 0.9))
    return {
        "name": target,
        "trials": len(errors),
        "refused": refused,
        "ridge": ridge,
        "median": median,
        "ninetieth": ninetieth,
        "medians": float(np.median(medians)),
        "coverage": float(np.mean(inside)),
    }


def hide_thirds(observations: Sequence[MeasuredTrial], target: str, splits: int) -> list[Split]:
    measured = [observation for observation in observations if target in observation.took]
    groups = config_groups(measured)
    if len(set(groups)) < _ENOUGH:
        return []
    parts = GroupShuffleSplit(splits, test_size=_HIDDEN, random_state=0).split(groups, None, groups)
    return [([measured[at] for at in shown], [measured[at] for at in hid]) for shown, hid in parts]


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--sweep", help="a sweep of this home instead")
    parser.add_argument("--splits", type=int, default=12, help="how often a third is hidden")
    asked = parser.parse_args()
    environment = rig.environment("scikit-learn", "numpy", "keras", "tensorflow", "torch")
    if not asked.sweep:
        for name in SWEEPS:
            path = Path(__file__).with_name(f"{name.replace('-', '_')}.yaml")
            rig.run(path.read_text(), sweep_home())
    rows, sweeps = list[dict[str, Any]](), list[str]()
    wanted = {asked.sweep: TARGETS} if asked.sweep else SWEEPS
    for name, targets in wanted.items():
        folder = SweepFolder(sweep_home(), name)
        state = read(folder.generation(folder.latest()))
        if state is None:
            raise SystemExit(f"no sweep {name!r} in {folder.home}: run it first")
        observations = observe(state.finished.values(), state.identity.settings)
        configs = len(set(config_groups(observations)))
        sweeps.append(f"{name}: {configs} configs, {len(observations)} trials")
        for target in sorted(targets):
            if splits := hide_thirds(observations, target, asked.splits):
                rows.append(judge(target, splits))
    lines = [
        "The cost model on a third of the configs that was hidden from it: errors as shares of the"
        f" measured values ({asked.splits} times)",
        *sweeps,
        rig.table(rows, _COLUMNS),
    ]
    figures = {"sweeps": sweeps, "splits": asked.splits, "rows": rows}
    rig.publish(asked.output, "cost_model", environment, lines, **figures)


if __name__ == "__main__":
    main()
