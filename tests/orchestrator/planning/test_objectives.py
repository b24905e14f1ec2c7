"""How many blocks are open at once, and what fast hardware waits for because of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator.hardware import classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import describe_opening, idle_shares, open_limit
from orchestrator.planning.plan import Plan, make_plan
<<<<<<< HEAD
from orchestrator.spec import SweepSpec, parse
from tests.benchmarks.unlike_nodes import Question, simulated, unlike_nodes
=======
from orchestrator.spec import SweepSpec
>>>>>>> e13e427 (Test scheduling, planning and clusters with fewer lines)
from tests.orchestrator.sample_plans import node
from tests.orchestrator.sample_specs import OWN, spec

SLOW, FAST = "CPU A, 2 CPUs", "NVIDIA T4 (CPU B, 8 CPUs)"
NODES = [
    *(node(f"slow{number}") for number in range(4)),
    node("fast", cpus=8, gpus=4, cpu_model="CPU B"),
]


def laid(
    over: str = "mean", hardware: Sequence[str] = ("CPU A*", "gpu"), **changes: Any
) -> tuple[SweepSpec, Plan]:
    objectives = {"val_accuracy": {"direction": "maximize", "over": over}}
    space = {"units": {"low": 1, "high": 1000}}
    wanted = {"sampler": "tpe", "configs": 60, "space": space, "hardware": [*hardware]}
    made = spec(OWN, **{**wanted, "objectives": objectives, **changes})
    return made, make_plan(made, classify(NODES))


@pytest.mark.parametrize(
    ("how", "blocks"),
    [
        ({}, 8),  # each of four slow nodes has one at work and a next one
        ({"over": "gpu"}, 5),  # four GPUs, and a next one
        ({"over": "cpu"}, 8),
        ({"repeats": 2}, 8),
        ({"over": "gpu", "repeats": 2}, 3),
        ({"over": "gpu", "repeats": 3}, 3),
        ({"hardware": ["gpu"], "repeats": 4}, 2),
        ({"open_blocks": 9}, 9),
        ({"sampler": "nsga2"}, 8),
        ({"sampler": "qmc"}, None),  # it does not learn
    ],
)
def test_enough_blocks_are_open_to_keep_what_is_read_at_work(
    how: dict[str, Any], blocks: int | None
) -> None:
    swept, plan = laid(**how)
    assert open_limit(swept, plan, make_lanes(plan)) == blocks


def seconds(plan: Plan) -> dict[str, float]:
    """A slow trial of 80 s on four nodes, and a fast one of 4 s on four GPUs: 20 s to 1 s."""
    return {str(arm): 80.0 if str(arm.hardware) == SLOW else 4.0 for arm in plan.arms}


@pytest.mark.parametrize(
    ("how", "slow", "fast"),
    [
        ({}, 0.0, 1 - 60 / (52 * 20 + 1)),
        ({"open_blocks": 40}, 0.0, 1 - 60 / (20 * 20 + 1)),
        ({"open_blocks": 60}, 0.0, 0.0),
        ({"sampler": "random"}, 0.0, 0.0),
        ({"over": "gpu"}, 0.0, 0.0),
        ({"open_blocks": 2}, 0.5, 1 - 60 / (58 * 40 + 1)),  # two of four nodes are at work
    ],
)
def test_fast_hardware_waits_where_slow_arms_are_read(
    how: dict[str, Any], slow: float, fast: float
) -> None:
    swept, plan = laid(**how)
    shares = idle_shares(swept, plan, make_lanes(plan), seconds(plan))
    assert shares == pytest.approx({SLOW: slow, FAST: fast}, abs=0.03)


@pytest.mark.parametrize(
    ("how", "is_timed", "ends"),
    [
        ({}, False, "objectives over the fast arms only (over: gpu), less work on the slow ones"),
        ({}, True, f"Expected share of idle time: {FAST} 94%. To avoid that"),
        ({"over": "gpu"}, True, "No hardware waits long for that"),
        ({"hardware": ["gpu"]}, True, "so that tpe learns from their results"),
        ({"hardware": ["CPU Z*"]}, True, None),
        ({"sampler": "random"}, True, None),
    ],
)
def test_the_plan_shows_the_price_and_the_way_out(
    how: dict[str, Any], is_timed: bool, ends: str | None
) -> None:
    swept, plan = laid(**how)
    line = describe_opening(swept, plan, make_lanes(plan), seconds(plan) if is_timed else {})
    assert (line is None) is (ends is None)
    assert (ends or "") in (line or "")
