"""Waiting for nodes that an autoscaler may start, with a counted clock."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml

from orchestrator.core.arms import Arm, Usage
from orchestrator.core.trial import Block, FinishedTrial, Outcome, Trial
from orchestrator.hardware import Node, classify
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.scheduling.node_wait import (
    arms_worth_waiting_for,
    replacements,
    requests,
    wait_for_nodes,
)
from orchestrator.spec import SweepSpec
from tests.building.hardware import build_gpu_use, build_node
from tests.building.specs import USER_WORKLOAD, build_spec

T4 = "{labels: {ray.io/accelerator-type: T4, market-type: spot}, wait_s: 60}"
HERE = build_node("here")
COME = replace(
    build_node("come", gpus=1, cpu_model="CPU B"),
    labels={"ray.io/accelerator-type": "T4", "market-type": "spot"},
)


def spec(hardware: str = T4) -> SweepSpec:
    space = {"units": {"low": 1, "high": 1000}}
    entries = yaml.safe_load(f"['CPU A*', {hardware}]")
    return build_spec(USER_WORKLOAD, configs=2, space=space, hardware=entries)


def waited(comes_s: float, hardware: str) -> tuple[Plan, float]:
    """Return the plan at the end of the wait for a node, and the seconds until then."""
    clock, wanted = SimpleNamespace(now_s=0.0), spec(hardware)

    def sleep(seconds: float) -> None:
        clock.now_s += seconds

    def nodes() -> tuple[Node, ...]:
        return (HERE, COME) if clock.now_s >= comes_s else (HERE,)

    present = wait_for_nodes(
        wanted, nodes, check=lambda: None, clock=lambda: clock.now_s, sleep=sleep
    )
    return make_plan(wanted, classify(present), "over"), clock.now_s


def test_the_wait_ends_with_the_node_or_with_its_time() -> None:
    laid, seconds = waited(7.2, T4)
    assert 7.2 <= seconds < 9
    uses = ["CPU A, 2 CPUs", "NVIDIA T4 (CPU B, 2 CPUs)"]
    assert [str(arm.hardware) for arm in laid.arms] == uses
    laid, seconds = waited(float("inf"), f"{{class: '*L4*', wait_s: 5}}, {T4}")
    assert 60 <= seconds < 62
    _, impossible = laid.impossible
    assert "came within 60 s (wait_s)" in impossible.reason


SPOT = "labels: {market-type: spot}, wait_s: 900"


@pytest.mark.parametrize(
    ("entry", "resources"),
    [
        pytest.param(f"{{class: '*H200*', {SPOT}}}", {"CPU": 1.0, "GPU": 1.0}, id="a GPU"),
        pytest.param(f"{{cpus: 4, {SPOT}}}", {"CPU": 4.0, "GPU": 1.0}, id="CPUs for each GPU"),
        pytest.param(
            "{class: cpu, labels: {ray.io/accelerator-type: T4}, wait_s: 900}",
            {"CPU": 1.0},
            id="CPUs beside a GPU",
        ),
        pytest.param(
            "{labels: {ray.io/accelerator-type: '!T4', zone: eu}, wait_s: 9}",
            {"CPU": 1.0},
            id="any GPU but one, or none",
        ),
        pytest.param(
            f"{{class: 'NVIDIA T4 (CPU B, 2 CPUs)', {SPOT}}}",
            {"CPU": 1.0, "GPU": 1.0},
            id="a GPU class that is here",
        ),
    ],
)
def test_an_autoscaler_is_asked_for_the_device_and_the_labels_of_an_entry(
    entry: str, resources: dict[str, float]
) -> None:
    there = classify([HERE, build_node("chip", cpu_model="Own Chip"), replace(COME, labels={})])
    wanted = spec(entry)
    awaited = make_plan(wanted, there, "to come").awaited
    labels = dict(awaited[0].entry.labels)
    assert requests([*awaited, *awaited], there) == [(resources, labels)]


@pytest.mark.parametrize(
    ("entry", "asked"),
    [
        pytest.param(
            "{labels: {market-type: spot}}", {"CPU": 1.0, "GPU": 1.0}, id="the device that it had"
        ),
        pytest.param("{class: '*T4*'}", None, id="no labels"),
    ],
)
def test_a_lost_node_is_replaced_by_one_with_its_device(
    entry: str, asked: dict[str, float] | None
) -> None:
    labels = {"market-type": "spot"}
    wanted = spec(entry)
    laid = make_plan(wanted, classify([HERE, replace(COME, labels=labels)]))
    lost = {arm.hardware for arm in laid.arms if not str(arm.hardware).startswith("CPU A")}
    assert len(lost) == 1
    assert replacements(wanted, laid, lost) == ([] if asked is None else [(asked, labels)])
    assert replacements(wanted, laid, set()) == []


def done(arm: Arm, blocks: int = 2) -> list[Block | FinishedTrial]:
    trials = [Trial(f"{arm}{index}", index, {"units": 1}, arm, 0, 0) for index in range(blocks)]
    return [FinishedTrial(trial, Outcome("complete", 0.0, 1.0)) for trial in trials]


def test_a_finished_sweep_starts_no_nodes() -> None:
    laid = make_plan(spec(), classify([HERE]), "to come")
    on_t4 = Arm("python/a", build_gpu_use("NVIDIA T4", "CPU B"))
    assert arms_worth_waiting_for(laid, done(on_t4)) == ()
    short = build_gpu_use("NVIDIA T4", "CPU B", usage=Usage(settings={"epochs": 1}))
    for history in (
        done(on_t4, blocks=1),
        done(laid.arms[0]),
        done(replace(on_t4, implementation="b/c")),
        done(replace(on_t4, hardware=short)),
    ):
        assert arms_worth_waiting_for(laid, history) == laid.awaited
