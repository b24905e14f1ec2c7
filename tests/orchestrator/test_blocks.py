"""Blocks handed out to lanes: order, supply, telling, restoring. No Ray, no Optuna."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.blocks import Blocks, Issue
from orchestrator.hardware import Gpu, HardwareClass, Node, NodeProfile, classify
from orchestrator.placement import lanes_of, make_lanes
from orchestrator.plan import Plan, PlannedArm
from orchestrator.spec import Objective
from orchestrator.trial import (
    Arm,
    Block,
    Config,
    FailureRecord,
    FinishedTrial,
    Outcome,
    SweepIdentity,
)

ACCURACY = {"val_accuracy": Objective(direction="maximize")}


def identity(seed: int = 0) -> SweepIdentity:
    return SweepIdentity("sweep", 1, "image_rows", {"epochs": 1}, {"sampler": "random"}, seed, "d")


def node(
    name: str, cpus: int = 2, gpus: int = 0, cpu_model: str = "CPU A", gpu: str = "NVIDIA T4"
) -> Node:
    found = tuple(Gpu(index, gpu, f"GPU-{name}-{index}", 16_000) for index in range(gpus))
    return Node(name, NodeProfile(name, cpu_model, cpus, 8_000, found, None, "Linux", "3.11"), cpus)


def plan(
    hardware: Sequence[HardwareClass], implementations: int = 2, blocks: int = 3, repeats: int = 1
) -> Plan:
    arms = [
        PlannedArm(Arm(f"tensorflow/kernel{number}", each.name), each)
        for each in hardware
        for number in range(implementations)
    ]
    return Plan(tuple(arms), (), blocks, repeats)


class Told:
    """A source of configs that notes what it is told."""

    def __init__(self, configs: int = 1_000) -> None:
        self.configs = configs
        self.told: dict[int, Sequence[float] | None] = {}
        self.suggested: list[int] = []

    def suggest(self, index: int) -> Config | None:
        self.suggested.append(index)
        return {"units": index} if index < self.configs else None

    def replay(self, index: int, config: Config) -> None:
        assert config == {"units": index}

    def tell(self, index: int, values: Sequence[float] | None) -> None:
        assert index not in self.told, "told twice"
        self.told[index] = values


def blocks_of(
    plan: Plan,
    source: Told | None = None,
    objectives: Mapping[str, Objective] = ACCURACY,
    open_limit: int | None = None,
) -> Blocks:
    return Blocks(
        identity(),
        plan,
        make_lanes(plan),
        objectives=objectives,
        source=source or Told(),
        open_limit=open_limit,
    )


def complete(accuracy: float = 0.5) -> Outcome:
    return Outcome("complete", 0.0, 1.0, metrics={"val_accuracy": accuracy})


def failed() -> Outcome:
    return Outcome("failed", 0.0, 1.0, failure=FailureRecord("crash", "gone"))


def drain(blocks: Blocks, outcome: Outcome | None = None) -> list[Issue]:
    """Run everything, one trial after another, in the order of issue."""
    out: list[Issue] = []
    finished: list[Issue] = []
    while not blocks.done:
        while (found := blocks.next()) is not None:
            out.append(found[0])
        assert out, "nothing is out and nothing can be issued, yet the sweep is not done"
        issue = out.pop(0)
        blocks.finish(issue, outcome or complete())
        finished.append(issue)
    return finished


def test_every_trial_of_the_plan_is_handed_out_once() -> None:
    laid = plan(classify([node("a")]), implementations=3, blocks=4, repeats=2)
    finished = drain(blocks_of(laid))
    keys = [issue.trial.key for issue in finished]
    assert len(keys) == len(set(keys)) == laid.trials == 24


def test_a_repeat_is_a_complete_round_of_its_block_in_an_order_of_its_own() -> None:
    laid = plan(classify([node("a")]), implementations=4, blocks=5, repeats=3)
    finished = drain(blocks_of(laid))
    rounds = [finished[start : start + 4] for start in range(0, len(finished), 4)]
    orders = []
    for members in rounds:
        assert len({(issue.trial.block, issue.trial.repeat) for issue in members}) == 1
        assert len({issue.trial.arm for issue in members}) == 4
        orders.append(tuple(issue.trial.arm.implementation for issue in members))
    assert len(set(orders)) > 5, "the order of the arms is drawn anew for each round"
    again = drain(blocks_of(laid))
    assert [issue.trial.key for issue in again] == [issue.trial.key for issue in finished]


def test_arms_of_a_round_share_their_seed_and_repeats_do_not() -> None:
    finished = drain(blocks_of(plan(classify([node("a")]), blocks=2, repeats=2)))
    seeds = defaultdict(set)
    for issue in finished:
        seeds[issue.trial.block, issue.trial.repeat].add(issue.trial.seed)
    assert all(len(found) == 1 for found in seeds.values())
    assert len(set.union(*seeds.values())) == 4


def test_a_lane_holds_one_trial_more_than_it_runs() -> None:
    blocks = blocks_of(plan(classify([node("a"), node("b")]), blocks=10))
    out = []
    while (found := blocks.next()) is not None:
        out.append(found[0])
    per_node: dict[str, int] = defaultdict(int)
    for issue in out:
        per_node[issue.lane.node.id] += 1
    assert per_node == {"a": 2, "b": 2}


def test_the_last_trials_wait_for_no_node() -> None:
    """With fewer left than there are nodes, what a busy node held could run on an idle one."""
    blocks = blocks_of(plan(classify([node(name) for name in "abc"]), implementations=1, blocks=7))
    out = []
    while (found := blocks.next()) is not None:
        out.append(found[0])
    assert [issue.lane.node.id for issue in out] == ["a", "b", "c", "a", "b"]
    for name in "ab":
        ended = next(issue for issue in out if issue.lane.node.id == name)
        out.remove(ended)
        blocks.finish(ended, complete())
        assert blocks.next() is None, "each of a and b is at work on its second"
    ended = out.pop(0)
    blocks.finish(ended, complete())
    found = blocks.next()
    assert found is not None
    assert found[0].lane.node.id == ended.lane.node.id == "c", "the idle node is first"


def test_a_block_stays_on_one_node_of_a_class() -> None:
    finished = drain(blocks_of(plan(classify([node("a"), node("b"), node("c")]), blocks=9)))
    nodes: dict[int, set[str]] = defaultdict(set)
    for issue in finished:
        nodes[issue.trial.block].add(issue.lane.node.id)
    assert all(len(found) == 1 for found in nodes.values())
    assert set.union(*nodes.values()) == {"a", "b", "c"}


def test_a_fast_class_never_waits_for_a_slow_one() -> None:
    hardware = classify([node("slow", cpu_model="CPU A"), node("fast", cpu_model="CPU B")])
    blocks = blocks_of(plan(hardware, implementations=1, blocks=30))
    out: list[Issue] = []
    fast = 0
    while fast < 30:
        while (found := blocks.next()) is not None:
            out.append(found[0])
        issue = next(issue for issue in out if issue.lane.node.id == "fast")
        out.remove(issue)
        blocks.finish(issue, complete())
        fast += 1
    assert {issue.lane.node.id for issue in out} == {"slow"}


def test_the_cpu_and_the_gpu_arm_of_one_machine_take_turns_on_one_shape() -> None:
    hardware = classify([node("both", cpus=8, gpus=1)])
    assert [each.device for each in hardware] == ["cpu", "gpu"]
    (group,) = make_lanes(plan(hardware))
    (lane,) = group.lanes
    assert lane.bundle("cpu") == lane.bundle("gpu") == {"CPU": 8, "GPU": 1}
    assert (lane.slots, lane.takes_turns) == (1, False)
    finished = drain(blocks_of(plan(hardware, blocks=6)))
    devices = [issue.device for issue in finished]
    assert devices != sorted(devices), "the arms of a round are mixed"


def test_gpu_arms_alone_use_all_gpus_of_a_node_at_once() -> None:
    hardware = [each for each in classify([node("g", cpus=9, gpus=4)]) if each.device == "gpu"]
    (group,) = make_lanes(plan(hardware))
    (lane,) = group.lanes
    assert (lane.bundle("gpu"), lane.slots) == ({"CPU": 2, "GPU": 1}, 4)


def at_once(laid: Plan, blocks: Blocks) -> list[list[Issue]]:
    """Run everything as Ray would: what is at work after each trial that ends."""
    waiting: list[Issue] = []
    at_work: list[Issue] = []
    seen: list[list[Issue]] = []
    while not blocks.done:
        while (found := blocks.next()) is not None:
            waiting.append(found[0])
        for issue in list(waiting):
            beside = [each for each in at_work if each.lane.node == issue.lane.node]
            kinds = {each.device for each in beside}
            free = len(beside) < issue.lane.room(issue.device)
            if free and kinds <= {issue.device}:
                waiting.remove(issue)
                at_work.append(issue)
        seen.append(list(at_work))
        assert at_work, "nothing is at work, yet the sweep is not done"
        ended = at_work.pop(0)
        blocks.finish(ended, complete())
    assert sum(len(trials) for trials in blocks._blocks.values()) == laid.trials
    return seen


def test_a_cpu_arm_takes_turns_with_several_gpus_at_work_at_once() -> None:
    laid = plan(classify([node("big", cpus=8, gpus=4)]), implementations=2, blocks=10, repeats=2)
    (lane,) = lanes_of(make_lanes(laid))
    assert lane.takes_turns
    assert (lane.bundle("cpu"), lane.room("cpu")) == ({"CPU": 8}, 1)
    assert (lane.bundle("gpu"), lane.room("gpu")) == ({"CPU": 2, "GPU": 1}, 4)
    seen = at_once(laid, blocks_of(laid))
    devices = [{issue.device for issue in at_work} for at_work in seen]
    assert all(len(kinds) == 1 for kinds in devices), "a CPU arm has the node to itself"
    at_work_on = {
        device: [len(each) for each in seen if each[0].device == device]
        for device in ("cpu", "gpu")
    }
    assert set(at_work_on["cpu"]) == {1}
    assert at_work_on["gpu"].count(4) > 0.7 * len(at_work_on["gpu"]), "all GPUs are at work"
    turns = sum(one != other for one, other in pairwise(devices))
    assert 2 <= turns <= 6, "few turns: each begins with cold trainers"
    blocks = [{issue.trial.block for issue in at_work} for at_work in seen]
    assert max(blocks[0]) <= 3, "the CPU's turn comes after as many blocks as there are slots"


def test_a_lost_gpu_trial_goes_before_the_cpus_turn() -> None:
    laid = plan(classify([node("big", cpus=8, gpus=2)]), implementations=1, blocks=2)
    blocks = blocks_of(laid)
    out = []
    while (found := blocks.next()) is not None:
        out.append(found[0])
    assert [issue.device for issue in out] == ["gpu", "gpu"]
    blocks.finish(out[0], complete())
    blocks.give_back(out[1])
    again = blocks.next()
    assert again is not None
    assert (again[0].trial, again[0].attempt) == (out[1].trial, 2)
    blocks.finish(again[0], complete())
    assert [issue.device for issue in drain(blocks)] == ["cpu", "cpu"]


def test_turns_survive_a_restart_and_few_open_blocks() -> None:
    laid = plan(classify([node("big", cpus=8, gpus=4)]), implementations=2, blocks=6)
    finished = drain(blocks_of(laid, open_limit=2))
    assert len({issue.trial.key for issue in finished}) == laid.trials
    past: list[Block | FinishedTrial] = []
    for issue in finished[:13]:
        block = Block(issue.trial.block, issue.trial.config)
        past += [] if block in past else [block]
        past.append(FinishedTrial(issue.trial, complete()))
    after = blocks_of(laid)
    after.restore(past)
    assert {issue.trial.key for issue in drain(after)} == {
        issue.trial.key for issue in finished[13:]
    }


def test_the_cpu_class_keeps_off_gpu_nodes_where_there_are_others() -> None:
    hardware = classify([node("plain"), node("gpu", gpus=1)])
    cpu = next(each for each in hardware if each.device == "cpu")
    assert [each.id for each in cpu.nodes] == ["plain"]


def test_lanes_that_share_a_class_share_its_work() -> None:
    hardware = classify([node("a", cpus=4, gpus=1), node("b", cpus=4, gpus=1)])
    second = Gpu(0, "NVIDIA L4", "GPU-b-0", 24_000)
    a, b = (found for each in hardware if each.device == "cpu" for found in each.nodes)
    hardware = classify([a, replace(b, profile=replace(b.profile, gpus=(second,)))])
    assert [len(each.nodes) for each in hardware] == [2, 1, 1]
    finished = drain(blocks_of(plan(hardware, implementations=2, blocks=6)))
    assert len(finished) == 6 * 6
    on_cpu: dict[int, set[str]] = defaultdict(set)
    for issue in finished:
        if issue.device == "cpu":
            on_cpu[issue.trial.block].add(issue.lane.node.id)
        else:
            assert issue.trial.arm.hardware.startswith(issue.lane.node.gpu_names[0])
    assert all(len(nodes) == 1 for nodes in on_cpu.values()), "a block's CPU arms share a node"
    assert set.union(*on_cpu.values()) == {"a", "b"}


def test_only_so_many_blocks_are_open() -> None:
    source = Told()
    blocks = blocks_of(plan(classify([node(name) for name in "abcdef"])), source, open_limit=2)
    while blocks.next() is not None:
        pass
    assert source.suggested == [0, 1]


def test_the_sampler_is_told_the_mean_over_arms_once_per_block() -> None:
    source = Told()
    blocks = blocks_of(plan(classify([node("a")]), blocks=1, repeats=2), source)
    values = iter([0.2, 0.4, 0.6, 0.8])
    while (found := blocks.next()) is not None:
        assert source.told == {}
        blocks.finish(found[0], complete(next(values)))
    assert source.told[0] == [0.5]


def test_an_objective_can_read_one_arm_and_is_then_told_at_once() -> None:
    source = Told()
    named = Objective(direction="maximize", over="tensorflow/kernel1")
    blocks = blocks_of(plan(classify([node("a")]), blocks=1), source, {"val_accuracy": named})
    while (found := blocks.next()) is not None:
        trial = found[0].trial
        good = trial.arm.implementation == "tensorflow/kernel1"
        blocks.finish(found[0], complete(0.9) if good else failed())
        assert (0 in source.told) is good or source.told == {0: [0.9]}
    assert source.told == {0: [0.9]}


def test_a_block_in_which_an_arm_failed_is_told_as_failed() -> None:
    source = Told()
    blocks = blocks_of(plan(classify([node("a")]), implementations=3, blocks=1), source)
    first = True
    while (found := blocks.next()) is not None:
        blocks.finish(found[0], failed() if first else complete())
        first = False
    assert source.told == {0: None}


def test_a_complete_trial_without_the_metric_is_a_failed_block() -> None:
    source = Told()
    blocks = blocks_of(plan(classify([node("a")]), blocks=1), source)
    while (found := blocks.next()) is not None:
        blocks.finish(found[0], Outcome("complete", 0.0, 1.0))
    assert source.told == {0: None}


def test_a_lost_attempt_is_the_next_trial_of_its_lane() -> None:
    blocks = blocks_of(plan(classify([node("a")]), blocks=2))
    first = blocks.next()
    assert first is not None
    blocks.give_back(first[0])
    again = blocks.next()
    assert again is not None
    assert (again[0].trial, again[0].attempt) == (first[0].trial, 2)


def test_a_trial_that_never_began_is_not_charged() -> None:
    blocks = blocks_of(plan(classify([node("a")]), blocks=2))
    out = [found[0] for found in (blocks.next(), blocks.next()) if found is not None]
    for issue in reversed(out):
        blocks.give_back(issue, charged=False)
    again = [found[0] for found in (blocks.next(), blocks.next()) if found is not None]
    assert [(issue.trial, issue.attempt) for issue in again] == [(i.trial, 1) for i in out]


def test_a_space_that_is_used_up_ends_the_sweep() -> None:
    finished = drain(blocks_of(plan(classify([node("a")]), blocks=50), Told(configs=3)))
    assert {issue.trial.block for issue in finished} == {0, 1, 2}


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    cut=st.integers(0, 36),
    open_limit=st.one_of(st.none(), st.integers(1, 4)),
)
def test_a_sweep_cut_anywhere_and_continued_runs_every_trial_once(
    seed: int, cut: int, open_limit: int | None
) -> None:
    rng = random.Random(seed)
    hardware = classify([node("a"), node("b", cpu_model="CPU B"), node("c")])
    laid = plan(hardware, blocks=3, repeats=3, implementations=2)
    before = blocks_of(laid, open_limit=open_limit)
    past: list[Block | FinishedTrial] = []
    outcomes: dict[str, Outcome] = {}
    out: list[Issue] = []
    while len(outcomes) < cut and not before.done:
        while (found := before.next()) is not None:
            out.append(found[0])
            past += [found[1]] if found[1] else []
        issue = out.pop(rng.randrange(len(out)))
        outcomes[issue.trial.key] = complete()
        past.append(FinishedTrial(issue.trial, complete()))
        before.finish(issue, complete())
    source = Told()
    after = blocks_of(laid, source, open_limit=open_limit)
    after.restore(past)
    rest = [issue.trial.key for issue in drain(after)]
    assert not set(rest) & set(outcomes)
    assert len(rest) == len(set(rest)) == laid.trials - len(outcomes)
    assert set(source.told) == set(range(3))


def test_what_waits_on_a_lost_node_goes_to_another_of_its_hardware() -> None:
    both, one = classify([node("a"), node("b")]), classify([node("b")])
    blocks = blocks_of(plan(both, implementations=2, blocks=4))
    out = [found[0] for found in iter(blocks.next, None)]
    on_a = [issue for issue in out if issue.lane.node.id == "a"]
    assert len(on_a) == 2
    blocks.move(make_lanes(plan(one, implementations=2, blocks=4)), None)
    for issue in on_a:
        blocks.give_back(issue)
    ran = {}
    while (found := blocks.next()) is not None or blocks.out:
        if found is not None:
            out.append(found[0])
        issue = next(each for each in out if each not in on_a and each.trial.key not in ran)
        assert issue.lane.node.id == "b"
        ran[issue.trial.key] = issue
        blocks.finish(issue, complete())
    assert len(ran) == 8
    assert {ran[issue.trial.key].attempt for issue in on_a} == {2}
    assert blocks.done


def test_trials_of_hardware_that_has_gone_wait_for_its_return() -> None:
    here = classify([node("a"), node("b", cpu_model="CPU B")])
    laid = plan(here, implementations=1, blocks=2)
    blocks = blocks_of(laid)
    gone = replace(
        laid,
        possible=tuple(
            replace(each, hardware=replace(each.hardware, nodes=each.hardware.nodes[:1]))
            if each.hardware.name.startswith("CPU A")
            else replace(each, hardware=replace(each.hardware, nodes=()))
            for each in laid.possible
        ),
    )
    blocks.move(make_lanes(gone), None)
    while (found := blocks.next()) is not None:
        blocks.finish(found[0], complete())
    assert not blocks.done
    assert blocks.stranded == {"CPU B, 2 CPUs": 2}
    blocks.move(make_lanes(laid), None)
    assert blocks.stranded == {}
    while (found := blocks.next()) is not None:
        assert found[0].lane.node.id == "b"
        blocks.finish(found[0], complete())
    assert blocks.done


def test_a_node_that_joins_takes_its_share() -> None:
    laid = plan(classify([node("a")]), implementations=1, blocks=6)
    blocks = blocks_of(laid)
    first = [blocks.next(), blocks.next()]
    assert blocks.next() is None
    more = classify([node("a"), node("b")])
    blocks.move(make_lanes(plan(more, implementations=1, blocks=6)), None)
    joined = [blocks.next(), blocks.next()]
    assert blocks.next() is None
    assert all(found is not None for found in (*first, *joined))
    assert {found[0].lane.node.id for found in joined if found} == {"b"}
    assert {found[0].trial.block for found in (*first, *joined) if found} == {0, 1, 2, 3}


def test_a_node_that_joins_has_blocks_open_for_it() -> None:
    laid = plan(classify([node("a")]), implementations=1, blocks=6)
    blocks = blocks_of(laid, open_limit=2)
    assert all([blocks.next(), blocks.next()])
    more = make_lanes(plan(classify([node("a"), node("b")]), implementations=1, blocks=6))
    blocks.move(more, 2)
    assert blocks.next() is None, "no block may be opened for the node"
    blocks.move(more, 3)
    found = blocks.next()
    assert found is not None
    assert found[0].lane.node.id == "b"


def test_a_lost_trial_goes_where_its_hardware_has_moved() -> None:
    alone, both = [node("big", cpus=8, gpus=2)], [node("plain", cpus=8)]
    laid = plan(classify(alone), implementations=1, blocks=2)
    blocks = blocks_of(laid)
    while (out := [found[0] for found in iter(blocks.next, None)])[0].device != "cpu":
        for issue in out:
            blocks.finish(issue, complete())
    blocks.move(make_lanes(plan(classify(alone + both), implementations=1, blocks=2)), None)
    for issue in out:
        blocks.give_back(issue)
    again = [found[0] for found in iter(blocks.next, None)]
    assert {issue.lane.node.id for issue in again} == {"plain"}
    assert {issue.trial.key for issue in again} == {issue.trial.key for issue in out}


def test_a_sweep_without_any_node_has_stranded_trials_before_its_first_block() -> None:
    laid = plan(classify([node("a")]), implementations=2, blocks=3)
    blocks = blocks_of(laid)
    nowhere = [replace(each, hardware=replace(each.hardware, nodes=())) for each in laid.possible]
    blocks.move(make_lanes(replace(laid, possible=tuple(nowhere))), None)
    assert blocks.next() is None
    assert blocks.stranded == {"CPU A, 2 CPUs": 6}


def idle_with_work(laid: Plan, blocks: Blocks, at_work: Sequence[Issue]) -> list[str]:
    """Nodes that run nothing, and that have an arm of which a trial is in nobody's hands."""
    busy = {issue.lane.node.id for issue in at_work}
    held = {
        trial.key
        for trials in blocks._blocks.values()
        for trial in trials
        if trial.key in blocks._outcomes or trial.key in blocks._out
    } | {
        trial.key
        for queue in blocks._queues
        if queue.lane.node.id in busy
        for trial in queue.waiting
    }
    free = Counter(
        trial.arm for ts in blocks._blocks.values() for trial in ts if trial.key not in held
    )
    unseen = laid.blocks - len(blocks._blocks)
    return [
        found.id
        for planned in laid.possible
        for found in planned.hardware.nodes
        if found.id not in busy and (unseen or free[planned.arm])
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
    blocks = blocks_of(laid)
    waiting: list[Issue] = []
    at_work: dict[str, tuple[float, Issue]] = {}
    seen: list[str] = []
    while not blocks.done:
        while (found := blocks.next()) is not None:
            waiting.append(found[0])
        for issue in list(waiting):
            beside = [each for _, each in at_work.values() if each.lane.node == issue.lane.node]
            alike = {each.device for each in beside} <= {issue.device}
            takes_turns = issue.lane.takes_turns
            room = issue.lane.room(issue.device) if takes_turns else issue.lane.slots
            if len(beside) < room and (alike or not takes_turns):
                waiting.remove(issue)
                at_work[issue.trial.key] = (rng.expovariate(1.0), issue)
        assert not idle_with_work(laid, blocks, [issue for _, issue in at_work.values()])
        key = min(at_work, key=lambda key: at_work[key][0])
        now, ended = at_work.pop(key)
        at_work = {other: (end - now, issue) for other, (end, issue) in at_work.items()}
        seen.append(key)
        blocks.finish(ended, complete())
    assert len(seen) == len(set(seen)) == laid.trials
