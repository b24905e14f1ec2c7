"""Interleaved rounds: killed at any moment, stopped by precision."""

import signal

import pytest

from tests.commands import wait_for
from tests.integration.sweeping import Home, Json

NAME = "rounds"
LONG_S = 280


def rounds(home: Home) -> list[Json]:
    return [record for record in home.journal(NAME) if record["record"] == "round_finished"]


@pytest.mark.timeout(3 * LONG_S)
def test_a_killed_timing_sweep_has_whole_rounds_and_stops_when_precise(home: Home) -> None:
    """The slices of the two arms have random durations."""
    spec = home.spec(
        NAME,
        workload="tests.workloads.examples.slicing:steady",
        settings={"step_s": 0.002, "spread": 0.02},
        configs=None,
        objectives=None,
        implementations=["none/a", "none/b"],
        measure={"mode": "timing", "interval": 0.2, "slices": [6, 6], "slice_s": 0.02},
        blocks={"interval": 0.2, "at_most": 12},
    )
    with home.running("run", spec) as command:
        wait_for(lambda: len(rounds(home)) >= 2 or not command.running, LONG_S)
        assert command.running, command.done()
        command.send_signal(signal.SIGKILL)
        command.wait()
    home.expect_nothing_running()
    before = home.finished(NAME)
    home.run("run", spec, timeout_s=LONG_S).expect(0)
    finished = home.finished(NAME)
    assert finished[: len(before)] == before
    (enough,) = [record for record in home.journal(NAME) if record["record"] == "blocks_enough"]
    assert 6 <= enough["blocks"] <= 12
    home.expect_exactly_once(NAME, len(finished))
    assert {len(record["finished"]) for record in rounds(home)} == {2}, "no round is incomplete"
    second_run = home.run("run", spec, timeout_s=LONG_S).expect(0)
    assert "nothing was run" in second_run.err
    assert home.finished(NAME) == finished
