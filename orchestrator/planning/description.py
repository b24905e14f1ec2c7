"""A plan as text: what runs where, what cannot and why, at what price, and what may wait."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestrator.core.names import different_models
from orchestrator.core.text import rendered
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import LEARNING, arms_that_speak, open_limit
from orchestrator.planning.plan import Plan
from orchestrator.planning.pricing import describe_prices
from orchestrator.spec import SweepSpec

_NOTICEABLE = 0.05
"""A share of idle time that a plan reports."""


def describe_plan(
    spec: SweepSpec,
    plan: Plan,
    waits: Mapping[str, float] | None = None,
    stopped: Iterable[str] = (),
) -> str:
    """Return the plan as text, with its `stopped` arms, prices, pruner and open blocks.

    `waits` are expected idle shares by hardware class, each up to its last trial; empty if they are
    not known. Without them, open blocks have a line if some lane may wait.
    """
    refused: dict[tuple[str, str], list[str]] = {}
    for arm in plan.impossible:
        refused.setdefault((arm.arm.hardware, arm.reason), []).append(arm.arm.short_name)
    groups = make_lanes(plan)
    limit = open_limit(spec, plan, groups) if spec.search.sampler in LEARNING else None
    has_line = plan.possible and (waits is not None or len(groups) > 1)
    return rendered(
        Path(__file__).with_name("plan.j2"),
        spec=spec,
        plan=plan,
        refused=refused,
        awaited=Counter((arm.arm.hardware, arm.entry.wait_s) for arm in plan.awaited),
        models=different_models(plan.arms),
        lines=[*stopped, *describe_prices(spec.prices, (arm.hardware for arm in plan.arms))],
        limit=limit if has_line else None,
        groups=len(groups),
        all_read=set(arms_that_speak(spec.search.objectives.values(), plan.arms)) == {*plan.arms},
        waits=waits or {},
        late=[
            f"{name} {share:.0%}" for name, share in (waits or {}).items() if share > _NOTICEABLE
        ],
    )
