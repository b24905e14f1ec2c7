"""Trials that take turns in slices, in real trainer processes, and all their failures."""

import itertools
import math
import os
import signal
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import psutil
import pytest

from orchestrator.core.criteria import Timing
from orchestrator.core.trial import Outcome, outcome_adapter
from orchestrator.execution import telemetry, watchdog
from orchestrator.execution.actor import TrialActor
from orchestrator.execution.job import Job, RoundTrial, TrialLimits, TrialRun, job_adapter
from orchestrator.execution.round import RunningRound
from orchestrator.execution.telemetry.node_gauge import Taken
from orchestrator.execution.trainer_pool import CpuClaims, TrainerPool
from orchestrator.execution.trainer_process import TrainerProcess
from tests.building.jobs import build_job
from workloads.protocol import Event, PhaseBegan, PhaseEnded, SliceDone, TrialRequest
from workloads.turns import step_seconds

QUICK = Timing(interval=0.05, least=6, most=6, slice_s=0.01)


def job_of(
    name: str, *implementations: str, timing: Timing = QUICK, cpus: int | None = None, **own: Any
) -> Job:
    options = {key: own.pop(key) for key in ("limits", "fresh") if key in own}
    request = {"measure": own.pop("measure", "timing")}
    workload = name if ":" in name else f"slicing:{name}"
    jobs = [
        build_job(workload, own, implementation=implementation, cpus=cpus, **options, **request)
        for implementation in implementations
    ]
    trials = tuple(trial for job in jobs for trial in job.trials)
    return replace(jobs[0], timing=timing, trials=trials)


def round_of(trainers: TrainerPool, job: Job) -> RunningRound:
    return RunningRound(job, trainers, telemetry.Instruments())


def run_round(trainers: TrainerPool, *arguments: str, **options: Any) -> list[Outcome]:
    running = round_of(trainers, job_of(*arguments, **options))
    list(running.run())
    return [trial_run.outcome() for trial_run in running.trial_runs]


def test_a_slowdown_is_found_in_the_ratio_of_step_times(
    trainers: TrainerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.execution.round._SHORT_S", math.inf)  # nothing is set aside
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
        step_ms = 1_000 * step_seconds(outcome.slices)
        assert outcome.metrics["step_ms"] == pytest.approx(step_ms)
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


def test_whole_trainings_take_turns_at_the_same_epochs(trainers: TrainerPool) -> None:
    names = ("numpy/one", "numpy/two")
    own: dict[str, Any] = {"epochs": 40, "measure": "full"}
    running = round_of(trainers, job_of("echo_memory:run", *names, **own))
    ended = [(sign.done, sign.trial) for sign in running.run() if not sign.doing]
    assert sorted(ended) == [(epoch, trial) for epoch in range(1, 41) for trial in (0, 1)]
    assert max(abs(ended.index((e, 0)) - ended.index((e, 1))) for e in (1, 2, 3)) <= 2
    first, second = (trial_run.outcome() for trial_run in running.trial_runs)
    assert first.epochs[-1].metrics == second.epochs[-1].metrics
    assert [part.steps for part in first.slices] == [part.steps for part in second.slices]
    assert sum(part.steps for part in first.slices) > 1
    assert first.environment["in_turns"] is second.environment["in_turns"] is True


def test_a_pruned_round_ends_all_its_trainings_after_the_same_epoch(trainers: TrainerPool) -> None:
    own: dict[str, Any] = {"epochs": 9_999, "measure": "full"}
    running = round_of(trainers, job_of("echo_memory:run", "numpy/one", "numpy/two", **own))
    for sign in running.run():
        if sign.done == 3:
            running.prune()
    outcomes = [trial_run.outcome() for trial_run in running.trial_runs]
    assert [outcome.status for outcome in outcomes] == ["pruned"] * 2
    assert len({len(outcome.epochs) for outcome in outcomes}) == 1


def test_trials_that_do_not_fit_into_memory_together_run_alone(
    trainers: TrainerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fullness() -> float:
        return 0.99 if len(trainers.warm) > 1 else 0.1

    monkeypatch.setattr(watchdog, "memory_share", fullness)
    arguments, own = ("echo_memory:run", "numpy/one", "numpy/two"), {"epochs": 400}
    for _ in range(2):
        outcomes = run_round(trainers, *arguments, measure="full", **own)
        assert [outcome.status for outcome in outcomes] == ["complete"] * 2
        assert [outcome.environment["in_turns"] for outcome in outcomes] == [False] * 2
    assert len(trainers.too_large_together) == 1, "the second round did not try"


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
    ("disturbed", "set_aside"), [({1, 2, 6}, [1, 2, 6]), ({0, 1, 2, 3, 4}, []), (set(), [])]
)
def test_turns_that_others_disturbed_are_set_aside_as_long_as_eight_remain(
    trainers: TrainerPool,
    monkeypatch: pytest.MonkeyPatch,
    disturbed: Collection[int],
    set_aside: list[int],
) -> None:
    looked = itertools.count()

    class ScriptedMeter:
        def __init__(self, pids: Sequence[int]) -> None:
            assert len(pids) == 2

        def start(self) -> None:
            pass

        def taken(self) -> Taken:
            return Taken(0.8 if next(looked) in disturbed else 0.1, 0.0, 2.0)

    monkeypatch.setattr(telemetry, "OthersMeter", ScriptedMeter)
    monkeypatch.setattr("orchestrator.execution.round._SHORT_S", -1.0)
    timing = Timing(interval=0.001, least=12, most=12, slice_s=0.01)
    for outcome in run_round(trainers, "steady", "none/one", "none/two", timing=timing, spread=0.3):
        assert [place for place, part in enumerate(outcome.slices) if part.set_aside] == set_aside
        counted = [part for part in outcome.slices if not part.set_aside]
        assert outcome.metrics["step_ms"] == pytest.approx(1_000 * step_seconds(counted))
        others = {0: 5.0, 3: 5.0, 5: 100 * (5 * 0.8 + 7 * 0.1) / 24}
        busy = others[len(disturbed)]
        assert outcome.metrics["others_cpu_pct"] == pytest.approx(busy)


@pytest.mark.parametrize(("shared", "set_aside"), [(9, (9, 10, 11)), (7, ())])
def test_turns_after_the_end_of_another_training_do_not_count_if_eight_remain(
    trainers: TrainerPool, shared: int, set_aside: tuple[int, ...]
) -> None:
    own_model = "mine:build with mine:load"
    running = round_of(trainers, job_of(own_model, "torch/auto", "torch/fused", measure="full"))
    stopped, longer = running._trials
    for trial, turns in ((stopped, shared), (longer, 12)):
        trial.slices = dict.fromkeys(range(turns), SliceDone(1, 0.1))
        trial.trial_run.slices = [*trial.slices.values()]
    assert running._finish_command(longer).set_aside == set_aside
    assert running._finish_command(stopped).set_aside == ()


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
    os.kill(trainers.warm["none/two", "cpu", None].pid, signal.SIGKILL)
    list(signs)
    one, two = (trial_run.outcome() for trial_run in running.trial_runs)
    assert (one.status, one.metrics["slices"]) == ("complete", 12)
    assert two.failure is not None
    assert two.failure.reason == "crash"


def test_the_trainers_of_a_round_are_replaced_once_their_starts_are_a_twentieth_of_their_lives(
    trainers: TrainerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, age_s = ("none/one", "none/slow"), 119.0
    monkeypatch.setattr(TrainerProcess, "age_s", property(lambda _: age_s))

    def trials_before() -> list[int]:
        for trainer in trainers.warm.values():
            trainer.trials, trainer.start_s = 3, 3.0
        return [outcome.trainer_trials for outcome in run_round(trainers, "steady", *names)]

    run_round(trainers, "steady", *names)
    assert trials_before() == [3, 3]  # both starts took 6 s
    age_s = 120.0
    assert trials_before() == [0, 0]


@pytest.mark.full
def test_fresh_trainers_import_their_frameworks_before_any_loads_its_data(
    trainers: TrainerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported_s, loading_s = list[float](), list[float]()

    class Noting(TrialRun):
        def note_event(self, event: Event) -> None:
            if isinstance(event, PhaseEnded) and event.phase == "import":
                imported_s.append(event.at_s)
            if isinstance(event, PhaseBegan) and event.phase == "load":
                loading_s.append(event.at_s)
            super().note_event(event)

    monkeypatch.setattr("orchestrator.execution.round.TrialRun", Noting)
    settings = {"dataset": "digits", "units": 4, "batch_size": 32}
    trials = tuple(
        RoundTrial(TrialRequest("image_rows", name, settings, measure="timing"))
        for name in ("tensorflow/portable", "tensorflow/portable+unroll")
    )
    job = replace(build_job("noop"), trials=trials, timing=QUICK)
    for imports in (2, 0):  # warm trainers have it
        imported_s.clear()
        loading_s.clear()
        running = round_of(trainers, job)
        list(running.run())
        assert [trial_run.outcome().status for trial_run in running.trial_runs] == ["complete"] * 2
        assert (len(imported_s), len(loading_s)) == (imports, 2)
        assert max(imported_s, default=0.0) < min(loading_s)
