"""Blocks whose nodes leave, join or change."""

from __future__ import annotations

from orchestrator.hardware import classify
from orchestrator.planning.lanes import make_lanes
from tests.orchestrator.sample_plans import (
    blocks_of,
    complete,
    node,
    plan,
)


def test_what_waits_on_a_lost_node_goes_to_another_of_its_hardware() -> None:
    both, one = classify([node("a"), node("b")]), classify([node("b")])
    blocks = blocks_of(plan(both, implementations=2, blocks=4))
    out = [handed_out[0] for handed_out in iter(blocks.next, None)]
    on_a = [assignment for assignment in out if assignment.lane.node.id == "a"]
    assert len(on_a) == 2
    blocks.move(make_lanes(plan(one, implementations=2, blocks=4)), None)
    for assignment in on_a:
        blocks.give_back(assignment)
    ran = {}
    while (handed_out := blocks.next()) is not None or blocks.out:
        if handed_out is not None:
            out.append(handed_out[0])
        assignment = next(
            assignment
            for assignment in out
            if assignment not in on_a and assignment.trial.key not in ran
        )
        assert assignment.lane.node.id == "b"
        ran[assignment.trial.key] = assignment
        blocks.finish(assignment, complete())
    assert len(ran) == 8
    assert {ran[assignment.trial.key].attempt for assignment in on_a} == {2}
    assert blocks.done


def test_a_node_that_joins_has_blocks_open_for_it() -> None:
    laid = plan(classify([node("a")]), implementations=1, blocks=6)
    blocks = blocks_of(laid, open_limit=2)
    assert all([blocks.next(), blocks.next()])
    more = make_lanes(plan(classify([node("a"), node("b")]), implementations=1, blocks=6))
    blocks.move(more, 2)
    assert blocks.next() is None, "no block may be opened for the node"
    blocks.move(more, 3)
    handed_out = blocks.next()
    assert handed_out is not None
    assert handed_out[0].lane.node.id == "b"


def test_a_lost_trial_goes_where_its_hardware_has_moved() -> None:
    alone, both = [node("big", cpus=8, gpus=2)], [node("plain", cpus=8)]
    laid = plan(classify(alone), implementations=1, blocks=2)
    blocks = blocks_of(laid)
    while (out := [handed_out[0] for handed_out in iter(blocks.next, None)])[0].device != "cpu":
        for assignment in out:
            blocks.finish(assignment, complete())
    blocks.move(make_lanes(plan(classify(alone + both), implementations=1, blocks=2)), None)
    for assignment in out:
        blocks.give_back(assignment)
    second = [handed_out[0] for handed_out in iter(blocks.next, None)]
    assert {assignment.lane.node.id for assignment in second} == {"plain"}
    assert {assignment.trial.key for assignment in second} == {
        assignment.trial.key for assignment in out
    }
