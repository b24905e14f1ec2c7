"""A second run: under the same name it extends the sweep; under another it waits for nodes."""

import shlex
from typing import Any

import pytest

from tests.commands import Command, wait_for
from tests.integration.sweeping import COMMAND, ROOT, Home

pytestmark = pytest.mark.full

NAME = "growing"


def runs_by_key(home: Home) -> dict[str, Any]:
    return {run.data.tags["trial_key"]: run for run in home.children(NAME)}


def test_failed_trials_have_their_reason_and_are_retried_in_their_runs_when_an_arm_joins(
    joining: Home,
) -> None:
    spec = joining.spec(NAME, implementations=["python/a", "python/flaky"])
    assert "2 of 4 trials complete, 2 failed" in joining.run("run", spec).expect(1).out
    joining.expect_exactly_once(NAME, 4)
    before = runs_by_key(joining)
    failed = next(run for run in before.values() if run.data.tags["outcome"] == "failed")
    assert failed.data.tags["failure"].startswith("error: ")
    assert "did not find the gate" in joining.artifact(failed, "trainer_output.txt")

    joining.gate.touch()
    more = joining.spec(NAME, implementations=["python/a", "python/flaky", "python/c"])
    done = joining.run("run", more, "--retry-failed").expect(0)
    assert "6 of 6 trials complete" in done.out
    after = runs_by_key(joining)
    assert (len(after), len(joining.finished(NAME))) == (6, 4 + 2 + 2)
    for key, run in before.items():
        assert after[key].info.run_id == run.info.run_id
        assert after[key].data.tags["outcome"] == "complete"
        assert "failure" not in after[key].data.tags
        if run.data.tags["outcome"] == "complete":
            assert after[key].data.to_dictionary() == run.data.to_dictionary()


def test_a_fresh_generation_keeps_the_one_before(joining: Home) -> None:
    joining.gate.touch()
    spec = joining.spec(NAME, implementations=["python/a", "python/b", "python/c"])
    joining.run("run", spec).expect(0)
    first = set(runs_by_key(joining))
    expect_a_live_view(joining, "run", str(spec), "--fresh", "--address", str(joining.address))
    old, new = joining.report(NAME, "--generation", 1), joining.report(NAME)
    assert (old["sweep"]["generation"], new["sweep"]["generation"]) == (1, 2)
    old_keys, new_keys = (
        {trial["trial_key"] for trial in report["trials"]} for report in (old, new)
    )
    assert old_keys == first
    assert len(new_keys) == 6 and old_keys.isdisjoint(new_keys)


def test_a_pruned_block_ends_early(joining: Home) -> None:
    spec = joining.spec(
        "pruned",
        {"epoch_s": 0.02},
        sampler=None,
        space=None,
        # the last one goes on for a minute, unless it is ended
        configs=[{"units": units, "epochs": n} for units, n in ((50, 20), (60, 20), (10, 3_000))],
        pruner={"name": "median", "n_startup_trials": 2},
    )
    report = joining.run("run", spec).expect(0).out
    assert "4 of 5 trials complete" in report and "1 pruned" in report
    joining.expect_exactly_once("pruned", 5)
    trials = {trial["outcome"]["status"]: trial for trial in joining.finished("pruned")}
    ended, outcome = trials["pruned"]["trial"], trials["pruned"]["outcome"]
    assert (ended["config"]["units"], len(outcome["epochs"]) < 3_000) == (10, True)
    assert "step_ms" in outcome["metrics"] and "val_accuracy" not in outcome["metrics"]


def expect_a_live_view(home: Home, *arguments: str) -> None:
    line = shlex.join([str(COMMAND), *arguments])
    script = ["script", "--quiet", "--return", "--command", line, "/dev/null"]
    done = Command(script, {**home.environ(), "TERM": "xterm-256color"}, ROOT).done().expect()
    assert "of 6 trials · " in done.out and "\x1b[" in done.out
    assert "authentication" not in done.out  # Ray's log messages


def test_two_sweeps_share_a_cluster_and_a_store(joining: Home) -> None:
    first = joining.spec("first", implementations=["python/a", "python/waits"], configs=1)
    second = joining.spec("second")
    with joining.running("run", first) as holding:
        wait_for(joining.waiting.exists)
        with joining.running("run", second) as waiting:
            waiting.until("may be in use by another sweep")
            joining.gate.touch()
            holding.done().expect(0)
            waiting.done().expect(0)
    joining.expect_exactly_once("first", 2)
    joining.expect_exactly_once("second", 4)
