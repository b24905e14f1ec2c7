"""Refusals of a sweep that could not run to its end, before anything runs for it."""

from __future__ import annotations

import importlib.util

from orchestrator.analysis.pairing.baseline import pick_baseline
from orchestrator.core.errors import Refusal
from orchestrator.core.records import SweepRecord
from orchestrator.planning.objectives import arms_read
from orchestrator.planning.plan import Plan
from orchestrator.spec import SweepSpec
from orchestrator.spec.checks import TIMING_METRICS


class NothingToRun(Refusal):
    """No arm of the spec can run here, or an objective reads one that cannot."""


def expect_runnable(spec: SweepSpec, plan: Plan) -> None:
    """Refuse a spec without an arm, a sampler, an arm for an objective, or the baseline's arm.

    The arms are not checked while some of them are awaited.

    Raises:
        NothingToRun: with every reason.
        BaselineError: with the arms to choose from.
    """
    if spec.search.sampler == "gp" and importlib.util.find_spec("torch") is None:
        raise NothingToRun(
            "search.sampler: gp needs torch, which is not installed here: "
            "pip install 'rnnsweep[gp]', or choose another sampler"
        )
    if plan.awaited:
        return
    reasons = "\n".join(f"  {arm.arm}: {arm.reason}" for arm in plan.impossible)
    if not plan.possible:
        raise NothingToRun(f"sweep {spec.name!r}: no arm can run here\n{reasons}")
    for metric, objective in spec.search.objectives.items():
        read_arms = arms_read(objective, plan.arms)
        if not read_arms:
            raise NothingToRun(
                f"sweep {spec.name!r}: objective {metric} reads only {objective.over}, expected "
                f"an arm that can run here; these cannot\n{reasons}"
            )
        if metric not in TIMING_METRICS and all(arm.measure == "timing" for arm in read_arms):
            raise NothingToRun(
                f"sweep {spec.name!r}: objective {metric} reads only {objective.over}, expected an "
                "arm that is trained whole, received only arms that are timed in slices: set "
                "measure: full in an entry of arms.hardware, or choose an objective such as step_ms"
            )
    empty = SweepRecord(
        name=spec.name,
        generation=1,
        run_id="",
        workload=spec.workload,
        objectives={},
        arms=plan.arms,
        impossible=plan.impossible,
        blocks=plan.blocks,
        repeats=plan.repeats,
        expected_trials=plan.trials,
        trials=(),
    )
    pick_baseline(empty, spec.baseline)
