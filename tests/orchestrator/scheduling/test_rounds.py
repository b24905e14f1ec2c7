"""Rounds: arms timed in turns are handed out together; a disturbed round is done again whole."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis.stopping import StoppingRule
from orchestrator.core.arms import Arm, HardwareUse, Usage
from orchestrator.core.criteria import AutoBlocks, DisturbanceLimits
from orchestrator.core.rounds import trials_to_rerun, trials_to_retime
from orchestrator.core.trial import Block, Config, FinishedTrial, Outcome, Trial, make_trial
from orchestrator.hardware import HardwareClass, classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.plan import Plan, PlannedArm
from orchestrator.scheduling.blocks import Blocks, PrecisionPolicy
from orchestrator.scheduling.lane_queue import Assignment, FollowUp
from orchestrator.spec import Objective
from orchestrator.storage import resume
from orchestrator.storage.journal import (
    BlockSuggested,
    SweepOpened,
    SweepState,
    TrialFinished,
    replay,
)
from tests.orchestrator.sample_hardware import in_slices, on_cpu, on_gpu
from tests.orchestrator.sample_plans import ConfigLog, complete, failed, identity, node, plan

AGAIN = DisturbanceLimits("rerun", reruns=2)
MARKED = PrecisionPolicy()
RERUN_POLICY = PrecisionPolicy(disturbance_limits=AGAIN)
TIMED = Usage(measure="timing")


def timed(
    hardware: Sequence[HardwareClass], full: int = 0, blocks: int = 3, repeats: int = 1
) -> Plan:
    """Two arms on each class that are timed in slices, and some that are trained whole."""
    arms = [
        PlannedArm(
            Arm(f"tensorflow/kernel{number}", HardwareUse(hardware_class.ref, usage)),
            hardware_class,
        )
        for hardware_class in hardware
        for usage, count in ((TIMED, 2), (Usage(), full))
        for number in range(count)
    ]
    return Plan(tuple(arms), (), blocks, repeats)


def blocks_with(
    laid: Plan, precision: PrecisionPolicy = MARKED, source: ConfigLog | None = None
) -> Blocks:
    return Blocks(
        identity(),
        laid,
        make_lanes(laid),
        objectives={},
        source=source or ConfigLog(),
        open_limit=None,
        precision=precision,
    )


def all_of(blocks: Blocks) -> list[Assignment]:
    return [handed_out[0] for handed_out in iter(blocks.next, None)]


def one(blocks: Blocks) -> Assignment:
    handed_out = blocks.next()
    assert handed_out is not None
    return handed_out[0]


def on(assignment: Assignment, *, disturbed: bool = False, at_s: float = 0.0) -> Outcome:
    """Return a complete outcome on the node of the assignment."""
    return Outcome(
        "complete", at_s, at_s + 1, node=assignment.lane.node.profile.hostname,
        rerun=assignment.rerun,
        disturbance={"other_processes": 43.0} if disturbed else {}, attempt=assignment.attempt,
    )  # fmt: skip


def finish(blocks: Blocks, assignment: Assignment, outcome: Outcome) -> tuple[Trial, ...]:
    return blocks.finish(assignment, *(outcome for _ in assignment.trials)).reruns


# Slices, turn by turn.


def test_arms_that_are_timed_in_turns_go_out_together_and_the_baseline_first() -> None:
    laid = timed(classify([node("a")]), full=1, blocks=8)
    blocks = blocks_with(laid, PrecisionPolicy(baseline="tensorflow/kernel1"))
    firsts, sizes = [], []
    while not blocks.done:
        assignment = one(blocks)
        sizes.append((assignment.trial.arm.measure, len(assignment.trials)))
        if assignment.others:
            firsts.append(assignment.trial.arm.implementation)
            assert len({(t.block, t.repeat, t.seed) for t in assignment.trials}) == 1
        finish(blocks, assignment, complete())
    assert Counter(sizes) == {("timing", 2): 8, ("full", 1): 8}
    assert set(firsts) == {"tensorflow/kernel1"}


def test_without_a_baseline_the_first_arm_is_the_one_that_others_are_timed_against() -> None:
    laid = timed(classify([node("a")]), blocks=6)
    assignments = [one(blocks) for blocks in [blocks_with(laid)] for _ in range(2)]
    assert {assignment.trial.arm for assignment in assignments} == {laid.arms[0]}


def test_a_lone_arm_is_timed_by_itself() -> None:
    laid = timed(classify([node("a")]))
    alone = replace(laid, possible=laid.possible[:1])
    assert [assignment.others for assignment in all_of(blocks_with(alone))] == [(), ()]


def test_the_cpu_and_the_gpu_of_a_machine_with_one_take_turns_in_one_round() -> None:
    laid = timed(classify([node("both", cpus=8, gpus=1)]), blocks=2, repeats=2)
    assignment = one(blocks_with(laid))
    assert {trial.arm.device for trial in assignment.trials} == {"cpu", "gpu"}
    assert len(assignment.trials) == 4


def test_where_devices_take_turns_a_round_stays_on_one_of_them() -> None:
    laid = timed(classify([node("big", cpus=8, gpus=4)]), blocks=3)
    blocks, seen = blocks_with(laid), []
    while not blocks.done:
        assignments = all_of(blocks)
        for assignment in assignments:
            assert len({trial.arm.device for trial in assignment.trials}) == 1
            assert len(assignment.trials) == 2
            seen.append(assignment.device)
            finish(blocks, assignment, complete())
    assert Counter(seen) == {"gpu": 3, "cpu": 3}


def test_each_node_times_its_own_arms_in_a_round_of_its_own() -> None:
    laid = timed(classify([node("a"), node("b", cpu_model="CPU B")]), blocks=2)
    for assignment in all_of(blocks_with(laid)):
        assert {trial.arm.hardware for trial in assignment.trials} == {
            assignment.trial.arm.hardware
        }


def test_a_round_that_is_lost_or_given_back_goes_out_again_as_it_was() -> None:
    blocks = blocks_with(timed(classify([node("a")])))
    first = one(blocks)
    blocks.give_back(first)
    second = one(blocks)
    assert (second.trials, second.attempt) == (first.trials, 2)
    blocks.give_back(second, charged=False)
    assert one(blocks) == second


ROUND = one(blocks_with(timed(classify([node("a")]), blocks=1))).trials


def ended(trial: Trial, race: str, status: str = "complete", rerun: int = 0) -> FinishedTrial:
    made = complete() if status == "complete" else failed()
    return FinishedTrial(trial, replace(made, round_id=race, rerun=rerun))


def incomplete_of(*finished: FinishedTrial, retry_failed: bool = False) -> dict[str, int]:
    return trials_to_retime(
        ROUND, {one.trial.key: one for one in finished}, retry_failed=retry_failed
    )


def test_what_was_timed_without_the_rest_of_its_round_is_timed_again() -> None:
    first, second = ROUND
    assert incomplete_of(ended(first, "1")) == {first.key: 0}
    assert incomplete_of(ended(first, "1", rerun=1)) == {first.key: 1}
    assert incomplete_of(ended(first, "1"), ended(second, "2")) == {first.key: 0, second.key: 0}
    assert incomplete_of(ended(first, "1"), ended(second, "1")) == {}
    assert incomplete_of() == {}


def test_a_trial_that_failed_in_its_round_tears_none_before_it_is_retried() -> None:
    first, second = ROUND
    both = (ended(first, "1"), ended(second, "1", "failed"))
    assert incomplete_of(*both) == {}
    assert incomplete_of(*both, retry_failed=True) == {first.key: 0}


def test_a_trial_that_is_not_retried_tears_no_round_and_neither_do_unlike_nodes() -> None:
    first, second = ROUND
    other = ended(second, "1")
    other = replace(other, outcome=replace(other.outcome, status="wrong_kernel"))
    assert incomplete_of(ended(first, "1"), other, retry_failed=True) == {}
    on_other_node = ended(second, "2")
    on_other_node = replace(on_other_node, outcome=replace(on_other_node.outcome, node="b"))
    assert incomplete_of(ended(first, "1"), on_other_node) == {}, (
        "or it would be timed at every start"
    )


def test_whole_trainings_and_other_hardware_have_no_turns_to_miss() -> None:
    first, second = ROUND
    trained = HardwareUse(first.arm.hardware_class)
    whole = [replace(t, arm=replace(t.arm, hardware=trained)) for t in ROUND]
    assert trials_to_retime(whole, {whole[0].key: ended(whole[0], "")}, retry_failed=False) == {}
    gpu = replace(second, arm=replace(second.arm, hardware=in_slices(on_gpu())))
    both = {first.key: ended(first, "1"), gpu.key: ended(gpu, "2")}
    assert trials_to_retime([first, gpu], both, retry_failed=False) == {}


# Rounds that were disturbed.


def test_a_disturbed_round_is_done_again_whole_and_next_on_its_lane() -> None:
    laid = plan(classify([node("a"), node("b")]), implementations=3, blocks=4)
    blocks = blocks_with(laid, RERUN_POLICY)
    out, ran = list[Assignment](), list[Assignment]()
    while not blocks.done:
        out += all_of(blocks)
        assignment = out.pop(0)
        is_second = assignment.trial.block == 0 and len([i for i in ran if i.trial.block == 0]) == 1
        finish(blocks, assignment, on(assignment, disturbed=is_second))
        ran.append(assignment)
    first = [assignment for assignment in ran if assignment.trial.block == 0]
    assert len({assignment.lane.node.id for assignment in first}) == 1
    assert [(assignment.rerun, assignment.attempt) for assignment in first] == [(0, 1)] * 3 + [
        (1, 2)
    ] * 3
    assert [i.trial.key for i in first[:3]] == [i.trial.key for i in first[3:]]
    mine = [assignment for assignment in ran if assignment.lane.node == first[0].lane.node]
    between = mine[3 : mine.index(first[3])]
    assert len(between) <= 1, "but for the trial that the lane held already"
    assert all(assignment.rerun == 0 for assignment in ran if assignment.trial.block != 0)


def test_a_timing_round_is_done_again_as_one() -> None:
    source = ConfigLog()
    blocks = blocks_with(timed(classify([node("a")]), blocks=1), RERUN_POLICY, source)
    first = one(blocks)
    reruns = blocks.finish(first, on(first, disturbed=True), on(first)).reruns
    assert sorted(rerun.key for rerun in reruns) == sorted(trial.key for trial in first.trials)
    assert source.reported == {}, "a round that is re-run is not reported"
    second = one(blocks)
    assert (second.trials, second.rerun, second.attempt) == (first.trials, 1, 2)
    assert blocks.finish(second, on(second), on(second)) == FollowUp()
    assert blocks.done
    assert source.reported == {0: []}


def test_reruns_are_bounded() -> None:
    blocks = blocks_with(timed(classify([node("a")]), blocks=1), RERUN_POLICY)
    reruns = []
    while not blocks.done:
        assignment = one(blocks)
        reruns.append(assignment.rerun)
        finish(blocks, assignment, on(assignment, disturbed=True))
    assert reruns == [0, 1, 2]


def test_a_disturbed_trial_is_done_again_though_the_last_of_its_round_was_lost() -> None:
    blocks = blocks_with(plan(classify([node("a")]), blocks=1), RERUN_POLICY)
    noisy, last = one(blocks), one(blocks)
    assert finish(blocks, noisy, on(noisy, disturbed=True)) == ()
    assert finish(blocks, last, failed()) == (noisy.trial,)
    second = one(blocks)
    assert (second.trial, second.rerun) == (noisy.trial, 1)
    finish(blocks, second, on(second))
    assert blocks.done


def test_an_arm_that_joins_a_round_that_was_done_again_runs_once() -> None:
    laid = plan(classify([node("a")]), implementations=3, blocks=1)
    blocks, block = (
        blocks_with(laid, RERUN_POLICY),
        Block(0, {"units": 0}),
    )
    trials = [make_trial(identity(), block, arm, 0) for arm in laid.arms]
    before = Outcome("complete", 0.0, 1.0, node="a", rerun=1)
    blocks.restore([block, *(FinishedTrial(trial, before) for trial in trials[:2])])
    joins = one(blocks)
    assert (joins.trial, joins.rerun, joins.attempt) == (trials[2], 1, 2)
    assert finish(blocks, joins, on(joins)) == ()
    assert blocks.done


def test_what_is_only_marked_is_not_done_again() -> None:
    blocks = blocks_with(
        timed(classify([node("a")]), blocks=2),
        PrecisionPolicy(disturbance_limits=DisturbanceLimits("mark")),
    )
    for _ in range(2):
        assignment = one(blocks)
        assert finish(blocks, assignment, on(assignment, disturbed=True)) == ()
    assert blocks.done


def finished(
    arm: str, rerun: int = 0, *, disturbed: bool = False, node: str = "a"
) -> FinishedTrial:
    outcome = Outcome(
        "complete", 0.0, 1.0, node=node, rerun=rerun,
        disturbance={"host_steal": 9.0} if disturbed else {},
    )  # fmt: skip
    return FinishedTrial(Trial(arm, 0, {}, Arm(arm, on_cpu()), 0, 0), outcome)


@pytest.mark.parametrize(
    ("outcomes", "due"),
    [
        ([finished("a"), finished("b")], {}),
        ([finished("a", disturbed=True), finished("b")], {"a": 1, "b": 1}),
        ([finished("a", disturbed=True), finished("b", node="other")], {"a": 1}),
        ([finished("a", 1), finished("b", disturbed=True)], {"b": 1}),
        ([finished("a", 1, disturbed=True), finished("b", disturbed=True)], {"b": 1}),
        ([finished("a", 1), finished("b", 1, disturbed=True)], {"a": 2, "b": 2}),
        ([finished("a", 2, disturbed=True), finished("b", 2)], {}),
    ],
)
def test_what_is_due_follows_from_the_outcomes(
    outcomes: list[FinishedTrial], due: dict[str, int]
) -> None:
    assert trials_to_rerun(outcomes, AGAIN) == due
    assert trials_to_rerun(outcomes, DisturbanceLimits("mark")) == {}


Draw = Callable[[Assignment], bool]


@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 10_000),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    full=st.integers(0, 2),
    repeats=st.integers(1, 2),
    gpus=st.sampled_from([0, 1, 2]),
)
def test_a_sweep_cut_anywhere_ends_with_whole_rounds(
    seed: int, cuts: list[int], full: int, repeats: int, gpus: int
) -> None:
    """Any cluster and any disturbance: all trials end, and each round of a node in one rerun."""
    rng = random.Random(seed)
    nodes = [node("a", cpus=4, gpus=gpus), node("b", cpu_model="CPU B"), node("c")]
    laid = timed(classify(nodes), full=full, blocks=3, repeats=repeats)
    blocks_seen: dict[int, Block] = {}
    journal: dict[str, FinishedTrial] = {}
    for cut in [*cuts, 10_000]:
        reruns = trials_to_rerun(journal.values(), AGAIN)
        done = [finished for finished in journal.values() if finished.trial.key not in reruns]
        blocks = blocks_with(laid, RERUN_POLICY)
        blocks.restore([*blocks_seen.values(), *done], reruns)
        out: list[Assignment] = []
        for _ in range(cut):
            while (handed_out := blocks.next()) is not None:
                out.append(handed_out[0])
                if handed_out[1]:
                    blocks_seen[handed_out[1].index] = handed_out[1]
            if blocks.done:
                break
            assignment = out.pop(rng.randrange(len(out)))
            outcomes = [on(assignment, disturbed=rng.random() < 0.3) for _ in assignment.trials]
            for trial, outcome in zip(assignment.trials, outcomes, strict=True):
                journal.pop(trial.key, None)
                journal[trial.key] = FinishedTrial(trial, outcome)
            blocks.finish(assignment, *outcomes)
    assert len(journal) == laid.trials
    assert trials_to_rerun(journal.values(), AGAIN) == {}
    rounds: dict[object, set[int]] = defaultdict(set)
    for finished in journal.values():
        place = (finished.trial.block, finished.trial.repeat, finished.outcome.node)
        rounds[place].add(finished.outcome.rerun)
    assert all(len(reruns) == 1 for reruns in rounds.values())
    assert max(max(reruns) for reruns in rounds.values()) <= AGAIN.reruns


class Listening(ConfigLog):
    """A log of suggestions and results in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[object, ...]] = []

    def suggest(self, index: int) -> Config | None:
        self.heard.append(("ask", index))
        return super().suggest(index)

    def replay(self, index: int, config: Config) -> None:
        self.heard.append(("ask", index))

    def report(self, index: int, values: Sequence[float] | None) -> None:
        super().report(index, values)
        self.heard.append(("tell", index, values))


def listening(laid: Plan, over: str) -> tuple[Blocks, Listening]:
    source = Listening()
    blocks = Blocks(
        identity(),
        laid,
        make_lanes(laid),
        objectives={"val_accuracy": Objective(direction="maximize", over=over)},
        source=source,
        open_limit=None,
        precision=RERUN_POLICY,
    )
    return blocks, source


def test_the_sampler_is_reported_of_a_round_that_is_not_done_again() -> None:
    laid = plan(classify([node("a")]), implementations=3, blocks=1)
    first = one(blocks_with(laid)).trial.arm.implementation
    blocks, source = listening(laid, first)
    for ended in range(6):
        assert source.reported == {}
        assignment = one(blocks)
        noisy = on(assignment, disturbed=ended == 2)
        finish(blocks, assignment, replace(noisy, metrics={"val_accuracy": ended / 10}))
    assert source.reported == {0: [0.3]}


def test_other_nodes_are_not_waited_for_before_the_sampler_is_reported() -> None:
    laid = plan(classify([node("a"), node("b", cpu_model="CPU B")]), blocks=1)
    blocks, source = listening(laid, "* on CPU A, 2 CPUs")
    for assignment in all_of(blocks) + all_of(blocks):
        if assignment.lane.node.id == "a":
            finish(blocks, assignment, replace(on(assignment), metrics={"val_accuracy": 0.5}))
            for following in all_of(blocks):
                finish(blocks, following, replace(on(following), metrics={"val_accuracy": 0.5}))
    assert source.reported == {0: [0.5]}
    assert not blocks.done


def work(blocks: Blocks, rng: random.Random, cut: int, noise: float, failing: float) -> SweepState:
    """So many issues of a sweep, which end in any order: what a journal has of them."""
    history: list[Block | FinishedTrial] = []
    out: list[Assignment] = []
    for _ in range(cut):
        while (handed_out := blocks.next()) is not None:
            out.append(handed_out[0])
            history += [handed_out[1]] if handed_out[1] else []
        if blocks.done:
            break
        assignment = out.pop(rng.randrange(len(out)))
        metrics = {"val_accuracy": rng.random(), "step_ms": 10 * rng.lognormvariate(0, 0.1)}
        outcome = replace(on(assignment, disturbed=rng.random() < noise), metrics=metrics)
        if rng.random() < failing:
            outcome = replace(failed(), rerun=outcome.rerun)
        history.append(FinishedTrial(assignment.trial, outcome))
        history += blocks.finish(assignment, outcome).reinstated
    records = [
        TrialFinished(event)
        if isinstance(event, FinishedTrial)
        else BlockSuggested(event.index, event.config, 0.0)
        for event in history
    ]
    state = replay([SweepOpened(identity(), {}), *records])
    assert state is not None
    return state


@settings(deadline=None, max_examples=80)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 60), gpus=st.sampled_from([0, 1, 2]))
def test_a_later_start_asks_and_shows_as_the_one_before_it(seed: int, cut: int, gpus: int) -> None:
    """Any disturbance and any failure, in a sweep whose objective reads one arm of a round."""
    nodes = [node("a", cpus=4, gpus=gpus), node("b", cpu_model="CPU B"), node("c", cpus=4)]
    laid = plan(classify(nodes), implementations=2, blocks=4, repeats=2)
    blocks, source = listening(laid, "tensorflow/kernel0 on CPU A, 4 CPUs")
    state = work(blocks, random.Random(seed), cut, noise=0.3, failing=0.2)
    reruns = resume.planned_reruns(state, laid, AGAIN, retry_failed=False)
    later, heard = listening(laid, "tensorflow/kernel0 on CPU A, 4 CPUs")
    later.restore(resume.events(state, retry_failed=False, reruns=reruns), reruns)
    assert heard.heard == source.heard


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    cut=st.integers(1, 150),
    gpus=st.sampled_from([0, 1, 2]),
    failing=st.sampled_from([0.0, 0.02]),
)
def test_a_later_start_has_blocks_enough_where_the_one_before_it_had(
    seed: int, cut: int, gpus: int, failing: float
) -> None:
    """Any disturbance and any failure, on any nodes, in a sweep that ends by itself."""
    nodes = [node("a", cpus=4, gpus=gpus), node("b", cpu_model="CPU B"), node("c", cpus=4)]
    laid = plan(classify(nodes), blocks=9)
    first, later, resumed = (StoppingRule(AutoBlocks(0.15, 6, 9), laid.arms, 1) for _ in range(3))
    held = blocks_with(laid, PrecisionPolicy(first, AGAIN))
    state = work(held, random.Random(seed), cut, 0.1, failing)
    reruns = resume.planned_reruns(state, laid, AGAIN, retry_failed=False)
    history = list(resume.events(state, retry_failed=False, reruns=reruns))
    blocks_with(laid, PrecisionPolicy(later, AGAIN)).restore(
        history, reruns, resume.kept_outcomes(state, reruns)
    )
    for event in history:
        if isinstance(event, FinishedTrial):
            resumed.take(event)
    assert later.stop_decision == resumed.stop_decision == held.stop_decision
