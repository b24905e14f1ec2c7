"""Interleaved rounds: handed out together, timed again when incomplete; restored starts."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis.stopping import StoppingRule
from orchestrator.core.arms import Arm, HardwareUse, Usage
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.trial import (
    Block,
    Config,
    FinishedTrial,
    Outcome,
    OutcomeStatus,
    Trial,
    make_trial,
)
from orchestrator.hardware import HardwareClass, classify
from orchestrator.planning.plan import Plan, PlannedArm
from orchestrator.scheduling.blocks import Blocks
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.spec import Objective
from orchestrator.storage import resume
from orchestrator.storage.journal import (
    BlockSuggested,
    SweepOpened,
    SweepState,
    TrialFinished,
    replay,
)
from tests.orchestrator.sample_plans import (
    ConfigLog,
    blocks_of,
    complete,
    drain,
    failed,
    identity,
    node,
    plan,
)
from tests.profiles import draws

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


def all_of(blocks: Blocks) -> list[Assignment]:
    return [handed_out[0] for handed_out in iter(blocks.next, None)]


def one(blocks: Blocks) -> Assignment:
    handed_out = blocks.next()
    assert handed_out is not None
    return handed_out[0]


def finish(blocks: Blocks, assignment: Assignment, outcome: Outcome) -> None:
    blocks.finish(assignment, *(outcome for _ in assignment.trials))


def test_where_devices_take_turns_a_round_stays_on_one_of_them() -> None:
    laid = timed(classify([node("big", cpus=8, gpus=4)]), blocks=3)
    blocks, seen = blocks_of(laid), []
    while not blocks.done:
        assignments = all_of(blocks)
        for assignment in assignments:
            assert len({trial.arm.device for trial in assignment.trials}) == 1
            assert len(assignment.trials) == 2
            seen.append(assignment.device)
            finish(blocks, assignment, complete())
    assert Counter(seen) == {"gpu": 3, "cpu": 3}


def test_a_round_that_is_lost_or_given_back_goes_out_again_as_it_was() -> None:
    blocks = blocks_of(timed(classify([node("a")])))
    first = one(blocks)
    blocks.give_back(first)
    second = one(blocks)
    assert (second.trials, second.attempt) == (first.trials, 2)
    blocks.give_back(second, charged=False)
    assert one(blocks) == second


ROUND = one(blocks_of(timed(classify([node("a")]), blocks=1))).trials


def ended(
    trial: Trial, round_id: str, status: OutcomeStatus = "complete", node: str = "a"
) -> FinishedTrial:
    return FinishedTrial(trial, Outcome(status, 0.0, 1.0, node=node, round_id=round_id))


def retimed(laid: Plan, *trials: FinishedTrial, retry_failed: bool = False) -> set[str]:
    block = Block(0, trials[0].config)
    state = SweepState(identity(), {}, blocks={0: block}, finished={t.key: t for t in trials})
    return resume.trials_to_retime(state, laid, retry_failed=retry_failed)


@pytest.mark.parametrize(
    ("other", "retry_failed", "expected"),
    [
        (None, False, (0,)),
        (("2", "complete", "a"), False, (0, 1)),
        (("1", "complete", "a"), False, ()),
        (("1", "failed", "a"), False, ()),
        (("1", "failed", "a"), True, (0,)),
        (("1", "wrong_kernel", "a"), True, ()),
        (("2", "complete", "b"), False, ()),
    ],
)
def test_trials_of_incomplete_rounds_are_timed_again(
    other: tuple[str, OutcomeStatus, str] | None, retry_failed: bool, expected: tuple[int, ...]
) -> None:
    trials = [ended(ROUND[0], "1"), *([ended(ROUND[1], *other)] if other else [])]
    laid = timed(classify([node("a")]), blocks=1)
    keys = {ROUND[index].key for index in expected}
    assert retimed(laid, *trials, retry_failed=retry_failed) == keys


def test_whole_trainings_and_other_hardware_are_never_timed_again() -> None:
    both = timed(classify([node("a"), node("b", cpu_model="CPU B")]), full=2, blocks=1)
    trials = [make_trial(identity(), Block(0, {}), arm, 0) for arm in both.arms]
    assert not retimed(both, *(ended(t, "1") for t in trials if t.arm.measure == "full"))
    first = [t for t in trials if t.arm.measure == "timing"][:2]
    assert not retimed(both, *(ended(t, "1") for t in first))


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
    objectives = {"val_accuracy": Objective(direction="maximize", over=over)}
    return blocks_of(laid, source, objectives), source


def run_some(blocks: Blocks, rng: random.Random, count: int, failing: float) -> SweepState:
    """Finish a number of assignments in any order; return the state of the journal then."""
    history: list[Block | FinishedTrial] = []
    out: list[Assignment] = []
    for _ in range(count):
        while (handed_out := blocks.next()) is not None:
            out.append(handed_out[0])
            history += [handed_out[1]] if handed_out[1] else []
        if blocks.done:
            break
        assignment = out.pop(rng.randrange(len(out)))
        metrics = {"val_accuracy": rng.random(), "step_ms": 10 * rng.lognormvariate(0, 0.1)}
        outcome = failed() if rng.random() < failing else replace(complete(), metrics=metrics)
        history += [FinishedTrial(trial, outcome) for trial in assignment.trials]
        finish(blocks, assignment, outcome)
    records = [
        TrialFinished(event)
        if isinstance(event, FinishedTrial)
        else BlockSuggested(event.index, event.config, 0.0)
        for event in history
    ]
    state = replay([SweepOpened(identity(), {}), *records])
    assert state is not None
    return state


@settings(deadline=None, max_examples=draws(25, 100))
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 60), gpus=st.sampled_from([0, 1, 2]))
def test_a_restored_sampler_hears_the_same_as_before(seed: int, cut: int, gpus: int) -> None:
    nodes = [node("a", cpus=4, gpus=gpus), node("b", cpu_model="CPU B"), node("c", cpus=4)]
    laid = plan(classify(nodes), implementations=2, blocks=4, repeats=2)
    blocks, source = listening(laid, "tensorflow/kernel0 on CPU A, 4 CPUs")
    state = run_some(blocks, random.Random(seed), cut, failing=0.2)
    later, restored = listening(laid, "tensorflow/kernel0 on CPU A, 4 CPUs")
    later.restore(resume.events(state, retry_failed=False))
    assert restored.heard == source.heard


@settings(deadline=None, max_examples=draws(25, 100))
@given(
    seed=st.integers(0, 10_000),
    cut=st.integers(1, 150),
    gpus=st.sampled_from([0, 1, 2]),
    failing=st.sampled_from([0.0, 0.02]),
)
def test_a_restored_stopping_rule_decides_as_before(
    seed: int, cut: int, gpus: int, failing: float
) -> None:
    nodes = [node("a", cpus=4, gpus=gpus), node("b", cpu_model="CPU B"), node("c", cpus=4)]
    laid = plan(classify(nodes), blocks=9)
    first, later = (StoppingRule(AutoBlocks(0.15, 6, 9), laid.arms, 1) for _ in range(2))
    held = blocks_of(laid, objectives={}, rule=first)
    state = run_some(held, random.Random(seed), cut, failing)
    history = list(resume.events(state, retry_failed=False))
    blocks_of(laid, objectives={}, rule=later).restore(history)
    assert later.stop_decision == held.stop_decision


def test_a_repeat_is_a_complete_round_of_its_block_in_an_order_of_its_own() -> None:
    laid = plan(classify([node("a")]), implementations=4, blocks=5, repeats=3)
    finished = drain(blocks_of(laid))
    rounds = [finished[start : start + 4] for start in range(0, len(finished), 4)]
    orders = []
    for members in rounds:
        assert (
            len({(assignment.trial.block, assignment.trial.repeat) for assignment in members}) == 1
        )
        assert len({assignment.trial.arm for assignment in members}) == 4
        orders.append(tuple(assignment.trial.arm.implementation for assignment in members))
    assert len(set(orders)) > 5, "the order of the arms is drawn for each round"
    second = drain(blocks_of(laid))
    assert [assignment.trial.key for assignment in second] == [
        assignment.trial.key for assignment in finished
    ]


def test_arms_of_a_round_share_their_seed_and_repeats_do_not() -> None:
    finished = drain(blocks_of(plan(classify([node("a")]), blocks=2, repeats=2)))
    seeds = defaultdict(set)
    for assignment in finished:
        seeds[assignment.trial.block, assignment.trial.repeat].add(assignment.trial.seed)
    assert all(len(handed_out) == 1 for handed_out in seeds.values())
    assert len(set.union(*seeds.values())) == 4


def test_a_block_in_which_an_arm_failed_is_reported_as_failed() -> None:
    source = ConfigLog()
    blocks = blocks_of(plan(classify([node("a")]), implementations=3, blocks=1), source)
    first = True
    while (handed_out := blocks.next()) is not None:
        blocks.finish(handed_out[0], failed() if first else complete())
        first = False
    assert source.reported == {0: None}


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    cut=st.integers(0, 36),
    open_limit=st.one_of(st.none(), st.integers(1, 4)),
)
def test_a_sweep_cut_anywhere_and_continued_runs_every_trial_once(
    seed: int, cut: int, open_limit: int | None
) -> None:
    hardware = classify([node("a"), node("b", cpu_model="CPU B"), node("c")])
    laid = plan(hardware, blocks=3, repeats=3, implementations=2)
    before = blocks_of(laid, open_limit=open_limit)
    state = run_some(before, random.Random(seed), cut, failing=0.0)
    source = ConfigLog()
    after = blocks_of(laid, source, open_limit=open_limit)
    after.restore(resume.events(state, retry_failed=False))
    rest = [assignment.trial.key for assignment in drain(after)]
    assert not set(rest) & set(state.finished)
    assert len(rest) == len(set(rest)) == laid.trials - len(state.finished)
    assert set(source.reported) == set(range(3))
