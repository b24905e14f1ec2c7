"""Blocks handed out: their rounds, their results, their restoration. No Ray, no Optuna."""

from __future__ import annotations

import random
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.trial import (
    Block,
    FinishedTrial,
    Outcome,
)
from orchestrator.hardware import classify
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.spec import Objective
from tests.orchestrator.sample_plans import (
    ConfigLog,
    blocks_of,
    complete,
    drain,
    failed,
    node,
    plan,
)


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


def test_an_objective_can_read_one_arm_and_is_then_reported_at_once() -> None:
    source = ConfigLog()
    named = Objective(direction="maximize", over="tensorflow/kernel1")
    blocks = blocks_of(plan(classify([node("a")]), blocks=1), source, {"val_accuracy": named})
    while (handed_out := blocks.next()) is not None:
        trial = handed_out[0].trial
        good = trial.arm.implementation == "tensorflow/kernel1"
        blocks.finish(handed_out[0], complete(0.9) if good else failed())
        assert (0 in source.reported) is good or source.reported == {0: [0.9]}
    assert source.reported == {0: [0.9]}


def test_a_block_in_which_an_arm_failed_is_reported_as_failed() -> None:
    source = ConfigLog()
    blocks = blocks_of(plan(classify([node("a")]), implementations=3, blocks=1), source)
    first = True
    while (handed_out := blocks.next()) is not None:
        blocks.finish(handed_out[0], failed() if first else complete())
        first = False
    assert source.reported == {0: None}


def test_a_lost_attempt_is_the_next_trial_of_its_lane() -> None:
    blocks = blocks_of(plan(classify([node("a")]), blocks=2))
    first = blocks.next()
    assert first is not None
    blocks.give_back(first[0])
    second = blocks.next()
    assert second is not None
    assert (second[0].trial, second[0].attempt) == (first[0].trial, 2)


def test_a_trial_that_never_began_is_not_charged() -> None:
    blocks = blocks_of(plan(classify([node("a")]), blocks=2))
    out = [handed_out[0] for handed_out in (blocks.next(), blocks.next()) if handed_out is not None]
    for assignment in reversed(out):
        blocks.give_back(assignment, charged=False)
    second = [
        handed_out[0] for handed_out in (blocks.next(), blocks.next()) if handed_out is not None
    ]
    assert [(assignment.trial, assignment.attempt) for assignment in second] == [
        (i.trial, 1) for i in out
    ]


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
    history: list[Block | FinishedTrial] = []
    outcomes: dict[str, Outcome] = {}
    out: list[Assignment] = []
    while len(outcomes) < cut and not before.done:
        while (handed_out := before.next()) is not None:
            out.append(handed_out[0])
            history += [handed_out[1]] if handed_out[1] else []
        assignment = out.pop(rng.randrange(len(out)))
        outcomes[assignment.trial.key] = complete()
        history.append(FinishedTrial(assignment.trial, complete()))
        before.finish(assignment, complete())
    source = ConfigLog()
    after = blocks_of(laid, source, open_limit=open_limit)
    after.restore(history)
    rest = [assignment.trial.key for assignment in drain(after)]
    assert not set(rest) & set(outcomes)
    assert len(rest) == len(set(rest)) == laid.trials - len(outcomes)
    assert set(source.reported) == set(range(3))
