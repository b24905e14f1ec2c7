"""Workloads that go wrong: the trial ends, is recorded, and harms no other one."""

import platform
from pathlib import Path

import psutil
import pytest

from orchestrator.core.trial import FinishedTrial, outcome_adapter, validated_json
from orchestrator.execution.trainer_pool import TrainerPool
from tests.building.stores import build_home, build_opening
from tests.building.trials import build_full_trial
from tests.faults.hostile_workloads import HOSTILE_WORKLOADS, LEFT_PROGRAM
from tests.orchestrator.execution.test_trial import run
from tests.orchestrator.storage.tracking.recording import record, writer

GROUPS = 3


@pytest.mark.parametrize("group", range(GROUPS))
def test_hostile_workloads(trainers: TrainerPool, tmp_path: Path, group: int) -> None:
    ended: list[FinishedTrial] = []
    for number, case in enumerate(HOSTILE_WORKLOADS[group::GROUPS]):
        does = case.does
        outcome = run(trainers, "runs", {"code": case.program}, limits=case.limits)
        failure = outcome.failure
        assert (failure.reason if failure else outcome.status) == case.ends, (does, outcome)
        message = failure.message if failure else ""
        assert case.message.format(host=platform.node()) in message, (does, message)
        reported = [outcome.metrics, *(epoch.metrics for epoch in outcome.epochs)]
        assert 666 not in [metrics.get("loss") for metrics in reported], does
        assert len(message) < 17_000 and "\x1b" not in message, does

        after = run(trainers, "runs", {"code": f"metrics = {{'loss': {number}.5}}"})
        assert (after.status, after.epochs) == ("complete", ()), (does, after)
        assert after.metrics["loss"] == number + 0.5, does
        assert case.next_trainer in ("any", "same" if after.trainer_trials else "new"), does
        stored = outcome_adapter.validate_json(validated_json(outcome_adapter, outcome))
        ended.append(FinishedTrial(build_full_trial(number).trial, stored))
    trainers.close()
    processes = psutil.process_iter(["cmdline"])
    assert not [process.pid for process in processes if process.info["cmdline"] == LEFT_PROGRAM]

    home = build_home(tmp_path)
    with writer(home) as opened:
        opened.open(build_opening())
        assert opened.record(ended) == {}
    read = {trial.key: (trial.status, trial.metrics) for trial in record(home)}
    assert read == {trial.key: (trial.status, trial.metrics) for trial in ended}
