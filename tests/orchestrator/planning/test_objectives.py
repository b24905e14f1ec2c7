"""How many blocks are open at once, and what fast hardware waits for because of that."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.hardware import classify
from orchestrator.planning.description import describe_plan
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import open_limit
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.sampling import SEEN
from orchestrator.spec import SweepSpec
from tests.orchestrator.sample_plans import node
from tests.orchestrator.sample_specs import OWN, spec

ROWS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("plans.yaml").read_text())
ACCURACY = {"val_accuracy": "maximize"}
FAST = "NVIDIA T4 (CPU B, 8 CPUs)"
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


def test_a_plan_shows_what_a_pruner_may_end() -> None:
    pruned = spec(settings={"epochs": 8}, objectives=ACCURACY, pruner="median")
    texts = [describe_plan(one, make_plan(one, classify(NODES))) for one in (pruned, spec())]
    assert ["may prune blocks by median, from epoch" in text for text in texts] == [True, False]


@pytest.mark.parametrize(("how", "wait", "words"), ROWS["opening"])
def test_the_plan_shows_the_price_and_the_way_out(
    how: dict[str, Any], wait: float | None, words: str | None
) -> None:
    swept, plan = laid(**how)
    text = describe_plan(swept, plan, None if wait is None else {FAST: wait})
    assert ("  open   " in text) is (words is not None)
    assert (words or "") in text


def test_the_plan_shows_how_many_blocks_a_sampler_sees() -> None:
    more = SEEN + 1
    assert f"learns from the {SEEN} latest blocks" in describe_plan(*laid(configs=more))
    assert "latest blocks" not in describe_plan(*laid(configs=SEEN))
    assert "latest blocks" not in describe_plan(*laid(configs=more, sampler="nsga2"))
