"""Trials that take turns in slices, in real trainer processes, and all their failures."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.core.criteria import Timing
from orchestrator.core.trial import Outcome, outcome_adapter
from orchestrator.execution import telemetry
from orchestrator.execution.actor import TrialActor
from orchestrator.execution.cpu_claims import CpuClaims
from orchestrator.execution.interleaved_round import InterleavedRound
from orchestrator.execution.job import Job, Rival, TrialLimits, job_adapter
from orchestrator.execution.trainer_pool import TrainerPool
from workloads.protocol import TrialRequest

ROOT = Path(__file__).resolve().parents[3]
SLICING = "tests.workloads.examples.slicing"
QUICK = Timing(interval=0.05, least=6, most=6, slice_s=0.01)


def job_of(
    name: str,
    implementations: Sequence[str],
    *,
    timing: Timing = QUICK,
    limits: TrialLimits | None = None,
    fresh: bool = False,
    **settings: Any,
) -> Job:
    first, *others = (
        TrialRequest(f"{SLICING}:{name}", implementation, settings, seed=3)
        for implementation in implementations
    )
    return Job(
        first,
        1,
        time.time(),
        limits or TrialLimits(60, 30),
        (str(ROOT),),
        fresh,
        rivals=tuple(map(Rival, others)),
        timing=timing,
    )


def run_round(
    trainers: TrainerPool, name: str, *implementations: str, **options: Any
) -> list[Outcome]:
    job = job_of(name, implementations, **options)
    assert job.timing is not None
    running = InterleavedRound(job, job.timing, trainers, CpuClaims(), telemetry.Instruments())
    list(running.run())
    assert running.ended
    return running.outcomes()


def test_a_slowdown_is_found_in_the_ratio_of_step_times(trainers: TrainerPool) -> None:
    timing = Timing(interval=0.02, least=12, most=24, slice_s=0.05)
    names = ("none/one", "none/slow", "none/one+again")
    slower = {"none/slow": 1.2}
    first, slow, repeat = run_round(
        trainers, "steady", *names, timing=timing, slower=slower, spread=0.02
    )
    ratio, same = (
        outcome.metrics["step_ms"] / first.metrics["step_ms"] for outcome in (slow, repeat)
    )
    assert ratio == pytest.approx(1.2, rel=0.02)
    assert same == pytest.approx(1.0, rel=0.02)
    assert "ratio_interval" not in first.metrics
    for outcome in (slow, repeat):
        pairs = zip(outcome.slices, first.slices, strict=True)
        ratio = statistics.geometric_mean(mine.step_ms / its.step_ms for mine, its in pairs)
        assert outcome.metrics["step_ms"] / first.metrics["step_ms"] == pytest.approx(ratio)
        assert outcome.metrics["ratio_interval"] > 0
        assert outcome.kernel is not None and outcome.status == "complete"
    assert first.metrics["slices"] == slow.metrics["slices"] == len(first.slices)
    assert first.metrics["timed_s"] == pytest.approx(sum(part.seconds for part in first.slices))
    assert not {"train_s", "loss", "accuracy", "trainer_cpu_pct"} & set(first.metrics)


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("refuses", "not_possible", "hardware that nobody has"),
        ("raises", "error", "broke in a slice"),
        ("dies", "crash", "SIGKILL"),
        ("hangs", "hung", "limits.idle_s"),
    ],
)
def test_a_failing_trial_fails_alone(
    trainers: TrainerPool, name: str, reason: str, words: str
) -> None:
    of, names = "none/one", ("none/one", "none/two", "none/three")
    outcomes = dict(
        zip(
            names,
            run_round(trainers, name, *names, of=of, limits=TrialLimits(60, 1.5)),
            strict=True,
        )
    )
    failure = outcomes.pop(of).failure
    assert failure is not None
    assert failure.reason == reason
    assert words in failure.message
    assert [outcome.status for outcome in outcomes.values()] == ["complete"] * 2
    assert [outcome.metrics["slices"] for outcome in outcomes.values()] == [6, 6]
    assert [outcome.status for outcome in run_round(trainers, "steady", *names)] == ["complete"] * 3


def test_waiting_for_a_turn_is_no_hang_and_takes_no_time(trainers: TrainerPool) -> None:
    timing = Timing(interval=0.01, least=4, most=4, slice_s=0.5)
    limits = TrialLimits(trial_s=6.0, idle_s=1.3)
    names = ("none/a", "none/b", "none/c", "none/d")
    outcomes = run_round(trainers, "steady", *names, timing=timing, limits=limits, step_s=0.1)
    assert [outcome.status for outcome in outcomes] == ["complete"] * 4
    assert outcomes[0].ended_s - outcomes[0].started_s > limits.trial_s


def test_a_round_ends_at_a_look_once_it_is_narrow_enough(trainers: TrainerPool) -> None:
    timing = Timing(interval=9.0, least=10, most=40, slice_s=0.02)
    outcomes = run_round(trainers, "steady", "none/one", "none/two", timing=timing)
    assert [outcome.metrics["slices"] for outcome in outcomes] == [10, 10]


def actor_of(job: Job) -> TrialActor:
    return TrialActor({"job": job_adapter.dump_json(job).decode()})


def test_an_actor_runs_a_round_and_gives_signs_of_life() -> None:
    timing = Timing(interval=0.001, least=8, most=8, slice_s=0.2)
    actor = actor_of(job_of("steady", ("none/one", "none/two"), timing=timing))
    try:
        results = [actor.step()]
        while not results[-1]["done"]:
            results.append(actor.step())
        assert len(results) > 2
        outcomes = [outcome_adapter.validate_json(text) for text in results[-1]["outcomes"]]
        assert [outcome.status for outcome in outcomes] == ["complete", "complete"]
        next_job = job_of("steady", ("none/one", "none/two"))
        assert actor.reset_config({"job": job_adapter.dump_json(next_job).decode()})
        while not (result := actor.step())["done"]:
            pass
        repeat = [outcome_adapter.validate_json(text) for text in result["outcomes"]]
        assert [outcome.trainer_trials for outcome in repeat] == [1, 1]
    finally:
        actor.cleanup()


def test_a_round_that_is_taken_away_leaves_no_trainer() -> None:
    others = psutil.Process().children()
    timing = Timing(interval=0.001, least=90, most=90, slice_s=0.2)
    actor = actor_of(job_of("steady", ("none/one", "none/two"), timing=timing))
    for _ in range(3):  # each of them is warm, and turns have been taken
        assert not actor.step()["done"]
    children = [child for child in psutil.Process().children() if child not in others]
    assert len([child for child in children if "workloads" in child.cmdline()]) == 2
    actor.reset_config({"job": job_adapter.dump_json(job_of("steady", ("none/three",))).decode()})
    actor.cleanup()
    remaining = [child for child in psutil.Process().children() if child in children]
    running = [child for child in remaining if child.is_running()]
    assert not [child for child in running if child.status() != psutil.STATUS_ZOMBIE]


def test_a_trainer_that_dies_while_it_waits_fails_alone(trainers: TrainerPool) -> None:
    timing = Timing(interval=0.001, least=12, most=12, slice_s=0.3)
    job = job_of("steady", ("none/one", "none/two"), timing=timing)
    running = InterleavedRound(job, timing, trainers, CpuClaims(), telemetry.Instruments())
    signs = running.run()
    for _ in range(3):
        next(signs)  # between two turns all of them wait
    os.kill(trainers["none/two [timing]", "cpu", None].pid, signal.SIGKILL)
    list(signs)
    one, two = running.outcomes()
    assert (one.status, one.metrics["slices"]) == ("complete", 12)
    assert two.failure is not None
    assert two.failure.reason == "crash"
