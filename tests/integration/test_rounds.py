"""Rounds of slices killed at any moment, disturbed ones done again, blocks until it is enough."""

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
    """A sweep of two arms whose slices are drawn around what they are meant to take."""
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
    return [each for each in home.journal(NAME) if each["record"] == "round_finished"]


def last(home: Home) -> dict[str, Json]:
    """The last outcome of each trial, by key."""
    return {each["trial"]["key"]: each["outcome"] for each in home.finished(NAME)}


@pytest.mark.timeout(3 * LONG_S)
def test_a_timing_sweep_that_is_killed_has_whole_rounds_and_ends_when_it_is_enough(
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
    (enough,) = [each for each in home.journal(NAME) if each["record"] == "blocks_enough"]
    assert 6 <= enough["blocks"] <= 12
    trials = len(home.finished(NAME))
    home.expect_exactly_once(NAME, trials)
    times: dict[int, set[str]] = defaultdict(set)
    for each in home.finished(NAME):
        times[each["trial"]["block"]].add(each["outcome"]["telemetry"]["notes"]["round"])
    assert all(len(found) == 1 for found in times.values()), "no round is torn"
    assert all(len(each["finished"]) == 2 for each in rounds(home))
    again = home.run("run", file, timeout_s=LONG_S).expect(0)
    assert "nothing was run" in again.err
    assert len(home.finished(NAME)) == trials


@pytest.mark.timeout(3 * LONG_S)
def test_a_rerun_that_is_killed_is_done_again_and_the_store_has_the_last_outcome(
    home: Home,
) -> None:
    quiet = {"action": "rerun", "reruns": 1}
    file = spec(home, "tests.integration.throttled:slow", disturbed=quiet)
    short = ("--set", "blocks=null", "--set", "search.configs=2")
    with home.running("run", file, *short) as command:
        wait_for(lambda: len(rounds(home)) >= 1 or not command.running, LONG_S)
        assert command.running, command.wait()
        command.send(signal.SIGKILL)
        command.wait()
    home.expect_nothing_running()
    home.run("run", file, *short, timeout_s=LONG_S).expect(0)
    outcomes = last(home)
    assert len(outcomes) == 4
    assert len(home.finished(NAME)) == 8, "each round twice: the first time it was disturbed"
    assert {each["environment"]["rerun"] for each in outcomes.values()} == {1}
    assert {each["attempt"] for each in outcomes.values()} == {2}
    children = {run.data.tags["trial_key"]: run for run in home.children(NAME)}
    assert sorted(children) == sorted(outcomes)
    for key, outcome in outcomes.items():
        assert children[key].info.end_time == round(outcome["ended_s"] * 1000)
        assert children[key].data.metrics["step_ms"] == outcome["metrics"]["step_ms"]
        assert "40 %" in children[key].data.tags["disturbed"]
    again = home.run("run", file, *short, timeout_s=LONG_S).expect(0)
    assert "nothing was run" in again.err


@pytest.mark.timeout(3 * LONG_S)
def test_one_arm_more_is_timed_in_turns_with_all_others_and_each_has_one_run(home: Home) -> None:
    file = spec(home)
    short = ("--set", "blocks=null", "--set", "search.configs=2")
    home.run("run", file, *short, timeout_s=LONG_S).expect(0)
    before = last(home)
    more = (*short, "--set", "arms.implementations=[none/a, none/b, none/c]")
    home.run("run", file, *more, timeout_s=LONG_S).expect(0)
    outcomes = last(home)
    assert (len(before), len(outcomes), len(home.finished(NAME))) == (4, 6, 10)
    assert all(outcomes[key] != outcome for key, outcome in before.items())
    races = [tuple(each["outcome"]["telemetry"]["notes"]["round"] for each in found["finished"])
             for found in rounds(home)[2:]]  # fmt: skip
    assert [len(set(each)) for each in races] == [1, 1]
    children = home.children(NAME)
    assert sorted(run.data.tags["trial_key"] for run in children) == sorted(outcomes)
    for run in children:
        outcome = outcomes[run.data.tags["trial_key"]]
        assert run.data.metrics["step_ms"] == outcome["metrics"]["step_ms"]
        assert run.info.end_time == round(outcome["ended_s"] * 1000)
    again = home.run("run", file, *more, timeout_s=LONG_S).expect(0)
    assert "nothing was run" in again.err
