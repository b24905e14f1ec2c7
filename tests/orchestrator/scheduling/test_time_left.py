"""How long the rest of a sweep may take, here and on other fleets."""

from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal
from orchestrator.core.trial import Block, FinishedTrial, Outcome, OutcomeStatus, make_trial
from orchestrator.hardware import Node, classify
from orchestrator.planning.plan import make_plan
from orchestrator.scheduling.remaining import remaining_work
from orchestrator.scheduling.time_left import (
    FleetTimeLeft,
    TimeLeft,
    estimate_fleets,
    estimate_time_left,
    seconds_in_slot,
)
from orchestrator.spec import SweepSpec
from orchestrator.storage import journal
from tests.building.arms import PORTABLE, XLA
from tests.building.hardware import build_node, build_timing_use
from tests.building.specs import build_spec
from tests.building.trials import IDENTITY, build_full_trial

PRICES = [{"hardware": "cpu", "usd_per_hour": 3.6, "source": "a list", "date": "2026-11-01"}]
SLOW, FAST = build_node("slow"), build_node("fast", cpu_model="CPU B")
T4 = build_node("gpu", cpus=8, gpus=4)
IMPLEMENTATIONS = ["tensorflow/portable", "torch/portable"]
MEDIANS = {"tensorflow/portable": 30.0, "torch/portable": 10.0}
"""The median seconds of a trial on a slow node. A fast node or a GPU takes a tenth."""


@pytest.fixture(autouse=True)
def every_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda _: True)


def seconds_of(arm: Arm, index: int) -> float:
    """Return the time of a trial: 0.8, 0.9, 1, 1.1 and 1.2 of the median, after a long start."""
    is_slow = arm.device == "cpu" and arm.hardware_class.name != "CPU B, 2 CPUs"
    median_s = MEDIANS[arm.implementation] * (1.0 if is_slow else 0.1)
    return median_s * (0.8 + 0.1 * ((index - 1) % 5) if index else 5.0)


def run_before(
    blocks: int, nodes: Sequence[Node], status: OutcomeStatus = "complete", **changes: Any
) -> tuple[SweepSpec, journal.JournalState]:
    """Run some blocks of a sweep of 30; a trainer keeps running after an arm's first trial."""
    usual = {"configs": 30, "space": {"units": {"low": 8, "high": 128}}, "prices": PRICES}
    spec = build_spec(**{**usual, "implementations": IMPLEMENTATIONS, **changes})
    records: list[journal.Record] = [journal.SweepOpened(IDENTITY, {})]
    for index in range(blocks):
        block = Block(index, {"units": 8 + index})
        records.append(journal.BlockSuggested(index, block.config, 0.0))
        for arm in make_plan(spec, classify(nodes)).arms:
            outcome = Outcome(status, 0.0, seconds_of(arm, index), trainer_trials=index)
            trial = make_trial(IDENTITY, block, arm, 0)
            records.append(journal.TrialFinished(FinishedTrial(trial, outcome)))
    state = journal.replay(records)
    assert state is not None
    return spec, state


def time_left(blocks: int, nodes: Sequence[Node] = (SLOW,), **changes: Any) -> TimeLeft:
    spec, state = run_before(blocks, nodes, **changes)
    plan = make_plan(spec, classify(nodes))
    return estimate_time_left(remaining_work(spec, plan, state, retry_failed=False), spec.prices)


def fleet(blocks: int, text: str, measured_on: Sequence[Node], **changes: Any) -> FleetTimeLeft:
    spec, state = run_before(blocks, measured_on, **changes)
    (estimate,) = estimate_fleets(spec, state, [text], [SLOW])
    return estimate


def test_missing_trials_take_the_median_of_their_arm_without_the_start_of_its_trainer() -> None:
    left = time_left(11)
    assert (left.done, left.remaining, left.unmeasured) == (22, 38, ())
    in_all_s = 19 * (30 + 10)
    assert left.seconds is not None and left.usd is not None
    assert left.seconds.median == pytest.approx(in_all_s)
    assert left.seconds.low == pytest.approx(0.9 * in_all_s)
    assert left.seconds.high == pytest.approx(1.1 * in_all_s)
    assert left.usd.median == pytest.approx(in_all_s / 3600 * 3.6)
    assert left.by_class == {"CPU A, 2 CPUs": left.seconds}


def test_a_trainers_first_trial_counts_where_there_is_no_other() -> None:
    left = time_left(1)
    assert left.seconds is not None
    assert left.seconds.median == pytest.approx(29 * 5 * (30 + 10))


@pytest.mark.parametrize(("blocks", "unmeasured"), [(0, 2), (30, 0)])
def test_nothing_is_estimated_without_a_trial_of_each_arm_or_of_a_finished_sweep(
    blocks: int, unmeasured: int
) -> None:
    left = time_left(blocks)
    assert (left.done, left.remaining) == (2 * blocks, 60 - 2 * blocks)
    assert (left.seconds, left.usd, len(left.unmeasured)) == (None, None, unmeasured)


def test_nodes_without_a_price_by_the_hour_have_no_cost() -> None:
    assert time_left(6, prices=None).usd is None
    by_kwh = {"hardware": "cpu", "usd_per_kwh": 0.3, "source": "a bill", "date": "2026-11-01"}
    assert time_left(6, prices=[by_kwh]).usd is None


def test_a_node_is_paid_with_all_of_its_gpus() -> None:
    left = time_left(11, [T4], hardware=["gpu"], prices=[{**PRICES[0], "hardware": "NVIDIA T4"}])
    assert left.seconds is not None and left.usd is not None
    assert left.usd.median == pytest.approx(4 * 3.6 * left.seconds.median / 3600)


def test_failed_trials_show_no_time() -> None:
    left = time_left(1, status="failed")
    assert (left.done, left.seconds, len(left.unmeasured)) == (2, None, 2)


def test_the_slowest_class_decides() -> None:
    left = time_left(11, [SLOW, FAST])
    slow_s = 19 * (30 + 10)
    assert left.seconds is not None
    medians = {name: seconds.median for name, seconds in left.by_class.items()}
    assert medians == pytest.approx({"CPU A, 2 CPUs": slow_s, "CPU B, 2 CPUs": slow_s / 10})
    assert left.seconds.median == pytest.approx(slow_s)


def test_gpus_work_at_once_and_in_turns_with_the_cpu_of_their_node() -> None:
    left = time_left(11, [T4], hardware=["cpu", "gpu"], prices=None)
    assert left.seconds is not None
    on_cpu_s, on_gpus_s = 19 * (30 + 10), 19 * (3 + 1) / 4
    assert left.seconds.median == pytest.approx(on_cpu_s + on_gpus_s)


def test_a_fleet_shares_the_work_and_is_paid_whole() -> None:
    three = fleet(11, "3 x CPU A*", [SLOW])
    there = three.time_left
    assert (three.nodes, three.lacking) == ({"CPU A, 2 CPUs": 3}, ())
    assert there.seconds is not None and there.usd is not None
    assert there.seconds.median == pytest.approx(19 * (30 + 10) / 3)
    assert there.usd.median == pytest.approx(19 * (30 + 10) / 3600 * 3.6)


def test_a_fleet_names_the_arms_that_it_lacks_and_those_without_a_trial() -> None:
    here = tuple(f"{name} on CPU A, 2 CPUs" for name in IMPLEMENTATIONS)
    other = fleet(11, "1 x CPU B*", [SLOW, FAST])
    assert other.lacking == here
    assert other.time_left.seconds is not None
    unmeasured = fleet(0, "2 x CPU A*", [SLOW])
    assert (unmeasured.time_left.seconds, unmeasured.time_left.unmeasured) == (None, here)
    with pytest.raises(Refusal, match="no arm can run here"):
        fleet(5, "1 x CPU A*", [SLOW], hardware=["gpu"])


def test_trials_of_a_round_share_its_time() -> None:
    portable, xla = (
        Arm(arm.implementation, build_timing_use(arm.hardware)) for arm in (PORTABLE, XLA)
    )
    together = [
        build_full_trial(0, portable, started_s=0.0, ended_s=10.0, round_id="0.000"),
        build_full_trial(0, xla, started_s=2.0, ended_s=12.0, round_id="0.000"),
    ]
    alone = build_full_trial(3, started_s=0.0, ended_s=5.0)
    assert seconds_in_slot([*together, alone]) == [6.0, 6.0, 5.0]
