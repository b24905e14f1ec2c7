"""A sweep of an own Keras model is killed in the middle and resumed; its report compares arms."""

import signal

import pytest

from tests.commands import wait_for
from tests.integration.sweeping import Home
from tests.workloads.shared_trainer import expect_package

NAME = "own-model"
OBJECTIVE = "val_level_mae"
ARMS = ["torch/auto", "torch/portable"]


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_killed_sweep_of_an_own_model_resumes(home: Home) -> None:
    expect_package("torch")
    spec = home.spec(
        NAME,
        {"epochs": 1, "batch_size": 8, "timed_steps": 2},
        workload=None,
        model="tests.integration.own_model:build",
        data="tests.integration.own_model:load",
        configs=3,
        space={"units": [4, 6, 8]},
        objectives={OBJECTIVE: "minimize"},
        margins={OBJECTIVE: 0.5},
        implementations=ARMS,
    )
    with home.running("run", spec) as command:
        wait_for(lambda: home.finished(NAME) or not command.running, 300)
        assert command.running, command.done()
        command.send_signal(signal.SIGKILL)
        command.wait()
    home.expect_nothing_running()
    ended = home.finished(NAME)
    assert 0 < len(ended) < 6

    home.run("run", spec, timeout_s=400).expect(0)
    assert home.finished(NAME)[: len(ended)] == ended
    home.expect_exactly_once(NAME, 6)
    report = home.report(NAME)
    assert {trial["status"] for trial in report["trials"]} == {"complete"}
    assert all(OBJECTIVE in trial["metrics"] for trial in report["trials"])
    results = [result for comparison in report["comparisons"] for result in comparison["results"]]
    assert [(result["metric"], result["margin"]) for result in results] == [(OBJECTIVE, 0.5)]
