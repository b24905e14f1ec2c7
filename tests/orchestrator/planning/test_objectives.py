"""How many blocks are open at once, and what fast hardware waits for because of that."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.hardware import classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import (
    describe_opening,
    describe_pruner,
    idle_shares,
    open_limit,
)
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.spec import SweepSpec, parse
from tests.benchmarks.unlike_nodes import Question, simulated, unlike_nodes
from tests.orchestrator.sample_plans import node
from tests.orchestrator.sample_specs import OWN, spec

ROWS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("plans.yaml").read_text())
ACCURACY = {"val_accuracy": "maximize"}
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


@pytest.mark.parametrize(("how", "blocks"), ROWS["open"])
def test_enough_blocks_are_open_to_keep_what_is_read_at_work(
    how: dict[str, Any], blocks: int | None
) -> None:
    swept, plan = laid(**how)
    assert open_limit(swept, plan, make_lanes(plan)) == blocks


def test_the_price_is_what_a_sweep_pays() -> None:
    for blocks in (2, 5, 20):
        question = Question(60, 1.0, "tpe", blocks)
        paid = simulated(question)
        made = parse(question.spec(), source="spec")
        plan = make_plan(made, classify(unlike_nodes()))
        seconds = {
            str(arm): 1.0 if str(arm.hardware).endswith("1 CPU") else 20.0 for arm in plan.arms
        }
        line = idle_shares(made, plan, make_lanes(plan), seconds)
        assert line["CPU, 1 CPU"] == pytest.approx(paid["fast_idle_share"], abs=0.05)
        assert line["CPU, 2 CPUs"] == pytest.approx(paid["slow_idle_share"], abs=0.08)


def test_a_plan_shows_what_a_pruner_may_end() -> None:
    (line,) = describe_pruner(spec(settings={"epochs": 8}, objectives=ACCURACY, pruner="median"))
    assert "blocks by median, from epoch" in line and describe_pruner(spec()) == []


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
    seconds = {str(arm): 80.0 if str(arm.hardware) == SLOW else 4.0 for arm in plan.arms}
    line = describe_opening(swept, plan, make_lanes(plan), seconds if is_timed else {})
    assert (line is None) is (ends is None)
    assert (ends or "") in (line or "")
