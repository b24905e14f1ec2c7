"""A start of a sweep through its phases, with doubles of Ray and of the store."""

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from orchestrator.cluster.busy_nodes import StillBusy
from orchestrator.cluster.membership import NodeRequest
from orchestrator.core.stop_signal import Stopped, StopSignal
from orchestrator.core.trial import FinishedTrial
from orchestrator.hardware import Node, OtherProcesses, classify
from orchestrator.planning.plan import Plan, UnusableGpu, make_plan
from orchestrator.scheduling.recovery import Recovery
from orchestrator.scheduling.remaining import make_opening
from orchestrator.scheduling.runnable import NothingToRun
from orchestrator.scheduling.study import STUDY_FILE
from orchestrator.scheduling.sweep import RunOptions, RunResult, run_checked_sweep
from orchestrator.scheduling.watcher import Watcher
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import read
from orchestrator.storage.tracking.stored_records import Manifest, SweepOpening
from orchestrator.storage.tracking.tracking_errors import LeaseHeld, TrackingError
from tests.building.hardware import build_node
from tests.building.records import build_paired_record, build_record
from tests.building.specs import USER_WORKLOAD, build_spec
from tests.building.trials import build_failed_outcome, build_outcome, change_trial
from workloads.failures import DataError

BASE = {**USER_WORKLOAD, "name": "sweep", "implementations": ["python/a", "python/b"]}
BUILT_IN = {"name": "sweep", "implementations": ["tensorflow/portable", "tensorflow/auto"]}
BOTH = build_spec(BASE, hardware=["cpu", "gpu"])
HERE = build_node("a")
MODULE = "orchestrator.scheduling.sweep"


class Declined(Exception):
    """The user declined, or the test has seen enough."""


class Store:
    trouble: Exception | None = None
    waiting, lease_age_s = 0, None
    refused = {"key": "too long"}  # noqa: RUF012

    def __init__(self, stored_sweep: Manifest | None = None) -> None:
        self.stored_sweep = stored_sweep
        self.openings: list[Manifest] = []
        self.sweep_id = ""
        self.finished: dict[str, FinishedTrial] = {}
        self.drain, self.close, self.log_model = mock.Mock(), mock.Mock(), mock.Mock()
        self.read = mock.Mock(return_value=build_paired_record(2))

    def find(self, name: str, *, fresh: bool) -> tuple[int, Manifest | None, str]:
        assert name == "sweep"
        latest = self.stored_sweep.identity.generation if self.stored_sweep else 0
        return latest, None if fresh else self.stored_sweep, "" if fresh else self.sweep_id

    def open(
        self, opening: SweepOpening, had: Mapping[str, float] = MappingProxyType({})
    ) -> tuple[list[FinishedTrial], list[str]]:
        self.sweep_id, self.stored_sweep = opening.sweep_id, opening.manifest
        self.openings.append(opening.manifest)
        newer = [trial for key, trial in self.finished.items() if key not in had]
        return newer, [key for key in had if key not in self.finished]

    def queue_trial(self, finished: FinishedTrial) -> None:
        self.finished[finished.key] = finished


Run = Callable[..., RunResult]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    def run(
        spec: SweepSpec,
        store: Store,
        *,
        confirm: Callable[[Plan, int], None] = lambda plan, missing: None,
        view: Callable[[Plan], Watcher] = Watcher,
        trials: Callable[..., None] | None = None,
        looks: Sequence[float] = (0.0,),
        nodes: Sequence[Node] = (HERE,),
        study: Callable[..., None] = lambda *_: None,
        **options: Any,
    ) -> RunResult:
        """Start a sweep; `looks` are what others take of the CPUs at each look, in percent."""
        seen = iter([OtherProcesses(look, 0.0, {"clang": look}) for look in looks])
        monkeypatch.setattr(f"{MODULE}.Look", lambda: mock.Mock(result=lambda: next(seen)))
        monkeypatch.setattr(f"{MODULE}.observe_other_processes", lambda: next(seen))
        monkeypatch.setattr(f"{MODULE}.observe_nodes", lambda nodes: {"a": next(seen)})
        monkeypatch.setattr(f"{MODULE}.write_study", study)
        monkeypatch.setattr(f"{MODULE}.Recorder", lambda *_: contextlib.nullcontext(store))
        monkeypatch.setattr("orchestrator.cluster.connection.this_machine", lambda: (HERE,))
        joined = contextlib.nullcontext(nodes)
        monkeypatch.setattr("orchestrator.cluster.connection.connect", lambda *_, **__: joined)
        monkeypatch.setattr("orchestrator.scheduling.tune_loop.run_trials", trials)
        stop = StopSignal(lambda: None)
        chosen = RunOptions(tmp_path, "sqlite://", **options)
        with stop:
            return run_checked_sweep(spec, chosen, stop=stop, view=view, announce=confirm)

    return run


def finish(count: int, error: BaseException | None = None) -> Callable[..., None]:
    """Return what runs rounds until so many trials have ended, and then raises the error."""

    def run_trials(recovery: Recovery, folder: Path, path: Any, check: Callable[[], None]) -> None:
        session = recovery.session
        while len(session.dispatcher.ledger.finished) < count:
            check()
            assignment = session.assign()
            assert assignment is not None
            session.finish(assignment, *(build_outcome() for _ in assignment.trials))
        if error is not None:
            raise error

    return run_trials


def run_to_the_end(run: Run, store: Store) -> RunResult:
    """Run the first generation of a sweep of six trials, in one start."""
    return run(build_spec(BASE), store, trials=finish(6))


def test_a_busy_machine_is_told_of_before_anything_runs(
    run: Run,
) -> None:
    views: list[Watcher] = []

    def view(plan: Plan) -> Watcher:
        views.append(Watcher(plan))
        return views[-1]

    for load in (74.0, 3.0):
        told = list[str]()
        run(
            build_spec(BASE),
            Store(),
            trials=finish(6),
            view=view,
            looks=[load],
            fresh=True,
            phase=told.append,
        )
        busy = [text for text in told if "74 %" in text]
        assert [told.index(text) < told.index("Starting Ray") for text in busy] == (
            [True] if load > 15 else []
        )
    assert [view.busy is not None for view in views] == [True, False]


def test_a_start_waits_for_a_quiet_machine_or_gives_up_before_anything_runs(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.cluster.busy_nodes._BETWEEN_LOOKS_S", 0.0)
    options: dict[str, Any] = {"trials": finish(6)}
    run(build_spec(BASE), Store(), looks=[74.0, 60.0, 2.0, 2.0], wait_quiet_s=600.0, **options)
    store = Store()
    with pytest.raises(StillBusy, match="clang takes 80 %"):
        run(build_spec(BASE), store, fresh=True, looks=[74.0, 80.0], wait_quiet_s=0.0, **options)
    assert not store.finished


def test_a_study_that_cannot_be_written_is_a_warning(run: Run) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    result = run(build_spec(BASE), Store(), trials=finish(6), study=fail)
    (warning,) = result.warnings
    assert "study.db" in warning and "No space left" in warning
    assert result.record.state == "complete"


def test_the_study_is_written_where_it_is_missing_or_trials_have_run(run: Run) -> None:
    written = list[Path]()

    def study(folder: Path, *_: Any) -> None:
        (folder / STUDY_FILE).touch()
        written.append(folder / STUDY_FILE)

    store = Store()
    for repeats, runs in ((1, True), (1, False), (2, True)):
        before = len(written)
        run(build_spec(BASE, repeats=repeats), store, trials=finish(6 * repeats), study=study)
        assert (len(written) > before) == runs
    written[-1].unlink()
    run(build_spec(BASE, repeats=2), store, study=study)
    assert len(written) == 3


def test_missing_data_are_refused_where_a_trial_would_need_them(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    run(build_spec(**BUILT_IN), store, trials=finish(6))

    def fail(*_: Any) -> None:
        raise DataError("no such file")

    monkeypatch.setattr("workloads.tasks.training_settings.expect_available", fail)
    run(build_spec(**BUILT_IN), store)  # nothing is missing
    with pytest.raises(NothingToRun, match="no such file"):
        run(build_spec(**BUILT_IN, repeats=9), store)
    run(build_spec(**BUILT_IN, repeats=9), store, trials=finish(0), address="auto")


def test_a_sweep_that_is_stopped_while_its_store_is_opened_announces_no_trials(run: Run) -> None:
    def interrupt(text: str) -> None:
        if text == "Opening MLflow":
            signal.raise_signal(signal.SIGINT)

    confirm = mock.Mock()
    with pytest.raises(Stopped):
        run(build_spec(BASE), Store(), phase=interrupt, confirm=confirm)
    assert not confirm.called


def test_a_resumed_sweep_runs_what_is_missing_and_records_what_the_store_lacks(run: Run) -> None:
    store, counted, confirm = Store(), mock.Mock(return_value=False), mock.Mock()
    run(build_spec(BASE), store, trials=finish(2, Stopped("the head is gone")))
    lost = next(iter(store.finished))
    del store.finished[lost]

    class View(Watcher):
        count_trial = counted

    result = run(build_spec(BASE), store, trials=finish(6), confirm=confirm, view=View)
    assert (result.stopped, result.record.state) == (None, "complete")
    assert [call.args[1] for call in confirm.call_args_list] == [4]
    assert (counted.call_count, len(store.finished)) == (6, 6)
    assert lost in store.finished
    assert [len(call.args[0]) for call in store.read.call_args_list] == [2, 6]
    state, reports, _ = store.close.call_args.args
    assert (state, len(reports)) == ("complete", 4)


def test_a_complete_sweep_runs_nothing_and_keeps_the_report_that_the_store_has(run: Run) -> None:
    store, confirm = Store(), mock.Mock()
    first = run_to_the_end(run, store)
    store.read.return_value = replace(
        build_paired_record(2), answered=store.close.call_args.args[2].source
    )
    second = run(build_spec(BASE), store, confirm=confirm, take_over=True)
    assert not confirm.called
    assert (first.summary is None, second.summary) == (False, None)
    assert store.close.call_args.args == ("complete", {}, None)
    assert [len(call.args[0]) for call in store.read.call_args_list] == [6, 6]


def test_a_fresh_generation_runs_every_trial_and_keeps_the_first(run: Run, tmp_path: Path) -> None:
    store, confirm = Store(), mock.Mock()
    run_to_the_end(run, store)
    sweep_ids = [store.sweep_id]
    store.finished.clear()
    run(build_spec(BASE), store, fresh=True, trials=finish(6), confirm=confirm)
    sweep_ids.append(store.sweep_id)
    assert [call.args[1] for call in confirm.call_args_list] == [6]
    folder = SweepFolder(tmp_path, "sweep")
    journals = [read(folder.generation(number)) for number in (1, 2)]
    for journal in journals:
        assert journal is not None and journal.ended is not None
        assert (len(journal.finished), journal.ended.state) == (6, "complete")
    assert [journal and journal.sweep_id for journal in journals] == sweep_ids
    assert all(sweep_ids) and len(set(sweep_ids)) == 2


def test_a_sweep_whose_folder_is_lost_goes_on_in_the_generation_of_the_store(
    run: Run, tmp_path: Path
) -> None:
    store = Store()
    run_to_the_end(run, store)
    run(build_spec(BASE), store, fresh=True, trials=finish(6))
    sweep_id = store.sweep_id
    folder = SweepFolder(tmp_path, "sweep").path
    folder.rename(folder.with_name("lost"))
    run_to_the_end(run, store)
    journal = read(folder / "2")
    assert journal is not None
    assert journal.sweep_id == sweep_id == store.sweep_id


def test_a_model_that_the_store_does_not_take_is_warned_of(run: Run, tmp_path: Path) -> None:
    trials = [
        change_trial(trial, key=key)
        for key, trial in zip("ab", build_paired_record(1).trials, strict=True)
    ]
    store, calls = Store(), mock.Mock()
    store.read.return_value = build_record(trials)
    run(build_spec(BASE), store, trials=finish(6))
    folder = SweepFolder(tmp_path, "sweep").generation(1) / "models"
    folder.mkdir()
    files = [folder / f"{trial.key}.tar" for trial in trials]
    for file in files:
        file.write_bytes(b"model")
    refusal = TrackingError("the store", "no model", "Update\nit")
    store.log_model.side_effect = [refusal, None, refusal]
    calls.attach_mock(store.close, "close")
    calls.attach_mock(store.log_model, "log_model")
    for _ in range(2):
        result = run(build_spec(BASE), store)
        (warning,) = result.warnings
        assert "Update it" in warning
        assert result.stopped is None and str(trials[0].arm) in warning and str(files[0]) in warning
    names = [name for name, *_ in calls.mock_calls]
    assert names == ["close", "log_model", "log_model", "close", "log_model"]
    logged = [call.args[:2] for call in store.log_model.call_args_list]
    assert logged == [(trials[at].run_id, files[at]) for at in (0, 1, 0)], "each one once"


def test_a_lost_lease_stops_a_sweep(run: Run) -> None:
    store = Store()
    store.trouble = LeaseHeld("sweep", "another host", 0.0)
    result = run(build_spec(BASE), store, trials=finish(1))
    assert result.stopped is not None
    assert result.stopped.reason == str(store.trouble)


def test_a_stopped_arm_is_no_longer_current(run: Run) -> None:
    def fail(recovery: Recovery, *_rest: Any) -> None:
        while not recovery.session.dispatcher.done:
            assignment = recovery.session.assign()
            assert assignment is not None
            outcomes = (
                build_failed_outcome()
                if trial.arm.implementation == "python/b"
                else build_outcome()
                for trial in assignment.trials
            )
            recovery.session.finish(assignment, *outcomes)

    store = Store()
    run(build_spec(BASE, limits={"failures": 2}), store, trials=fail)
    assert [len(opening.running) for opening in store.openings] == [2, 1]
    assert {len(opening.arms) for opening in store.openings} == {2}


def test_which_arms_a_sweep_has_changes_only_with_a_start_that_begins(run: Run) -> None:
    """The start before had a node with a GPU, and ran another implementation there."""
    laid = make_plan(BOTH, classify([HERE, build_node("b", gpus=1)]))
    store = Store(make_opening(BOTH, laid, resume.identify(BOTH, 1), None, begun=True).manifest)
    for confirm in (mock.Mock(side_effect=Declined), mock.Mock()):
        with pytest.raises(Declined):
            run(BOTH, store, confirm=confirm, view=mock.Mock(side_effect=Declined))
    ours = make_plan(BOTH, classify([HERE])).arms
    assert set(ours) < set(laid.arms)
    *declined, begun = store.openings
    assert {frozenset(opening.running) for opening in declined} == {frozenset(laid.arms)}
    assert begun.running == ours
    assert all(set(opening.arms) == set(laid.arms) for opening in store.openings)


def test_gpus_of_one_node_that_a_framework_cannot_use_are_told_once_when_the_trials_begin(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [build_node(name, cpus=4, gpus=1) for name in ("seen", "blind")]
    blind = [UnusableGpu("blind", "tensorflow", "it sees none")]
    monkeypatch.setattr(f"{MODULE}.ask_nodes", lambda *_, **__: blind)
    told = list[str]()
    with pytest.raises(Declined):
        run(
            build_spec(**BUILT_IN, hardware=["cpu", "gpu"]),
            Store(),
            nodes=nodes,
            view=lambda plan: contextlib.nullcontext(mock.Mock(warn=told.append)),
            trials=finish(0, Declined()),
            address="head:6379",
        )
    (line,) = [text for text in told if "it sees none" in text]
    assert line.startswith("node blind: tensorflow cannot use its GPUs")


@pytest.mark.parametrize("declines", [True, False])
def test_a_sweep_that_waits_is_confirmed_once_and_before_it_asks_for_nodes(
    run: Run, monkeypatch: pytest.MonkeyPatch, declines: bool
) -> None:
    waits = {"class": "*H200*", "labels": {"zone": "eu"}, "wait_s": 900}
    store, events = Store(), list[Any]()
    membership = SimpleNamespace(nodes=(HERE,), watching=contextlib.nullcontext)

    @contextlib.contextmanager
    def asked_for(requests: list[NodeRequest]) -> Iterator[None]:
        events.append(requests)
        yield

    monkeypatch.setattr(f"{MODULE}.Membership", lambda _: membership)
    monkeypatch.setattr(f"{MODULE}.wait_for_nodes", lambda *_, **__: membership.nodes)
    monkeypatch.setattr(f"{MODULE}.requested_nodes", asked_for)

    def confirm(plan: Plan, missing: int) -> None:
        assert missing == 6
        events.append("confirm")
        if declines:
            raise Declined

    def view(plan: Plan) -> Any:
        events.append(plan)
        return contextlib.nullcontext(mock.Mock(warn=events.append))

    with pytest.raises(Declined):
        run(
            build_spec(BASE, hardware=["cpu", waits]),
            store,
            confirm=confirm,
            view=view,
            trials=finish(0, Declined()),
            address="head:6379",
        )
    if declines:
        assert (events, len(store.openings)) == (["confirm"], 1)
        return
    asked, requests, plan, *warnings = events
    assert (asked, requests) == ("confirm", [({"CPU": 1.0, "GPU": 1.0}, {"zone": "eu"})])
    assert (len(plan.arms), len(plan.impossible)) == (2, 2)
    (warning,) = warnings  # both arms have one reason
    assert "came within 900 s" in warning
    assert all(str(late.arm) in warning for late in plan.impossible)
    _, begun = store.openings
    assert (begun.running, begun.impossible) == (plan.arms, plan.impossible)
