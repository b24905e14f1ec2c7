"""Interleaved rounds: killed at any moment, extended by an arm, stopped by precision."""

from __future__ import annotations

import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.sweeping import Home, Json, wait_for

NAME = "rounds"
STEADY = "tests.workloads.examples.slicing:steady"
LONG_S = 280


def spec(home: Home, workload: str = STEADY, **more: Any) -> Path:
    """Write the spec of a sweep of two arms whose slices have random durations."""
    path = home.spec(
        NAME,
        workload=workload,
        settings={"step_s": 0.002, "spread": 0.02},
        search={"sampler": "random", "configs": None},
        arms={"implementations": ["none/a", "none/b"], "hardware": ["cpu"]},
        measure={"mode": "timing", "interval": 0.2, "slices": [6, 6], "slice_s": 0.02},
        blocks={"interval": 0.2, "at_most": 12},
        **more,
    )
    body = yaml.safe_load(path.read_text())
    del body["search"]["objectives"]
    path.write_text(yaml.safe_dump(body))
    return path


def rounds(home: Home) -> list[Json]:
    return [record for record in home.journal(NAME) if record["record"] == "round_finished"]


def last_outcomes(home: Home) -> dict[str, Json]:
    """Return the last outcome of each trial, by key."""
    return {record["trial"]["key"]: record["outcome"] for record in home.finished(NAME)}


@pytest.mark.timeout(3 * LONG_S)
def test_a_killed_timing_sweep_has_whole_rounds_and_stops_when_precise(
    home: Home,
) -> None:
    file = spec(home)
    with home.running("run", file) as command:
        wait_for(lambda: len(rounds(home)) >= 2 or not command.running, LONG_S)
        assert command.running, command.wait()
        command.send(signal.SIGKILL)
        command.wait()
    home.expect_nothing_running()
    before = home.finished(NAME)
    home.run("run", file, timeout_s=LONG_S).expect(0)
    assert home.finished(NAME)[: len(before)] == before
    (enough,) = [record for record in home.journal(NAME) if record["record"] == "blocks_enough"]
    assert 6 <= enough["blocks"] <= 12
    trials = len(home.finished(NAME))
    home.expect_exactly_once(NAME, trials)
    times: dict[int, set[str]] = defaultdict(set)
    for record in home.finished(NAME):
        times[record["trial"]["block"]].add(record["outcome"]["round_id"])
    assert all(len(names) == 1 for names in times.values()), "no round is incomplete"
    assert all(len(record["finished"]) == 2 for record in rounds(home))
    second_run = home.run("run", file, timeout_s=LONG_S).expect(0)
    assert "nothing was run" in second_run.err
    assert len(home.finished(NAME)) == trials


@pytest.mark.full
@pytest.mark.timeout(3 * LONG_S)
def test_a_new_arm_is_interleaved_with_all_others_and_each_has_one_run(joining: Home) -> None:
    home, file = joining, spec(joining)
    short = ("--set", "blocks=null", "--set", "search.configs=2")
    home.run("run", file, *short, timeout_s=LONG_S).expect(0)
    before = last_outcomes(home)
    more = (*short, "--set", "arms.implementations=[none/a, none/b, none/c]")
    home.run("run", file, *more, timeout_s=LONG_S).expect(0)
    outcomes = last_outcomes(home)
    assert (len(before), len(outcomes), len(home.finished(NAME))) == (4, 6, 10)
    assert all(outcomes[key] != outcome for key, outcome in before.items())
    names = [{trial["outcome"]["round_id"] for trial in record["finished"]}
             for record in rounds(home)[2:]]  # fmt: skip
    assert [len(in_round) for in_round in names] == [1, 1]
    children = home.children(NAME)
    assert sorted(run.data.tags["trial_key"] for run in children) == sorted(outcomes)
    for run in children:
        outcome = outcomes[run.data.tags["trial_key"]]
        assert run.data.metrics["step_ms"] == outcome["metrics"]["step_ms"]
        assert run.info.end_time == round(outcome["ended_s"] * 1000)
    second_run = home.run("run", file, *more, timeout_s=LONG_S).expect(0)
    assert "nothing was run" in second_run.err
