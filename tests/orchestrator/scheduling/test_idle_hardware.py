"""Idle hardware in simulated sweeps over nodes that differ 20 × in speed."""

from __future__ import annotations

import pytest

from tests.benchmarks.unlike.simulated import Question, Result, Span, judge, simulated

DEVICES = {"fast": 1, "slow": 4}


def run(**changes: object) -> Result:
    return simulated(Question("", 40, 1.0, 20.0, DEVICES, **changes))  # type: ignore[arg-type]


def test_no_hardware_waits_if_all_blocks_are_open() -> None:
    result = run()
    fast, slow = result.uses
    assert fast.idle_share == pytest.approx(0)
    assert slow.idle_share <= 0.08, "at the end a node may wait for the last trial of another"
    assert result.stretch <= 1.1
    assert (fast.trials, slow.trials) == (40, 40)


@pytest.mark.parametrize("less", [None, 2])
def test_no_hardware_waits_if_the_sampler_reads_only_the_fast_arm(less: int | None) -> None:
    result = run(sampler="tpe", over="* on *, 1 CPU", less_rounds=less)
    assert result.uses[0].idle_share == pytest.approx(0)
    assert result.stretch <= 1.15


def test_fast_hardware_waits_if_a_learning_sampler_reads_slow_arms() -> None:
    default, many_open = run(sampler="tpe"), run(sampler="tpe", open_blocks=20)
    assert 0.5 < many_open.uses[0].idle_share < default.uses[0].idle_share
    assert default.stretch <= 1.15, "the slow nodes are always busy"


def test_one_open_block_leaves_most_nodes_idle() -> None:
    assert run(sampler="tpe", open_blocks=1).stretch > 3


def test_idle_shares_and_makespan() -> None:
    spans = [Span("fast", 1.0, 2.0), Span("fast", 3.0, 4.0), Span("slow", 1.0, 11.0)]
    result = judge("", spans, 0.0, {"fast": 1, "slow": 2}, None)
    fast, slow = result.uses
    assert fast.idle_share == pytest.approx(1 / 3)
    assert (fast.waited_s, fast.done_s) == (1.0, 4.0)
    assert slow.idle_share == pytest.approx(0.5)
    assert (result.makespan_s, result.bound_s, result.stretch) == (11.0, 5.0, 2.2)
