"""Waiting for nodes that an autoscaler may start, with a counted clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from orchestrator.cluster.autoscaler import requested_nodes
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
from tests.orchestrator import sample_specs
from tests.orchestrator.sample_hardware import on_gpu
from tests.orchestrator.sample_plans import node
from tests.orchestrator.sample_specs import OWN

T4 = "{labels: {ray.io/accelerator-type: T4, market-type: spot}, wait_s: 60}"
ON_T4 = "nodes with ray.io/accelerator-type=T4, market-type=spot"
HERE = node("here")
COME = replace(
    node("come", gpus=1, cpu_model="CPU B"),
    labels={"ray.io/accelerator-type": "T4", "market-type": "spot"},
)


def spec(hardware: str = T4) -> SweepSpec:
    """Return a spec of the CPU that is here, and of this hardware, as YAML."""
    space = {"units": {"low": 1, "high": 1000}}
    entries = yaml.safe_load(f"['CPU A*', {hardware}]")
    return sample_specs.spec(OWN, configs=2, space=space, hardware=entries)


class Clock:
    """Counted seconds, and a node that comes after some of them."""

    def __init__(self, comes_s: float | None, come: Node = COME) -> None:
        self.now_s, self._comes_s, self._come = 0.0, comes_s, come

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    @property
    def nodes(self) -> tuple[Node, ...]:
        there = self._comes_s is not None and self.now_s >= self._comes_s
        return (HERE, self._come) if there else (HERE,)


def waited(clock: Clock, hardware: str = T4) -> Plan:
    """Return the plan for the nodes that are there at the end of the wait."""
    wanted = spec(hardware)
    nodes = wait_for_nodes(
        wanted, lambda: clock.nodes, check=lambda: None, clock=clock, sleep=clock.sleep
    )
    return make_plan(wanted, classify(nodes), "over")


def test_the_plan_is_laid_again_as_soon_as_the_node_is_there() -> None:
    clock = Clock(comes_s=7.2)
    laid = waited(clock)
    assert 7.2 <= clock.now_s < 9
    assert [str(arm.hardware) for arm in laid.arms] == [
        "CPU A, 2 CPUs",
        "NVIDIA T4 (CPU B, 2 CPUs)",
    ]
    assert (laid.awaited, laid.impossible) == ((), ())


def test_after_the_time_of_its_entry_an_arm_is_not_possible() -> None:
    clock = Clock(comes_s=None)
    laid = waited(clock, f"{{class: '*L4*', wait_s: 5}}, {T4}")
    assert 60 <= clock.now_s < 62
    _, impossible = laid.impossible
    assert impossible.arm.hardware == ON_T4
    assert "none came within 60 s (wait_s)" in impossible.reason


@pytest.mark.parametrize(
    ("entry", "resources"),
    [
        ("{class: '*H200*', SPOT}", {"CPU": 1.0, "GPU": 1.0}),
        ("{class: GPU, SPOT}", {"CPU": 1.0, "GPU": 1.0}),
        ("{cpus: 4, SPOT}", {"CPU": 4.0, "GPU": 1.0}),
        ("{class: cpu, threads: 3, SPOT}", {"CPU": 3.0}),
        ("{class: cpu, labels: {ray.io/accelerator-type: T4}, wait_s: 900}", {"CPU": 1.0}),
        ("{class: 'Intel(R) Xeon(R)*', SPOT}", {"CPU": 1.0}),
        ("{labels: {ray.io/accelerator-type: 'in(T4, L4)'}, wait_s: 9}", {"CPU": 1.0, "GPU": 1.0}),
        ("{labels: {ray.io/accelerator-type: '!T4', zone: eu}, wait_s: 9}", {"CPU": 1.0}),
        ("{SPOT}", {"CPU": 1.0}),
    ],
)
def test_an_autoscaler_is_asked_for_the_device_and_the_labels_of_an_entry(
    entry: str, resources: dict[str, float]
) -> None:
    wanted = spec(entry.replace("SPOT", "labels: {market-type: spot}, wait_s: 900"))
    awaited = make_plan(wanted, classify([HERE]), "to come").awaited
    labels = dict(awaited[0].entry.labels)
    assert requests([*awaited, *awaited]) == [(resources, labels)]


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_class_that_other_nodes_have_is_on_its_known_device(gpus: int) -> None:
    there = classify([HERE, node("there", gpus=gpus, cpu_model="Own Chip")])
    name = "NVIDIA T4 (Own Chip, 2 CPUs)" if gpus else "Own Chip*"
    wanted = spec(f"{{class: '{name}', labels: {{zone: eu}}, wait_s: 900}}")
    ((resources, _),) = requests(make_plan(wanted, there, "to come").awaited, there)
    assert ("GPU" in resources) == bool(gpus)


@pytest.mark.parametrize(
    ("entry", "asked"),
    [
        ("{class: '*T4*', LABELS}", {"CPU": 1.0, "GPU": 1.0}),
        ("{class: gpu, cpus: 2, LABELS}", {"CPU": 2.0, "GPU": 1.0}),
        ("{LABELS}", {"CPU": 1.0, "GPU": 1.0}),
        ("{class: CPU, LABELS}", {"CPU": 1.0}),
        ("{class: 'CPU B*', threads: 2, LABELS}", {"CPU": 2.0}),
        ("{class: '*T4*'}", None),
    ],
)
def test_a_lost_node_is_replaced_by_one_with_its_device(
    entry: str, asked: dict[str, float] | None
) -> None:
    labels = {"market-type": "spot"}
    wanted = spec(entry.replace("LABELS", "labels: {market-type: spot}"))
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
    on_t4 = Arm("python/a", on_gpu("NVIDIA T4", "CPU B"))
    assert arms_worth_waiting_for(laid, done(on_t4)) == ()
    assert arms_worth_waiting_for(laid, done(on_t4, blocks=1)) == laid.awaited
    assert arms_worth_waiting_for(laid, done(laid.arms[0])) == laid.awaited
    assert arms_worth_waiting_for(laid, done(replace(on_t4, implementation="b/c"))) == laid.awaited
    usage = Usage(settings={"epochs": 1})
    short = replace(on_t4, hardware=on_gpu("NVIDIA T4", "CPU B", usage=usage))
    assert arms_worth_waiting_for(laid, done(short)) == laid.awaited


def test_a_request_ends_with_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []
    monkeypatch.setattr(
        "ray.autoscaler._private.commands.request_resources", lambda *args: made.append(args)
    )
    awaited = make_plan(spec(), classify([HERE]), "to come").awaited
    with requested_nodes(requests(awaited)):
        ((_, bundles, labels),) = made
        assert bundles == [{"CPU": 1.0, "GPU": 1.0}]
        assert labels == [{"ray.io/accelerator-type": "T4", "market-type": "spot"}]
    assert [bundles for _, bundles, *_ in made[1:]] == [[]]
    with requested_nodes([]):
        pass
    assert len(made) == 2, "nothing is asked for where there is nothing to ask for"
