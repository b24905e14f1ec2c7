"""The head of a cluster dies during a sweep: exit code 3, and the next start resumes."""

from __future__ import annotations

import pytest

from tests.integration.sweeping import Home, cluster, kill_whole
from tests.integration.test_stopping import wait_until_it_waits

pytestmark = pytest.mark.full

NAME = "headless"


def test_a_lost_head_stops_the_sweep_and_the_next_start_finishes_it(
    home: Home, ray_token: None
) -> None:
    spec = home.spec(NAME, arms={"implementations": ["python/a", "python/waits"]})
    with (
        cluster() as (address, head),
        home.running("run", spec, "--address", address) as command,
    ):
        wait_until_it_waits(home, command)
        kill_whole(head, "gcs_server")
        done = command.wait(90).expect(3)
    assert "the head of the Ray cluster has not answered for 25 seconds" in done.err
    assert f"Resume with: rnnsweep run {spec} --address {address}" in done.err
    ended = home.finished(NAME)
    home.gate.touch()
    with cluster() as (address, _):
        done = home.run("run", spec, "--address", address).expect(0)
    assert "4 complete of 4 expected" in done.out
    home.expect_exactly_once(NAME, 4)
    assert home.finished(NAME)[: len(ended)] == ended
