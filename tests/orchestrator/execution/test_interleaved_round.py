"""Trials that take turns in slices, in real trainer processes, and all their failures."""

import itertools
import os
import signal
import statistics
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import psutil
import pytest

from orchestrator.core.criteria import Timing
from orchestrator.core.trial import Outcome, outcome_adapter
from orchestrator.execution import telemetry
from orchestrator.execution.actor import TrialActor
from orchestrator.execution.interleaved_round import InterleavedRound
from orchestrator.execution.job import Job, RoundPartner, TrialLimits, job_adapter
from orchestrator.execution.trainer_pool import CpuClaims, TrainerPool
from tests.building.jobs import build_job

QUICK = Timing(interval=0.05, least=6, most=6, slice_s=0.01)


def job_of(
    name: str, *implementations: str, timing: Timing = QUICK, cpus: int | None = None, **own: Any
) -> Job:
    options = {key: own.pop(key) for key in ("limits", "fresh") if key in own}
    first, *others = (
        build_job(f"slicing:{name}", own, implementation=implementation, cpus=cpus, **options)
        for implementation in implementations
    )
    partners = tuple(RoundPartner(other.request, cpus) for other in others)
    return replace(first, timing=timing, partners=partners)


def round_of(trainers: TrainerPool, job: Job) -> InterleavedRound:
    assert job.timing is not None
    return InterleavedRound(job, job.timing, trainers, telemetry.Instruments())


def run_round(trainers: TrainerPool, *arguments: str, **options: Any) -> list[Outcome]:
    running = round_of(trainers, job_of(*arguments, **options))
    list(running.run())
    return [trial_run.outcome() for trial_run in running.trial_runs]


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
        ("hangs", "hung", "limits.idle_s"),
    ],
)
def test_a_failing_trial_fails_alone(
    trainers: TrainerPool, name: str, reason: str, words: str
) -> None:
    names, limits = ("none/one", "none/two", "none/three"), TrialLimits(60, 3.0)
    failed, *others = run_round(trainers, name, *names, of="none/one", limits=limits)
    assert failed.failure is not None
    assert failed.failure.reason == reason
    assert words in failed.failure.message
    assert [outcome.status for outcome in others] == ["complete"] * 2
    assert [outcome.metrics["slices"] for outcome in others] == [6, 6]
    assert [outcome.status for outcome in run_round(trainers, "steady", *names)] == ["complete"] * 3


def test_a_round_in_which_all_trials_fail_ends(trainers: TrainerPool) -> None:
    every = run_round(trainers, "forgets", "none/one", "none/two")
    assert [outcome.status for outcome in every] == ["failed"] * 2


def test_fresh_trainers_of_a_round_replace_all_others(trainers: TrainerPool) -> None:
    names = ("none/one", "none/two", "none/two")  # two arms of one implementation
    before = run_round(trainers, "steady", "none/other") + run_round(trainers, "steady", *names)
    assert len(trainers.warm) == 4
    fresh = run_round(trainers, "steady", *names, fresh=True)
    warm = run_round(trainers, "steady", *names)
    earlier = [[outcome.trainer_trials for outcome in part] for part in (before, fresh, warm)]
    assert earlier == [[0] * 4, [0] * 3, [1] * 3]
    assert len(trainers.warm) == 3


def test_the_trainers_of_a_round_share_claimed_cpus(trainers: TrainerPool) -> None:
    trainers.claims = CpuClaims(f"rnnsweep-test-{os.getpid()}", patience_s=0.0)
    outcomes = run_round(trainers, "steady", "none/one", "none/two", cpus=1)
    assert len({outcome.environment["trainer_cpus"] for outcome in outcomes}) == 1


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


def test_a_round_that_is_to_end_has_one_more_turn(trainers: TrainerPool) -> None:
    timing = Timing(interval=0.01, least=40, most=40, slice_s=0.25)
    running = round_of(trainers, job_of("steady", "none/one", "none/two", timing=timing))
    progress = running.run()
    turns = next(seen.done for seen in progress if seen.done)
    running.end_after_turn()
    list(progress)
    outcomes = [trial_run.outcome() for trial_run in running.trial_runs]
    assert [outcome.metrics["slices"] for outcome in outcomes] == [turns + 1] * 2
    assert [outcome.status for outcome in outcomes] == ["complete"] * 2


@pytest.mark.parametrize(
    ("disturbed_looks", "repeated", "looks"),
    [({1, 2, 6}, 3, 9), (range(100), 2, 8)],
)
def test_slices_that_other_work_disturbed_are_repeated_and_do_not_count(
    trainers: TrainerPool,
    monkeypatch: pytest.MonkeyPatch,
    disturbed_looks: Collection[int],
    repeated: int,
    looks: int,
) -> None:
    looked = itertools.count()

    class ScriptedMeter:
        def __init__(self, pids: Sequence[int]) -> None:
            assert len(pids) == 2

        def start(self) -> None:
            pass

        def is_disturbed(self, limit_pct: float) -> bool:
            return next(looked) in disturbed_looks

    monkeypatch.setattr(telemetry, "OthersMeter", ScriptedMeter)
    running = round_of(trainers, job_of("steady", "none/one", "none/two", spread=0.3))
    list(running.run())
    assert (running.repeated_turns, next(looked)) == (repeated, looks)
    for trial_run in running.trial_runs:
        outcome = trial_run.outcome()
        assert outcome.metrics["slices"] == len(outcome.slices) == 6
        mean_ms = statistics.geometric_mean(part.step_ms for part in outcome.slices)
        assert outcome.metrics["step_ms"] == pytest.approx(mean_ms)
        assert trial_run.recording is not None and len(trial_run.recording.windows) == 6


def config_of(job: Job) -> dict[str, str]:
    return {"job": job_adapter.dump_json(job).decode()}


def test_an_actor_runs_rounds_and_trials_and_gives_signs_of_life() -> None:
    timing = Timing(interval=0.001, least=8, most=8, slice_s=0.2)
    job = job_of("steady", "none/one", "none/two", timing=timing)
    plain = replace(build_job("noop"), neighbours=3)
    actor = TrialActor(config_of(job))
    try:
        for next_job, number in ((job, 2), (plain, 1), (plain, 1)):
            actor.reset_config(config_of(next_job))
            results = [actor.step()]
            while "progress" in results[-1]:
                results.append(actor.step())
            assert len(results) > number
            outcomes = [outcome_adapter.validate_json(text) for text in results[-1]["outcomes"]]
            assert [outcome.status for outcome in outcomes] == ["complete"] * number
        assert outcomes[0].trainer_trials == 1
        assert outcomes[0].environment["neighbours_at_most"] == 3
    finally:
        actor.cleanup()


def test_a_round_that_is_taken_away_leaves_no_trainer() -> None:
    others = psutil.Process().children()
    timing = Timing(interval=0.001, least=90, most=90, slice_s=0.2)
    actor = TrialActor(config_of(job_of("steady", "none/one", "none/two", timing=timing)))
    for _ in range(3):  # each of them is warm, and turns have been taken
        assert "progress" in actor.step()
    children = [child for child in psutil.Process().children() if child not in others]
    assert len([child for child in children if "workloads" in child.cmdline()]) == 2
    actor.reset_config(config_of(job_of("steady", "none/three")))
    remaining = [child for child in psutil.Process().children() if child in children]
    assert {child.status() for child in remaining} <= {psutil.STATUS_ZOMBIE}
    actor.cleanup()


def test_a_trainer_that_dies_while_it_waits_fails_alone(trainers: TrainerPool) -> None:
    timing = Timing(interval=0.001, least=12, most=12, slice_s=0.3)
    running = round_of(trainers, job_of("steady", "none/one", "none/two", timing=timing))
    signs = running.run()
    for _ in range(3):
        next(signs)  # between two turns all of them wait
    os.kill(trainers.warm["none/two [timing]", "cpu", None].pid, signal.SIGKILL)
    list(signs)
    one, two = (trial_run.outcome() for trial_run in running.trial_runs)
    assert (one.status, one.metrics["slices"]) == ("complete", 12)
    assert two.failure is not None
    assert two.failure.reason == "crash"
