"""How many blocks are open at once, and what fast hardware waits for because of that."""

from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator.hardware import classify
from orchestrator.planning.description import describe_plan
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import open_limit
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.sampling import SEEN
from orchestrator.spec import SweepSpec
from tests.building.hardware import build_node
from tests.building.specs import USER_WORKLOAD, build_spec

ACCURACY = {"val_accuracy": "maximize"}
NODES = [
    *(build_node(f"slow{number}") for number in range(4)),
    build_node("fast", cpus=8, gpus=4, cpu_model="CPU B"),
]


def laid(
    over: str = "mean", hardware: Sequence[str] = ("CPU A*", "gpu"), **changes: Any
) -> tuple[SweepSpec, Plan]:
    objectives = {"val_accuracy": {"direction": "maximize", "over": over}}
    space = {"units": {"low": 1, "high": 1000}}
    wanted = {"sampler": "tpe", "configs": 60, "space": space, "hardware": [*hardware]}
    made = build_spec(USER_WORKLOAD, **{**wanted, "objectives": objectives, **changes})
    return made, make_plan(made, classify(NODES))


@pytest.mark.parametrize(
    ("how", "blocks"),
    [
        pytest.param({}, 8, id="each of four slow nodes has one at work and a next one"),
        pytest.param({"over": "gpu"}, 5, id="four GPUs and a next one"),
        pytest.param(
            {"over": "gpu", "implementations": ["python/a", "python/b"]}, 5, id="rounds of two arms"
        ),
        pytest.param({"over": "cpu"}, 8, id="slow nodes alone are read"),
        pytest.param({"repeats": 2}, 8, id="two repeats"),
        pytest.param({"over": "gpu", "repeats": 2}, 3, id="two repeats on four GPUs"),
        pytest.param({"over": "gpu", "repeats": 3}, 3, id="three repeats on four GPUs"),
        pytest.param({"hardware": ["gpu"], "repeats": 4}, 2, id="four repeats on GPUs alone"),
        pytest.param({"open_blocks": 9}, 9, id="as many as the spec has"),
        pytest.param({"sampler": "nsga2"}, 8, id="another sampler that learns"),
        pytest.param({"sampler": "qmc"}, None, id="a sampler that does not learn"),
    ],
)
def test_enough_blocks_are_open_to_keep_what_is_read_at_work(
    how: dict[str, Any], blocks: int | None
) -> None:
    swept, plan = laid(**how)
    assert open_limit(swept, plan, make_lanes(plan)) == blocks


def test_a_plan_shows_what_a_pruner_may_end() -> None:
    pruned = build_spec(settings={"epochs": 8}, objectives=ACCURACY, pruner="median")
    texts = [
        describe_plan(spec, make_plan(spec, classify(NODES))) for spec in (pruned, build_spec())
    ]
    assert ["median may prune blocks from epoch" in text for text in texts] == [True, False]


@pytest.mark.parametrize(
    ("how", "cure"),
    [
        pytest.param({}, "objectives over the fast arms only (over: gpu)", id="all are read"),
        pytest.param({"over": "gpu"}, "To avoid that: more open blocks", id="GPUs are read"),
        pytest.param({"sampler": "random"}, None, id="a sampler that does not learn"),
    ],
)
def test_the_plan_shows_what_keeps_fast_hardware_from_waiting(
    how: dict[str, Any], cure: str | None
) -> None:
    text = describe_plan(*laid(**how))
    assert ("  open   " in text) is (cure is not None)
    assert (cure or "") in text


def test_the_plan_shows_how_many_blocks_a_sampler_sees() -> None:
    more = SEEN + 1
    assert f"learns from the {SEEN} latest finished blocks" in describe_plan(*laid(configs=more))
    assert "latest finished" not in describe_plan(*laid(configs=SEEN))
    assert "latest finished" not in describe_plan(*laid(configs=more, sampler="nsga2"))
