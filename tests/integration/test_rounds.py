"""Interleaved rounds on Ray, stopped by precision.

What a round, its record and the decision to stop are is tested in every run without Ray, in
`tests/orchestrator/execution` and `tests/orchestrator/scheduling`.
"""

import pytest

from tests.integration.sweeping import Home

NAME = "rounds"


@pytest.mark.full
def test_a_timing_sweep_has_whole_rounds_and_stops_when_precise(home: Home) -> None:
    spec = home.spec(
        NAME,
        workload="tests.workloads.examples.slicing:steady",
        settings={"step_s": 0.002, "spread": 0.02},
        configs={"interval": 0.2, "at_most": 12},
        objectives=None,
        implementations=["none/a", "none/b"],
        measure={"mode": "timing", "interval": 0.2, "slices": [6, 6], "slice_s": 0.02},
    )
    home.run("run", spec).expect(0)
    finished = home.finished(NAME)
    (enough,) = [record for record in home.journal(NAME) if record["record"] == "stop_decided"]
    assert 6 <= enough["decision"]["blocks"] <= 12
    home.expect_exactly_once(NAME, len(finished))
    rounds = [record for record in home.journal(NAME) if record["record"] == "round_finished"]
    assert {len(record["finished"]) for record in rounds} == {2}, "no round is incomplete"
    second_run = home.run("run", spec).expect(0)
    assert "nothing was run" in second_run.err
    assert home.finished(NAME) == finished
