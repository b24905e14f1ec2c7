"""Further starts of a sweep: failed trials again, one more arm, and another generation."""

import shlex
from typing import Any

import pytest

from tests.commands import Command
from tests.integration.sweeping import COMMAND, ROOT, Home

pytestmark = pytest.mark.full

NAME = "growing"


def runs_by_key(home: Home) -> dict[str, Any]:
    return {run.data.tags["trial_key"]: run for run in home.children(NAME)}


def test_failed_trials_are_retried_in_their_runs_when_an_arm_joins_and_a_fresh_start_keeps_them(
    joining: Home,
) -> None:
    spec = joining.spec(NAME, implementations=["python/a", "python/flaky"])
    first = joining.run("run", spec).expect(1)
    assert "failed 2 trials of python/flaky" in " ".join(first.out.split())
    joining.expect_exactly_once(NAME, 4)
    before = runs_by_key(joining)
    failed = next(run for run in before.values() if run.data.tags["outcome"] == "failed")
    assert failed.data.tags["failure"].startswith("error: ")
    assert "did not find the gate" in joining.artifact(failed, "trainer_output.txt")

    joining.gate.touch()
    more = joining.spec(NAME, implementations=["python/a", "python/flaky", "python/c"])
    done = joining.run("run", more, "--retry-failed").expect(0)
    assert "· 6 trials" in " ".join(done.out.split())
    after = runs_by_key(joining)
    assert (len(after), len(joining.finished(NAME))) == (6, 4 + 2 + 2)
    for key, run in before.items():
        assert after[key].info.run_id == run.info.run_id
        assert after[key].data.tags["outcome"] == "complete"
        assert "failure" not in after[key].data.tags
        if run.data.tags["outcome"] == "complete":
            assert after[key].data.to_dictionary() == run.data.to_dictionary()

    expect_a_live_view(joining, "run", str(more), "--fresh", "--address", str(joining.address))
    old, new = joining.report(f"{NAME}#1"), joining.report(NAME)
    assert (old["sweep"]["generation"], new["sweep"]["generation"]) == (1, 2)
    old_keys, new_keys = (
        {trial["trial_key"] for trial in report["trials"]} for report in (old, new)
    )
    assert old_keys == after.keys()
    assert len(new_keys) == 6 and old_keys.isdisjoint(new_keys)


def expect_a_live_view(home: Home, *arguments: str) -> None:
    line = shlex.join([str(COMMAND), *arguments])
    script = ["script", "--quiet", "--return", "--command", line, "/dev/null"]
    done = Command(script, {**home.environ(), "TERM": "xterm-256color"}, ROOT).done().expect()
    assert "of 6 trials · " in done.out and "\x1b[" in done.out
    assert "authentication" not in done.out  # Ray's log messages
