"""Interleaved rounds: killed at any moment, stopped by precision."""

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
