"""Which lane gets which trial of a block, and when: nodes, devices, turns."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.hardware import Gpu, classify
from orchestrator.planning.lanes import lanes_of, make_lanes
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.blocks import Blocks
from orchestrator.scheduling.lane_queue import Assignment
from tests.orchestrator.sample_plans import (
    blocks_of,
    complete,
    drain,
    node,
    plan,
)


def at_work_until_done(
    blocks: Blocks, duration_s: Callable[[], float]
) -> Iterator[list[Assignment]]:
    """Run everything as Ray would: what is at work before each end."""
    waiting: list[Assignment] = []
    at_work: list[tuple[float, Assignment]] = []
    now_s = 0.0
    while not blocks.done:
        waiting += [handed_out[0] for handed_out in iter(blocks.next, None)]
        for assignment in list(waiting):
            lane = assignment.lane
            neighbours = [other for _, other in at_work if other.lane.node == lane.node]
            alike = {other.device for other in neighbours} <= {assignment.device}
            room = lane.room(assignment.device) if lane.takes_turns else lane.slots
            if len(neighbours) < room and (alike or not lane.takes_turns):
                waiting.remove(assignment)
                at_work.append((now_s + duration_s(), assignment))
        assert at_work, "nothing is at work, yet the sweep is not done"
        yield [assignment for _, assignment in at_work]
        first = min(at_work, key=lambda end: end[0])
        at_work.remove(first)
        now_s, ended = first
        blocks.finish(ended, complete())


def test_a_cpu_arm_takes_turns_with_several_gpus_at_work_at_once() -> None:
    laid = plan(classify([node("big", cpus=8, gpus=4)]), implementations=2, blocks=10, repeats=2)
    (lane,) = lanes_of(make_lanes(laid))
    assert lane.takes_turns
    assert (lane.bundle("cpu"), lane.room("cpu")) == ({"CPU": 8}, 1)
    assert (lane.bundle("gpu"), lane.room("gpu")) == ({"CPU": 2, "GPU": 1}, 4)
    seen = list(at_work_until_done(blocks_of(laid), lambda: 1.0))
    assert len(seen) == laid.trials
    devices = [{assignment.device for assignment in at_work} for at_work in seen]
    assert all(len(kinds) == 1 for kinds in devices), "a CPU arm has the node to itself"
    at_work_on = {
        device: [len(turn) for turn in seen if turn[0].device == device]
        for device in ("cpu", "gpu")
    }
    assert set(at_work_on["cpu"]) == {1}
    assert at_work_on["gpu"].count(4) > 0.7 * len(at_work_on["gpu"]), "all GPUs are at work"
    turns = sum(one != other for one, other in pairwise(devices))
    assert 2 <= turns <= 6, "few turns: each begins with cold trainers"
    blocks = [{assignment.trial.block for assignment in at_work} for at_work in seen]
    assert max(blocks[0]) <= 3, "the CPU's turn comes after as many blocks as there are slots"


def test_lanes_that_share_a_class_share_its_work() -> None:
    hardware = classify([node("a", cpus=4, gpus=1), node("b", cpus=4, gpus=1)])
    second = Gpu(0, "NVIDIA L4", "GPU-b-0", 24_000)
    a, b = (
        handed_out
        for hardware_class in hardware
        if hardware_class.device == "cpu"
        for handed_out in hardware_class.nodes
    )
    hardware = classify([a, replace(b, profile=replace(b.profile, gpus=(second,)))])
    assert [len(hardware_class.nodes) for hardware_class in hardware] == [2, 1, 1]
    finished = drain(blocks_of(plan(hardware, implementations=2, blocks=6)))
    assert len(finished) == 6 * 6
    on_cpu: dict[int, set[str]] = defaultdict(set)
    for assignment in finished:
        if assignment.device == "cpu":
            on_cpu[assignment.trial.block].add(assignment.lane.node.id)
        else:
            assert assignment.trial.arm.hardware_class.gpu == assignment.lane.node.gpu_names[0]
    assert all(len(nodes) == 1 for nodes in on_cpu.values()), "a block's CPU arms share a node"
    assert set.union(*on_cpu.values()) == {"a", "b"}


def idle_with_work(laid: Plan, blocks: Blocks, at_work: Sequence[Assignment]) -> list[str]:
    """Nodes that run nothing, and that have an arm of which a trial is in nobody's hands."""
    busy = {assignment.lane.node.id for assignment in at_work}
    held = {
        trial.key
        for trials in blocks._trials.values()
        for trial in trials
        if trial.key in blocks._outcomes or trial.key in blocks._out
    } | {
        trial.key
        for queue in blocks._queues
        if queue.lane.node.id in busy
        for trial in queue.waiting
    }
    free = Counter(
        trial.arm for ts in blocks._trials.values() for trial in ts if trial.key not in held
    )
    unseen = laid.blocks - len(blocks._trials)
    return [
        handed_out.id
        for planned in laid.possible
        for handed_out in planned.hardware.nodes
        if handed_out.id not in busy and (unseen or free[planned.arm])
    ]


KINDS = st.tuples(st.sampled_from("AB"), st.sampled_from([0, 1, 3]), st.sampled_from("TL"))


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_no_node_idles_while_it_has_work_that_may_start(data: st.DataObject) -> None:
    """Any cluster, any durations, all blocks open: every trial runs once, and nothing waits."""
    nodes = [
        node(f"n{number}", cpus=4, gpus=gpus, cpu_model=f"CPU {model}", gpu=f"NVIDIA {kind}4")
        for number, (model, gpus, kind) in enumerate(
            data.draw(st.lists(KINDS, min_size=1, max_size=5))
        )
    ]
    sizes = st.integers(1, 3)
    laid = plan(
        classify(nodes),
        implementations=data.draw(sizes),
        blocks=data.draw(st.integers(1, 9)),
        repeats=data.draw(sizes),
    )
    rng = random.Random(data.draw(st.integers(0, 1000)))
    blocks, ended = blocks_of(laid), 0
    for at_work in at_work_until_done(blocks, lambda: rng.expovariate(1.0)):
        assert not idle_with_work(laid, blocks, at_work)
        ended += 1
    assert ended == len(blocks._outcomes) == laid.trials
