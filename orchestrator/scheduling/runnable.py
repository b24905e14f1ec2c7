"""The check that a spec can run on the present nodes, and the reasons why it cannot."""

from orchestrator.analysis.pairing.baselines import (
    Baseline,
    BaselineError,
    pick_runnable_baseline,
)
from orchestrator.core.errors import Refusal
from orchestrator.core.records import SweepRecord
from orchestrator.planning.objectives import arms_read
from orchestrator.planning.plan import Plan
from orchestrator.spec import SweepSpec
from workloads.failures import DataError
from workloads.metrics import sliced_objectives
from workloads.registry import find_workload


class NothingToRun(Refusal):
    """No arm of the spec can run here, or an objective reads one that cannot."""


def refuse_missing_data(spec: SweepSpec) -> None:
    """Refuse a spec whose data are neither on this machine nor to be downloaded now."""
    try:
        find_workload(spec.workload_name).expect_data(spec.settings)
    except DataError as error:
        raise NothingToRun(str(error)) from None


def expect_runnable(spec: SweepSpec, plan: Plan) -> None:
    """Refuse a spec without an arm, an arm for an objective, or any baseline.

    A baseline that cannot run here is replaced (`replaced_baseline`). The arms are not checked
    while some of them are awaited. `NothingToRun` has every reason, `BaselineError` the arms to
    choose from.
    """
    if plan.awaited:
        return
    sweep = f"sweep {spec.name!r}"
    if not plan.possible:
        raise NothingToRun(f"{sweep}: no arm can run here{_impossible_arms(plan)}")
    for metric, objective in spec.search.objectives.items():
        read_arms = arms_read(objective, plan.arms)
        reads = f"{sweep}: objective {metric} reads only {objective.over}"
        if not read_arms:
            raise NothingToRun(f"{reads}, which cannot run here{_impossible_arms(plan)}")
        is_of_slices = metric in sliced_objectives(spec.measure.of)
        if not is_of_slices and all(arm.measure == "timing" for arm in read_arms):
            raise NothingToRun(
                f"{reads}, which is only timed. Set measure: full in an entry of arms.hardware, or"
                " choose an objective such as step_ms"
            )
    _pick_baseline(spec, plan)


def replaced_baseline(spec: SweepSpec, plan: Plan) -> list[str]:
    """Return the sentence that another arm is the baseline, if the spec's cannot run."""
    if plan.awaited or not plan.possible:
        return []
    try:
        baseline = _pick_baseline(spec, plan)
    except BaselineError:  # `expect_runnable` refuses it
        return []
    return [baseline.instead_of] if baseline and baseline.instead_of else []


def _pick_baseline(spec: SweepSpec, plan: Plan) -> Baseline | None:
    empty = SweepRecord(spec.name, arms=plan.arms, impossible=plan.impossible)
    return pick_runnable_baseline(empty, spec.baseline)


def _impossible_arms(plan: Plan) -> str:
    """Return a line for each arm that cannot run, with its reason."""
    return "".join(f"\n  {impossible.arm}: {impossible.reason}" for impossible in plan.impossible)
