"""Trials out to Tune, outcomes back, and errors of ours that Tune must not swallow."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from ray import tune

from orchestrator.core.criteria import Timing
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import FailureRecord, Outcome, outcome_adapter
from orchestrator.execution.job import Job, JobProgress, job_adapter
from orchestrator.scheduling import tune_loop
from orchestrator.scheduling.tune_loop import BlockSearch, ErrorInTune, run_trials
from tests.building.sessions import SampleSession
from tests.building.specs import build_spec_text
from tests.orchestrator.scheduling.test_session import SPEC, THREE, TIMED

COMPLETE = Outcome("complete", 0.0, 1.0)
RUNS = {"progress": JobProgress(1)}


def result(*outcomes: Outcome) -> dict[str, Any]:
    texts = [outcome_adapter.dump_json(outcome).decode() for outcome in outcomes]
    return {"outcomes": texts}


def search_of(sample: SampleSession) -> BlockSearch:
    return BlockSearch(sample.recovery, ("/path",), lambda: None)


class PendingTrial(SimpleNamespace):
    """Tune's controller, with one trial whose worker has not started."""

    def __init__(self, search: BlockSearch, *, has_worker: bool) -> None:
        self.trial = SimpleNamespace(trial_id="a", status="PENDING")
        super().__init__(
            get_live_trials=lambda: [self.trial],
            stop_trial=lambda stopped: search.on_trial_complete(stopped.trial_id),
            _tune_controller=SimpleNamespace(  # without Ray's wrapper, which warns
                _trial_to_actor=SimpleNamespace(get=lambda _: "actor"),
                _actor_manager=SimpleNamespace(is_actor_started=lambda _: has_worker),
            ),
        )


def job_of(search: BlockSearch, trial_id: str = "a") -> Job:
    handed = search.suggest(trial_id)
    assert isinstance(handed, dict)
    assert (handed["node_id"], handed["bundle"]) == ("a", {"CPU": 2})
    return job_adapter.validate_json(handed["job"])


@pytest.fixture
def sample(tmp_path: Path) -> SampleSession:
    sample = SampleSession(tmp_path, SPEC)
    sample.present.answers = True
    return sample


@pytest.fixture
def search(sample: SampleSession) -> BlockSearch:
    return search_of(sample)


def test_an_actor_has_one_tune_trial_for_all_that_its_lane_runs(
    sample: SampleSession, search: BlockSearch
) -> None:
    actor = mock.Mock()
    handed: list[Any] = [search.suggest("a")]
    assert search.suggest("b") is None, "what waits for the lane is not Tune's"
    trial = SimpleNamespace(trial_id="a", temporary_state=SimpleNamespace(ray_actor=actor))
    steps = [
        tune_loop._Scheduler(search).on_trial_result(None, trial, result(COMPLETE))
        for _ in range(3)
    ]
    assert steps == ["CONTINUE", "CONTINUE", "STOP"]
    handed += [call.args[0] for call in actor.reset_config.remote.call_args_list]
    assert len({answer["job"] for answer in handed}) == len(sample.recorded) == 3
    search.on_trial_complete("a", result(COMPLETE))
    assert search.suggest("b") == BlockSearch.FINISHED


def test_a_tune_trial_ends_after_many_trials_and_its_lane_works_on(
    monkeypatch: pytest.MonkeyPatch, search: BlockSearch
) -> None:
    monkeypatch.setattr(tune_loop, "_TRIALS_PER_TUNE_TRIAL", 2)
    assert isinstance(search.suggest("a"), dict)
    assert isinstance(search.take_outcomes("a", result(COMPLETE)), dict)
    assert search.take_outcomes("a", result(COMPLETE)) is None
    assert isinstance(search.suggest("b"), dict)


def test_the_actor_is_asked_for_a_round_and_answers_with_all_of_it(tmp_path: Path) -> None:
    sample = SampleSession(tmp_path, TIMED)
    search = search_of(sample)
    job = job_of(search)
    assert job.timing == Timing(0.02, slice_s=0.5)
    asked = [trial.request for trial in job.trials]
    implementations = [request.implementation for request in asked]
    assert implementations[0] == "python/b", "the baseline is the one to compare with"
    assert sorted(implementations) == ["python/a", "python/b", "python/c"]
    assert {(request.measure, request.slice_s) for request in asked} == {("timing", 0.5)}
    assert all(request.settings == asked[0].settings for request in asked)
    failed = Outcome("failed", 1.0, 2.0, failure=FailureRecord("error", "no"))
    search.take_outcomes("a", result(COMPLETE, failed, COMPLETE))
    ended = [(trial.status, trial.arm.implementation) for trial in sample.recorded]
    assert ended == list(zip(["complete", "failed", "complete"], implementations, strict=True))


def test_a_round_that_waits_is_handed_out_without_an_arm_that_was_stopped(tmp_path: Path) -> None:
    sample = SampleSession(tmp_path, build_spec_text(THREE, measure="full", limits={"failures": 1}))
    search = search_of(sample)
    first = job_of(search)
    assert sample.dispatcher.out == 2, "one round waits"
    failed = Outcome("failed", 1.0, 2.0, failure=FailureRecord("error", "no"))
    following = search.take_outcomes("a", result(COMPLETE, failed, COMPLETE))
    assert following is not None
    second = job_adapter.validate_json(following["job"])
    implementations = [
        {trial.request.implementation for trial in job.trials} for job in (first, second)
    ]
    assert implementations[0] - implementations[1] == {first.trials[1].request.implementation}


def test_a_lost_worker_costs_its_trial_an_attempt(
    sample: SampleSession, search: BlockSearch
) -> None:
    """Tune tells of an error, or of an end with no more than the last progress of the job."""
    search.suggest("a")
    search.on_trial_complete("a", error=True)
    search.recovery.settle()
    search.suggest("a")  # the trial that waited
    search.on_trial_complete("a", RUNS)
    search.recovery.settle()
    assert len(sample.lines("attempt_lost")) == 2


def test_an_attempt_is_charged_from_when_it_has_left_tunes_queue(
    sample: SampleSession, search: BlockSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another sweep has the CPUs for an hour; then the trial runs for ten seconds, and is lost."""
    now_s = 1000.0
    monkeypatch.setattr(tune_loop, "time", mock.Mock(wraps=time, time=lambda: now_s))
    search.suggest("a")
    controller = PendingTrial(search, has_worker=False)
    now_s += 3600.0
    assert tune_loop._Scheduler(search).choose_trial_to_run(controller) is controller.trial
    now_s += 10.0
    search.on_trial_complete("a", error=True)
    search.recovery.settle()
    (lost,) = sample.lines("attempt_lost")
    assert lost["slot_s"] == pytest.approx(10.0)


def test_a_trial_that_tune_gives_back_costs_nothing(
    sample: SampleSession, search: BlockSearch
) -> None:
    for _ in range(4):
        assert job_of(search).attempt == 1
        search.on_trial_complete("a")
    assert sample.recorded == []


def test_an_error_of_ours_is_not_tunes_to_handle(
    sample: SampleSession, search: BlockSearch
) -> None:
    error = RuntimeError("the view broke")
    sample.view.job_progressed.side_effect = sample.view.round_finished.side_effect = error
    search.suggest("a")
    reported: Any
    for call, reported in (
        (search.take_progress, RUNS["progress"]),
        (search.take_outcomes, result(COMPLETE)),
    ):
        with pytest.raises(ErrorInTune, match="the view broke") as caught:
            call("a", reported)
        assert caught.value.args[0] is error
        assert not isinstance(caught.value, Exception)


def run(sample: SampleSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fit: Any) -> None:
    for name in ("TUNE_MAX_PENDING_TRIALS_PG", "RAY_AIR_NEW_OUTPUT"):
        monkeypatch.setenv(name, "1")  # they are set, for the process
    tuner = lambda search, folder: SimpleNamespace(fit=lambda: fit(search))  # noqa: E731
    monkeypatch.setattr(tune_loop, "_make_tuner", tuner)
    run_trials(sample.recovery, folder=tmp_path, python_path=(), check=lambda: None)


def test_a_lost_loop_charges_only_what_can_have_been_running(
    sample: SampleSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    attempts: list[int] = []

    def fit(search: BlockSearch) -> None:
        attempts.append(job_of(search).attempt)
        assert len(attempts) <= 3, "the sweep does not end"
        if len(attempts) < 3:
            raise tune.TuneError("the loop was lost")
        while search.take_outcomes("a", result(COMPLETE)):
            pass

    run(sample, monkeypatch, tmp_path, fit)
    assert attempts == [1, 2, 1], "the third one waited before"
    assert [finished.status for finished in sample.recorded] == ["failed", "complete", "complete"]


def test_an_error_with_nothing_out_ends_the_sweep(
    sample: SampleSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    error = tune.TuneError("the loop was lost")
    for raised in (error, ErrorInTune(error)):
        with pytest.raises(tune.TuneError, match="the loop was lost"):
            run(sample, monkeypatch, tmp_path, mock.Mock(side_effect=raised))


def test_a_loop_that_was_left_behind_goes_on_no_more(
    sample: SampleSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its head was given up, and came back while the sweep was recording what is done."""
    is_back, ended = threading.Event(), threading.Event()

    def fit(search: BlockSearch) -> None:
        search.check()
        is_back.wait(60)
        with pytest.raises(Stopped):
            search.check()
        ended.set()

    monkeypatch.setattr(tune_loop, "_LOOK_S", 0.01)
    for sample.now_s in range(26):
        sample.recovery.expect_head()
    sample.now_s, sample.present.silent_s = 26.0, 26.0
    with pytest.raises(Stopped, match="head of the Ray cluster has not answered"):
        run(sample, monkeypatch, tmp_path, fit)
    is_back.set()
    assert ended.wait(60)


def test_what_waits_for_a_node_without_a_lane_is_recalled(
    sample: SampleSession, search: BlockSearch
) -> None:
    job_of(search)
    sample.present.nodes = ()
    assert (sample.dispatcher.out, search.suggest("b"), sample.dispatcher.out) == (2, None, 1)
    trials = [SimpleNamespace(trial_id="a", status=status) for status in ("RUNNING", "PENDING")]
    stopped: list[Any] = []

    def stop(trial: Any) -> None:
        stopped.append(trial)
        search.on_trial_complete(trial.trial_id)

    controller = SimpleNamespace(get_live_trials=lambda: trials, stop_trial=stop)
    assert tune_loop._Scheduler(search).choose_trial_to_run(controller) is None
    assert (stopped, sample.dispatcher.out) == (trials[1:], 0)


def test_a_worker_that_does_not_start_ends_a_sweep_without_another_lane(
    sample: SampleSession, search: BlockSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_of(search)
    scheduler = tune_loop._Scheduler(search)
    waits, starts = (PendingTrial(search, has_worker=started) for started in (False, True))
    monkeypatch.setattr(tune_loop, "_LONGEST_START_S", -1.0)
    assert scheduler.choose_trial_to_run(waits) is not None, "another sweep may have its CPUs"
    with pytest.raises(Stopped, match="no Ray worker has started on"):
        scheduler.choose_trial_to_run(starts)
    sample.recovery.is_shared = False  # nobody else can have them
    with pytest.raises(Stopped):
        scheduler.choose_trial_to_run(waits)


def test_a_worker_that_does_not_start_counts_as_lost_where_another_lane_works(
    sample: SampleSession, search: BlockSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_of(search)
    lanes = sample.dispatcher.lanes
    monkeypatch.setattr(lanes, "queues", {**lanes.queues, "b": mock.Mock()})
    monkeypatch.setattr(tune_loop, "_LONGEST_START_S", -1.0)
    starts = PendingTrial(search, has_worker=True)
    assert tune_loop._Scheduler(search).choose_trial_to_run(starts) is None
    assert not search.out
    assert [lost.assignment.lane.node.id for lost in sample.recovery._unexplained] == ["a"]


def test_no_reporter_of_notebooks_clears_a_cells_output(
    search: BlockSearch, tmp_path: Path
) -> None:
    tuner = tune_loop._make_tuner(search, tmp_path)
    assert isinstance(tuner._local_tuner.get_run_config().progress_reporter, tune.CLIReporter)
