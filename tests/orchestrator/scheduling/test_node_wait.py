"""Waiting for nodes that an autoscaler may start, with a counted clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.cluster.autoscaler import request_nodes, requested_nodes, withdraw_request
from orchestrator.core.arms import Arm, RequestedArm, Usage
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import Block, FinishedTrial, Outcome, Trial
from orchestrator.hardware import Node, classify
from orchestrator.planning.plan import Plan, describe_plan, make_plan
from orchestrator.scheduling.node_wait import (
    arms_worth_waiting_for,
    replacements,
    requests,
    wait_for_nodes,
)
from orchestrator.spec import SweepSpec, parse
from tests.orchestrator.sample_hardware import on_gpu
from tests.orchestrator.sample_plans import node

SPEC = """
name: waits
workload: own.module:run
search: {{sampler: random, configs: 2, space: {{units: {{low: 1, high: 1000}}}}}}
arms:
  implementations: [python/a]
  hardware: ['CPU A*', {hardware}]
"""
T4 = "{labels: {ray.io/accelerator-type: T4, market-type: spot}, wait_s: 60}"
ON_T4 = "nodes with ray.io/accelerator-type=T4, market-type=spot"
HERE = node("here")
COME = replace(
    node("come", gpus=1, cpu_model="CPU B"),
    labels={"ray.io/accelerator-type": "T4", "market-type": "spot"},
)


def spec(hardware: str = T4) -> SweepSpec:
    return parse(SPEC.format(hardware=hardware), source="spec")


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


def test_a_plan_shows_what_it_will_wait_for() -> None:
    laid = make_plan(spec(), classify([HERE]), "to come")
    assert [awaited.arm for awaited in laid.awaited] == [RequestedArm("python/a", ON_T4)]
    assert laid.impossible == ()
    assert f"  waits  up to 60 s for {ON_T4}: 1 implementation, not" in describe_plan(laid, "w")
    assert laid.as_json()["awaited"][0]["wait_s"] == 60


def test_without_a_cluster_nothing_is_waited_for() -> None:
    laid = make_plan(spec(), classify([HERE]))
    assert laid.awaited == ()
    (impossible,) = laid.impossible
    assert impossible.reason.endswith("; a run on a cluster (--address) waits 60 s for one")


def test_the_plan_is_laid_again_as_soon_as_the_node_is_there() -> None:
    clock = Clock(comes_s=7.2)
    laid = waited(clock)
    assert 7.2 <= clock.now_s < 9
    assert [str(arm.hardware) for arm in laid.arms] == [
        "CPU A, 2 CPUs",
        "NVIDIA T4 (CPU B, 2 CPUs)",
    ]
    assert (laid.awaited, laid.impossible) == ((), ())


def test_after_its_time_the_arm_is_not_possible() -> None:
    clock = Clock(comes_s=None)
    laid = waited(clock)
    assert 60 <= clock.now_s < 62
    (impossible,) = laid.impossible
    assert impossible.arm.hardware == ON_T4
    assert impossible.reason == (
        "no node has the labels ray.io/accelerator-type=T4, market-type=spot; none has any; "
        "none came within 60 s (wait_s)"
    )


def test_a_node_of_other_labels_is_not_what_was_waited_for() -> None:
    other = replace(COME, labels={"ray.io/accelerator-type": "L4"})
    assert waited(Clock(comes_s=3.0, come=other)).impossible


def test_each_entry_has_a_time_of_its_own() -> None:
    clock = Clock(comes_s=None)
    laid = waited(clock, "{class: '*L4*', wait_s: 5}, {class: '*H200*', wait_s: 20}")
    assert 20 <= clock.now_s < 22
    assert len(laid.impossible) == 2


def test_a_signal_ends_the_waiting() -> None:
    def check() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        wait_for_nodes(spec(), lambda: (), check=check)


@pytest.mark.parametrize(
    ("hardware", "asked"),
    [
        (T4, {"CPU": 1.0, "GPU": 1.0}),
        ("{class: gpu, cpus: 4, labels: {zone: eu}, wait_s: 1}", {"CPU": 4.0, "GPU": 1.0}),
        ("{class: cpu, threads: 3, labels: {zone: eu}, wait_s: 1}", {"CPU": 3.0}),
        ("{class: '*H200*', wait_s: 1}", None),
    ],
)
def test_an_autoscaler_is_asked_for_the_labels_of_an_entry(
    hardware: str, asked: dict[str, float] | None
) -> None:
    awaited = make_plan(spec(hardware), classify([HERE]), "to come").awaited
    labels = dict(awaited[0].entry.labels)
    assert requests([*awaited, *awaited]) == ([] if asked is None else [(asked, labels)])


@pytest.mark.parametrize(
    ("entry", "on_gpu"),
    [
        ("{class: '*H200*', SPOT}", True),
        ("{class: NVIDIA H200, SPOT}", True),
        ("{class: 'nvidia h200', SPOT}", True),
        ("{class: 'NVIDIA H200 (AMD EPYC, 16 CPUs)', SPOT}", True),
        ("{class: '*A10G*', SPOT}", True),
        ("{class: Tesla T4, SPOT}", True),
        ("{class: gpu, SPOT}", True),
        ("{class: GPU, SPOT}", True),
        ("{cpus: 4, SPOT}", True),
        ("{class: cpu, SPOT}", False),
        ("{class: CPU, SPOT}", False),
        ("{class: cpu, labels: {ray.io/accelerator-type: T4}, wait_s: 900}", False),
        ("{class: 'AMD EPYC, 16 CPUs', SPOT}", False),
        ("{class: '*EPYC*', SPOT}", False),
        ("{class: 'Intel(R) Xeon(R)*', SPOT}", False),
        ("{class: 'Neoverse-V2, 64 CPUs', SPOT}", False),
        ("{labels: {ray.io/accelerator-type: T4}, wait_s: 900}", True),
        ("{labels: {ray.io/accelerator-type: 'in(T4, L4)'}, wait_s: 900}", True),
        ("{labels: {ray.io/accelerator-type: '!T4', zone: eu}, wait_s: 900}", False),
        ("{SPOT}", False),
    ],
)
def test_an_autoscaler_is_asked_for_the_device_of_the_class(entry: str, on_gpu: bool) -> None:
    spot = "labels: {market-type: spot}, wait_s: 900"
    wanted = spec(entry.replace("SPOT", spot))
    ((resources, _),) = requests(make_plan(wanted, classify([HERE]), "to come").awaited)
    assert ("GPU" in resources) == on_gpu


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
        ("{class: NVIDIA T4, LABELS}", {"CPU": 1.0, "GPU": 1.0}),
        ("{class: GPU, LABELS}", {"CPU": 1.0, "GPU": 1.0}),
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


def test_what_was_asked_for_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []
    monkeypatch.setattr(
        "ray.autoscaler._private.commands.request_resources", lambda *args: made.append(args)
    )
    request_nodes([({"CPU": 1.0}, {"zone": "eu"})])
    withdraw_request()
    assert [bundles for _, bundles, *_ in made] == [[{"CPU": 1.0}], []]


def test_a_spec_knows_whether_it_may_wait_for_nodes() -> None:
    assert spec().may_wait
    assert not spec("gpu").may_wait
