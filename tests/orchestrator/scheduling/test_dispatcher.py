"""Which lane gets which trial of a block, and when; rounds, lost trials, restored starts."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis.stopping import PrecisionReached
from orchestrator.core.arms import HardwareUse
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.failure_limit import FailureLimit
from orchestrator.core.trial import (
    Block,
    EpochRecord,
    FinishedTrial,
    Outcome,
    OutcomeStatus,
    count_spared,
    make_trial,
)
from orchestrator.hardware import classify
from orchestrator.planning.lanes import LaneGroup, make_lanes
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.dispatcher import Dispatcher
from orchestrator.scheduling.lane_index import LaneIndex
from orchestrator.scheduling.lane_queue import Assignment, LaneQueue
from orchestrator.scheduling.ledger import Ledger
from orchestrator.spec import Objective
from orchestrator.storage import journal, resume
from tests.building.hardware import build_node, build_timing_use
from tests.building.scheduling import (
    ConfigLog,
    build_dispatcher,
    build_plan,
    finish_all_assignments,
)
from tests.building.trials import IDENTITY, build_failed_outcome, build_outcome
from tests.profiles import draws


def timed(laid: Plan) -> Plan:
    arms = (
        replace(planned, arm=replace(planned.arm, hardware=build_timing_use(planned.arm.hardware)))
        for planned in laid.possible
    )
    return replace(laid, possible=tuple(arms))


ONE_NODE = build_plan(classify([build_node("a")]), blocks=1)


class ScannedLanes(LaneIndex):
    """Lanes that look at each lane and each begun block for each decision: slow, and plain."""

    def with_room(self) -> Iterator[LaneQueue]:
        for queue in sorted(self.queues.values(), key=lambda queue: -queue.free_slots):
            if queue.free_slots >= 0:
                yield queue

    def oldest_block_for(self, queue: LaneQueue) -> int | None:
        return min(
            (index for group in queue.groups for index in self.unassigned[group]), default=None
        )

    def has_blocks_for(self, queue: LaneQueue, count: int) -> bool:
        return len({index for group in queue.groups for index in self.unassigned[group]}) >= count


def at_work_until_done(
    dispatcher: Dispatcher, duration_s: Callable[[], float]
) -> Iterator[list[Assignment]]:
    """Run everything as Ray would: what is at work before each end."""
    waiting: list[Assignment] = []
    at_work: list[tuple[float, Assignment]] = []
    now_s = 0.0
    while not dispatcher.done:
        waiting += [handed_out[0] for handed_out in iter(dispatcher.next, None)]
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
        dispatcher.finish(ended, *(build_outcome() for _ in ended.trials))


def test_a_cpu_arm_takes_turns_with_several_gpus_at_work_at_once() -> None:
    laid = build_plan(
        classify([build_node("big", cpus=8, gpus=4)]), implementations=2, blocks=10, repeats=4
    )
    (lane,) = {lane for group in make_lanes(laid) for lane in group.lanes}
    assert (lane.bundle("cpu"), lane.room("cpu")) == ({"CPU": 8}, 1)
    assert (lane.bundle("gpu"), lane.room("gpu")) == ({"CPU": 2, "GPU": 1}, 4)
    seen = list(at_work_until_done(build_dispatcher(laid), lambda: 1.0))
    on_gpus = [len(at_work) for at_work in seen if at_work[0].device == "gpu"]
    assert on_gpus.count(4) > 0.7 * len(on_gpus), "all GPUs are at work"
    turns = sum(earlier[0].device != later[0].device for earlier, later in pairwise(seen))
    assert 2 <= turns <= 6, "few turns: each begins with cold trainers"
    assert max(assignment.block for assignment in seen[0]) <= 3, "there are four slots"


def idle_with_work(laid: Plan, dispatcher: Dispatcher, at_work: Sequence[Assignment]) -> list[str]:
    """Nodes that run nothing, and that have an arm of which a trial is in nobody's hands."""
    ledger, busy = dispatcher.ledger, {assignment.lane.node.id for assignment in at_work}
    assigned = {trial.key for assignment in dispatcher.handed_out for trial in assignment.trials}
    for queue in dispatcher.lanes.queues.values():
        if queue.lane.node.id in busy:
            assigned |= {trial.key for trial in queue.waiting}
    missing = (trial for index in ledger.blocks for trial in ledger.missing_trials(index))
    free = {trial.arm for trial in missing if trial.key not in assigned}
    unseen = laid.blocks - len(ledger.blocks)
    return [
        idle.id
        for planned in laid.possible
        for idle in planned.hardware.nodes
        if idle.id not in busy and (unseen or planned.arm in free)
    ]


KINDS = st.tuples(st.sampled_from("AB"), st.sampled_from([0, 1, 3]), st.sampled_from("TL"))


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_no_node_idles_while_it_has_work_that_may_start(data: st.DataObject) -> None:
    # The arms of a block that use the same hardware run on one node.
    kinds = data.draw(st.lists(KINDS, min_size=1, max_size=5))
    nodes = [
        build_node(f"n{number}", cpus=4, gpus=gpus, cpu_model=f"CPU {model}", gpu=f"NVIDIA {kind}4")
        for number, (model, gpus, kind) in enumerate(kinds)
    ]
    sizes = (data.draw(st.integers(1, most)) for most in (3, 9, 3))
    laid = build_plan(classify(nodes), *sizes)  # implementations, blocks and repeats
    seed = data.draw(st.integers(0, 1000))
    times = (partial(random.Random(seed).expovariate, 1.0) for _ in range(2))
    scanned = at_work_until_done(build_dispatcher(laid, lanes=ScannedLanes), next(times))
    dispatcher = build_dispatcher(laid)
    where: dict[tuple[int, HardwareUse], str] = {}
    for at_work in at_work_until_done(dispatcher, next(times)):
        assert at_work == next(scanned)
        assert not idle_with_work(laid, dispatcher, at_work)
        for assignment in at_work:
            for trial in assignment.trials:
                place = trial.block, trial.arm.hardware
                assert where.setdefault(place, assignment.lane.node.id) == assignment.lane.node.id
    assert len(dispatcher.ledger.finished) == laid.trials


def test_a_cpu_round_is_never_handed_out_beside_gpu_rounds_of_its_node() -> None:
    laid = build_plan(classify([build_node("big", cpus=8, gpus=2)]), blocks=6)
    dispatcher, rng = build_dispatcher(laid), random.Random(0)
    turns = list[str]()
    while not dispatcher.done:
        while dispatcher.next() is not None:
            pass
        (device,) = {assignment.device for assignment in dispatcher.handed_out}
        turns += [device] if turns[-1:] != [device] else []
        ended = rng.choice(dispatcher.running)
        dispatcher.finish(ended, *(build_outcome() for _ in ended.trials))
    assert len(dispatcher.ledger.finished) == laid.trials
    assert turns[:3] == ["gpu", "cpu", "gpu"]


def test_a_repeat_is_a_round_of_all_arms_with_an_order_and_a_seed_of_its_own() -> None:
    laid = build_plan(classify([build_node("a")]), implementations=4, blocks=5, repeats=3)
    rounds = [assignment.trials for assignment in finish_all_assignments(build_dispatcher(laid))]
    assert len(rounds) == 15
    for members in rounds:
        assert len({(trial.block, trial.repeat, trial.seed) for trial in members}) == 1
        assert len({trial.arm for trial in members}) == 4
    assert len({members[0].seed for members in rounds}) == len(rounds)
    assert len({tuple(trial.arm for trial in members) for members in rounds}) > 3
    assert [
        assignment.trials for assignment in finish_all_assignments(build_dispatcher(laid))
    ] == rounds


def test_the_arm_of_the_baseline_is_the_first_of_a_round() -> None:
    laid = build_plan(classify([build_node("a")]), implementations=4, blocks=5)
    for baseline, first in (
        (None, "tensorflow/kernel0"),
        ("tensorflow/kernel2", "tensorflow/kernel2"),
        ("torch/fused", "tensorflow/kernel0"),  # it cannot run here
    ):
        dispatcher = build_dispatcher(laid)
        dispatcher.baseline = baseline
        rounds = finish_all_assignments(dispatcher)
        assert {round_.trials[0].arm.implementation for round_ in rounds} == {first}


@pytest.mark.parametrize("measured", [lambda laid: laid, timed], ids=["full", "timing"])
def test_where_devices_take_turns_a_round_stays_on_one_of_them(
    measured: Callable[[Plan], Plan],
) -> None:
    laid = measured(build_plan(classify([build_node("big", cpus=8, gpus=4)])))
    seen = Counter[str]()
    for at_work in at_work_until_done(build_dispatcher(laid), lambda: 1.0):
        assert {len(assignment.trials) for assignment in at_work} == {2}
        devices = {trial.arm.device for trial in at_work[0].trials}
        assert devices == {at_work[0].device}
        seen.update(devices)
    assert seen == {"gpu": 3, "cpu": 3}


def test_on_a_node_with_one_gpu_its_arms_take_turns_with_the_arms_of_the_cpu() -> None:
    laid = build_plan(classify([build_node("one", cpus=4, gpus=1)]), implementations=1, blocks=2)
    rounds = finish_all_assignments(build_dispatcher(laid))
    assert [len(round_.trials) for round_ in rounds] == [2, 2]
    assert {trial.arm.device for trial in rounds[0].trials} == {"cpu", "gpu"}
    assert {round_.device for round_ in rounds} == {"gpu"}


def test_arms_that_train_whole_and_arms_that_are_timed_have_rounds_of_their_own() -> None:
    both = (*ONE_NODE.possible, *timed(ONE_NODE).possible)
    rounds = finish_all_assignments(build_dispatcher(replace(ONE_NODE, possible=both)))
    assert [{trial.arm.measure for trial in round_.trials} for round_ in rounds] == [
        {round_.measure} for round_ in rounds
    ]
    assert sorted((round_.measure, len(round_.trials)) for round_ in rounds) == [
        ("full", 2),
        ("timing", 2),
    ]


def test_trials_that_have_ended_are_left_out_of_their_round() -> None:
    laid = build_plan(classify([build_node("a")]), implementations=3, blocks=2)
    block = Block(0, {"units": 0})
    ended = make_trial(IDENTITY, block, laid.arms[1], 0)
    dispatcher = build_dispatcher(laid)
    dispatcher.restore([block, FinishedTrial(ended, build_outcome())])
    first, second = finish_all_assignments(dispatcher)
    assert {trial.arm for trial in first.trials} == {laid.arms[0], laid.arms[2]}
    assert {trial.arm for trial in second.trials} == {*laid.arms}


def test_a_lost_round_is_handed_out_again_whole_and_next() -> None:
    laid = build_plan(classify([build_node("a")]), implementations=3, blocks=3)
    dispatcher = build_dispatcher(laid)
    (first, _), (waiting, _) = handed_out = list(iter(dispatcher.next, None))
    assert (len(handed_out), dispatcher.out, dispatcher.running) == (2, 2, [first])
    dispatcher.give_back(first)
    again = next_of(dispatcher)
    assert (again.trials, again.attempt) == (first.trials, 2)
    for assignment in (waiting, again):
        dispatcher.give_back(assignment, charged=False)
    again, later = next_of(dispatcher), next_of(dispatcher)
    assert (again.trials, again.attempt) == (first.trials, 2)
    assert (later.trials, later.attempt) == (waiting.trials, 1)


def next_of(dispatcher: Dispatcher) -> Assignment:
    handed_out = dispatcher.next()
    assert handed_out is not None
    return handed_out[0]


def test_an_arm_that_is_stopped_leaves_the_rounds_to_come() -> None:
    laid = build_plan(classify([build_node("a")]), implementations=3, blocks=4)
    dispatcher = build_dispatcher(laid, failures=FailureLimit(1))
    running, waiting = next_of(dispatcher), next_of(dispatcher)
    assert not dispatcher.is_obsolete(waiting)
    broken = running.trials[1].arm
    dispatcher.finish(
        running,
        *(
            build_failed_outcome() if trial.arm == broken else build_outcome()
            for trial in running.trials
        ),
    )
    assert dispatcher.is_obsolete(waiting), "it has not begun"
    dispatcher.give_back(waiting, charged=False)
    rest = finish_all_assignments(dispatcher)
    others = {*laid.arms} - {broken}
    assert [{trial.arm for trial in round_.trials} for round_ in rest] == [others] * 3


def test_the_pruner_follows_the_first_arm_of_a_round_that_objectives_read() -> None:
    laid = build_plan(classify([build_node("one", cpus=4, gpus=1)]), blocks=2)
    read = {"val_accuracy": Objective(direction="maximize", over="gpu")}
    source = ConfigLog()
    dispatcher = build_dispatcher(laid, source, read)
    running, waiting = next_of(dispatcher), next_of(dispatcher)
    followed, other = (trial for trial in running.trials if trial.arm.device == "gpu")
    unread = running.trials[0]
    assert unread.arm.device == "cpu", "the baseline"
    for trial in (unread, other):
        assert not dispatcher.take_epoch(running, trial, 0, {"val_accuracy": 0.1})
    assert not dispatcher.take_epoch(running, followed, 0, {"val_accuracy": 0.4})
    assert dispatcher.take_epoch(running, followed, 1, {"val_accuracy": 0.2})
    assert dispatcher.take_epoch(running, other, 1, {"val_accuracy": 0.9}), "the round ends"
    assert [value for _, value in source.log if isinstance(value, tuple)] == [(0, 0.4), (1, 0.2)]
    assert not dispatcher.take_epoch(waiting, waiting.trials[-1], 0, {"val_accuracy": 0.9})


def retimed(
    laid: Plan, others: Sequence[tuple[str, OutcomeStatus, str]], *, retry_failed: bool = False
) -> list[int]:
    """Return which arms are timed again, after outcomes with a round, a status and a node."""
    block = Block(0, {})
    trials = [make_trial(IDENTITY, block, arm, 0) for arm in laid.arms]
    finished = {
        trial.key: FinishedTrial(trial, Outcome(status, 0.0, 1.0, node=node, round_id=round_id))
        for trial, (round_id, status, node) in zip(trials, others, strict=False)
    }
    state = journal.JournalState(IDENTITY, {}, blocks={0: block}, finished=finished)
    keys = resume.trials_to_retime(state, laid, retry_failed=retry_failed)
    return [index for index, trial in enumerate(trials) if trial.key in keys]


@dataclass(frozen=True)
class Round:
    """A round of two arms: the first one's trial is complete, in round 1 on node a."""

    name: str
    other: tuple[str, OutcomeStatus, str] | None
    """The round, the status and the node of the second arm's trial; None if it has not ended."""
    timed_again: list[int]
    retry_failed: bool = False


@pytest.mark.parametrize(
    "case",
    [
        Round("the other one is of another round", ("2", "complete", "a"), [0, 1]),
        Round("complete", ("1", "complete", "a"), []),
        Round("the other one failed", ("1", "failed", "a"), []),
        Round("a failure of the kernel is no failure", ("1", "wrong_kernel", "a"), [], True),
    ],
    ids=lambda case: case.name,
)
def test_trials_of_incomplete_rounds_are_timed_again(case: Round) -> None:
    outcomes = [("1", "complete", "a"), *([case.other] if case.other else [])]
    again = retimed(timed(ONE_NODE), outcomes, retry_failed=case.retry_failed)
    assert again == case.timed_again
    assert retimed(ONE_NODE, outcomes, retry_failed=case.retry_failed) == [], "trained whole"


def test_arms_on_other_hardware_are_no_part_of_a_round() -> None:
    both = timed(build_plan(classify([build_node("a"), build_node("b", cpu_model="CPU B")])))
    assert retimed(both, [("1", "complete", "a")] * 2) == []


def end_with_block(
    dispatcher: Dispatcher,
    assignment: Assignment,
    outcomes: Sequence[Outcome],
    out: list[Assignment],
    rng: random.Random,
) -> list[Outcome]:
    """Report an epoch of each trial; if the pruner ends the block, give back what waits."""
    values = [{"val_accuracy": o.metrics.get("val_accuracy", 1.0)} for o in outcomes]
    outcomes = [
        replace(outcome, epochs=(EpochRecord(0, 1.0, None, metrics),))
        for outcome, metrics in zip(outcomes, values, strict=True)
    ]
    order = rng.sample(range(len(values)), len(values))
    is_ending = [
        dispatcher.take_epoch(assignment, assignment.trials[index], 0, values[index])
        for index in order
    ]
    if not is_ending[-1]:
        return outcomes
    for other in [other for other in out if other.block == assignment.block]:
        if rng.random() < 0.6:  # it has not begun
            out.remove(other)
            dispatcher.give_back(other, charged=False)
    return [
        outcome
        if outcome.failure is not None or rng.random() < 0.2  # not every workload looks
        else replace(outcome, status="pruned", metrics={"step_ms": 1.0})
        for outcome in outcomes
    ]


Lanes: TypeAlias = Sequence[Sequence[LaneGroup]]


def without(laid: Plan, absent: str) -> tuple[LaneGroup, ...]:
    """Return the lanes of a plan while some nodes are absent."""
    possible = []
    for planned in laid.possible:
        nodes = tuple(node for node in planned.hardware.nodes if node.id not in absent)
        possible.append(replace(planned, hardware=replace(planned.hardware, nodes=nodes)))
    return make_lanes(replace(laid, possible=tuple(possible)))


def run_some(
    dispatcher: Dispatcher,
    rng: random.Random,
    count: int,
    failing: float,
    pruning: bool,
    lanes: Lanes,
) -> journal.JournalState:
    """Run some trials; with several `lanes`, the full ones first, nodes and trials are lost."""
    history: list[Block | FinishedTrial] = []
    out: list[Assignment] = []
    for _ in range(count):
        while (handed_out := dispatcher.next()) is not None:
            out.append(handed_out[0])
            history += handed_out[1]
        if dispatcher.done:
            break
        if lanes and (not out or rng.random() < 0.1):
            limit = dispatcher.suggestions.open_limit
            dispatcher.set_lanes(rng.choice(lanes) if out else lanes[0], limit)
            continue
        assignment = out.pop(rng.randrange(len(out)))
        if lanes and rng.random() < 0.1:
            dispatcher.give_back(assignment, charged=rng.random() < 0.5)
            continue
        outcomes = [
            build_failed_outcome()
            if rng.random() < failing
            else replace(
                build_outcome(),
                metrics={
                    "val_accuracy": rng.random(),
                    "step_ms": 10 * rng.lognormvariate(0, 0.1),
                },
            )
            for _ in assignment.trials
        ]
        outcomes = [
            replace(outcome, attempt=assignment.attempt, node=assignment.lane.node.id)
            for outcome in outcomes
        ]
        if pruning:
            outcomes = end_with_block(dispatcher, assignment, outcomes, out, rng)
        history += map(FinishedTrial, assignment.trials, outcomes)
        dispatcher.finish(assignment, *outcomes)
        assert not {assignment.block for assignment in out} & (
            dispatcher.ledger.pruned - dispatcher.ending
        )
    records = [
        journal.TrialFinished(event)
        if isinstance(event, FinishedTrial)
        else journal.BlockSuggested(event.index, event.config, 0.0)
        for event in history
    ]
    state = journal.replay([journal.SweepOpened(IDENTITY, {}), *records])
    assert state is not None
    return state


class Learned:
    """What a sweep learns from its outcomes: its sampler, and its rules."""

    def __init__(self, laid: Plan) -> None:
        self.configs, self.failures, self._plan = ConfigLog(), FailureLimit(3), laid
        self._rule = PrecisionReached(AutoBlocks(0.15, 6, 9), laid.arms, 1)

    def dispatcher(
        self,
        objectives: dict[str, Objective],
        open_limit: int | None,
        lanes: Callable[[Ledger], LaneIndex] = LaneIndex,
    ) -> Dispatcher:
        learning = self.configs, objectives, open_limit, self.failures, [self._rule]
        return build_dispatcher(self._plan, *learning, lanes=lanes)


@settings(deadline=None, max_examples=draws(60, 200))
@given(
    seed=st.integers(0, 10_000),
    cut=st.integers(0, 80),
    gpus=st.sampled_from([0, 1, 2]),
    failing=st.sampled_from([0.0, 0.02, 0.2, 0.9]),
    open_limit=st.one_of(st.none(), st.integers(1, 4)),
    events=st.sets(st.sampled_from(["prune", "lose"])),
)
def test_a_sweep_cut_anywhere_resumes_as_it_was(
    seed: int, cut: int, gpus: int, failing: float, open_limit: int | None, events: set[str]
) -> None:
    """Sampler, pruner and both rules learn the same, and what is missing runs once."""
    # A scan of all lanes and blocks hands out the same.
    # Arms that fail too often in a row are stopped: nothing waits for them, and nothing runs there.
    nodes = [
        build_node("a", cpus=4, gpus=gpus),
        build_node("b", cpu_model="CPU B"),
        build_node("c", cpus=4),
    ]
    laid = build_plan(classify(nodes), blocks=9)
    over = "tensorflow/kernel0 on CPU A, 4 CPUs"
    objectives = {"val_accuracy": Objective(direction="maximize", over=over)}
    first, scan, later = (Learned(laid) for _ in range(3))
    lanes = [without(laid, absent) for absent in ("", "a", "bc")] if "lose" in events else []
    how = cut, failing, "prune" in events, lanes
    before = first.dispatcher(objectives, open_limit)
    state = run_some(before, random.Random(seed), *how)
    scanning = scan.dispatcher(objectives, open_limit, lanes=ScannedLanes)
    assert run_some(scanning, random.Random(seed), *how) == state
    after = later.dispatcher(objectives, open_limit)
    after.restore(resume.events(state, retry_failed=False))
    assert later.configs.log == first.configs.log
    assert after.ledger.stop_decision == before.ledger.stop_decision
    assert later.failures.stopped == first.failures.stopped
    rest = [key for assignment in finish_all_assignments(after) for key in assignment.keys]
    assert not set(rest) & set(state.finished)
    begun = {index for index, value in later.configs.log if value == "suggested"}
    running = laid.without(later.failures.stopped).arms
    done = sum(finished.arm in running for finished in state.finished.values())
    done += count_spared([*state.finished.values()], running, 1)
    assert len(rest) == len(set(rest)) == len(begun) * len(running) - done
    assert set(later.configs.reported) == begun
