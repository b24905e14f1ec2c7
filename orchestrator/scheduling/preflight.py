"""Refusals of a sweep that could not run to its end, before anything runs for it."""

from __future__ import annotations

from orchestrator.analysis.pairing.baseline import pick_baseline
from orchestrator.core.errors import Refusal
from orchestrator.core.records import SweepRecord
from orchestrator.planning.objectives import arms_read
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.sampler import missing_package
from orchestrator.spec import SweepSpec
from orchestrator.spec.checks import TIMING_METRICS


class NothingToRun(Refusal):
    """No arm of the spec can run here, or an objective reads one that cannot."""


def expect_runnable(spec: SweepSpec, plan: Plan) -> None:
    """Refuse a spec without an arm, a sampler, or an arm for an objective.

    The arms are not checked while some of them are awaited.

    Raises:
        NothingToRun: with every reason.
        BaselineError: with the arms to choose from.
    """
    package = missing_package(spec.search.sampler)
    if package is not None:
        raise NothingToRun(
            f"search.sampler: {spec.search.sampler} needs {package}, which is not installed here: "
            f"pip install 'rnnsweep[{spec.search.sampler}]', or choose another sampler"
        )
    if plan.awaited:
        return
    reasons = "\n".join(f"  {arm.arm}: {arm.reason}" for arm in plan.impossible)
    if not plan.possible:
        raise NothingToRun(f"sweep {spec.name!r}: no arm can run here\n{reasons}")
    for metric, objective in spec.search.objectives.items():
        read_arms = arms_read(objective, plan.arms)
        timed = all(arm.measure == "timing" for arm in read_arms)
        if read_arms and timed and metric not in TIMING_METRICS:
            raise NothingToRun(
                f"sweep {spec.name!r}: objective {metric} reads only {objective.over}, expected an "
                "arm that is trained whole, received only arms that are timed in slices: set "
                "measure: full in an entry of arms.hardware, or choose an objective such as step_ms"
            )
        if not read_arms:
            raise NothingToRun(
                f"sweep {spec.name!r}: objective {metric} reads only {objective.over}, expected "
                f"an arm that can run here; these cannot\n{reasons}"
            )
    expect_baseline(spec, plan)


def expect_baseline(spec: SweepSpec, plan: Plan) -> None:
    """Refuse a baseline that the report could not use, before anything runs for it.

    Raises:
        BaselineError: with the arms to choose from.
    """
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
