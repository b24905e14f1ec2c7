"""The recorder: a process of its own, every trial exactly once, whatever dies or fails between."""

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
import pytest
from psutil import STATUS_ZOMBIE

from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.lock import Owner
from orchestrator.storage.private_files import NotOurs
from orchestrator.storage.tracking.recorder import Recorder, RecorderDied, RecorderProcess
from orchestrator.storage.tracking.recorder_calls import (
    CloseSweep,
    OpenSweep,
    RecorderCall,
    RecordTrials,
)
from orchestrator.storage.tracking.stored_records import LEASE, LEASE_TAG, Lease, record_of
from orchestrator.storage.tracking.trackers import open_tracker
from orchestrator.storage.tracking.tracking_errors import NotRecorded, StoreAway, TrackingError
from tests.building.arms import XLA
from tests.building.stores import build_opening
from tests.building.trials import build_failed_trial, build_full_trial
from tests.commands import wait_for
from tests.orchestrator.storage.tracking.recording import address, children

TRIALS = [build_full_trial(block) for block in range(24)]


def recorder(home: Path) -> Recorder:
    return Recorder(address(home), home, home / "recorder.log")


def recorded(home: Path) -> list[tuple[str, str]]:
    return [(run.tags["trial_key"], run.status) for run in children(home)]


def processes_of_recorder() -> list[psutil.Process]:
    children = psutil.Process().children()
    commands = {child: child.cmdline() for child in children if child.status() != STATUS_ZOMBIE}
    return [child for child in commands if "orchestrator.storage.tracking" in commands[child]]


def process_of_recorder() -> psutil.Process:
    (process,) = processes_of_recorder()
    return process


def test_a_recorder_that_cannot_start_says_why(home: Path) -> None:
    (home / "recorder.log").symlink_to(home / "victim")
    with recorder(home) as never_started:
        never_started._thread.join()
        with pytest.raises(NotOurs, match="symbolic link"):
            never_started.find("quickstart")


def pretend(monkeypatch: pytest.MonkeyPatch, answers: Callable[[RecorderCall[Any]], Any]) -> None:
    class Pretended(RecorderProcess):
        def start(self) -> Any:
            return None

        def ask(self, call: RecorderCall[Any]) -> Any:
            return answers(call)

    monkeypatch.setattr("orchestrator.storage.tracking.recorder.RecorderProcess", Pretended)


def expect_once(home: Path, trials: list[FinishedTrial]) -> None:
    status = {"failed": "failed"}
    expected = [(trial.key, status.get(trial.status, "finished")) for trial in trials]
    assert sorted(recorded(home)) == sorted(expected)


def test_trials_are_recorded_in_another_process_and_a_killed_one_doubles_none(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with recorder(home) as opened:
        assert opened.find("quickstart") == (0, None, "")
        assert opened.open(build_opening()) == ([], [])
        first = process_of_recorder()
        first.suspend()
        frozen = replace(TRIALS[0].trial, config=MappingProxyType(TRIALS[0].trial.config))
        saved = build_failed_trial(0, XLA, artifacts={"notes.txt": "long"})
        trials = [*TRIALS[1:], saved, replace(TRIALS[0], trial=frozen)]
        for trial in trials:
            opened.queue_trial(trial)  # it waits for nobody
        first.resume()
        wait_for(lambda: len(recorded(home)) >= 5)
        first.kill()
        opened.drain(300)
        assert opened.trouble is None
        had = {trial.key: trial for trial in trials}
        for process in processes_of_recorder():  # none, if the first had recorded all of them
            process.kill()  # the next one answers
        read = opened.read(had)
        records = {key: record_of(trial) for key, trial in had.items()}
        assert ({trial.key: trial for trial in read.trials}, read.state) == (records, "running")
        assert all(trial.run_id for trial in read.trials)
        opened.close("complete", {"report.md": "# done"})
        assert opened.read(had).state == "complete"
        second = process_of_recorder()
    assert not second.is_running()
    expect_once(home, [*TRIALS, build_failed_trial(0, XLA)])
    assert capfd.readouterr() == ("", "")


def test_a_recorder_that_hangs_at_its_end_is_killed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.storage.tracking.recorder._EXIT_LIMIT_S", 0.1)
    process = RecorderProcess(address(home), home, home / "recorder.log")
    ours, theirs = Pipe()
    theirs.close()
    with subprocess.Popen(["sleep", "600"]) as hanging:
        process._running = hanging, ours
        with pytest.raises(RecorderDied, match="exit status -9"):
            process.ask(RecordTrials(()))
    assert process._running is None, "the next call starts another one"


def test_what_a_store_that_is_down_lacks_is_recorded_later_except_what_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[FinishedTrial] = []
    told: list[str] = []
    is_down = threading.Event()
    is_down.set()

    def answer(call: RecorderCall[Any]) -> Any:
        if not isinstance(call, RecordTrials):
            return None
        if is_down.is_set():
            raise TrackingError("a store", "no answer", "Wait")
        recorded.extend(call.batch)
        return {trial.key: "no" for trial in call.batch if trial.block == 1}

    pretend(monkeypatch, answer)
    with recorder(tmp_path) as opened:
        opened.open(build_opening())
        for trial in TRIALS[:3]:
            opened.queue_trial(trial)
        with pytest.raises(NotRecorded, match=r"3 finished trials .*no answer\. Wait"):
            opened.drain(0.2, on_trouble=told.append)
        assert told == [str(opened.trouble)]
        assert isinstance(opened.trouble, TrackingError)
        is_down.clear()
        opened.close("complete", {})
        assert opened.trouble is None
    assert (recorded, opened.refused) == (TRIALS[:3], {TRIALS[1].key: "no"})


def test_a_store_that_is_away_for_a_moment_is_closed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Counter[type[RecorderCall[Any]]]()

    def answer(call: RecorderCall[Any]) -> None:
        asked[type(call)] += 1
        if isinstance(call, CloseSweep) and asked[CloseSweep] == 1:
            raise StoreAway("a store", "no answer", "Wait")

    pretend(monkeypatch, answer)
    with recorder(tmp_path) as opened:
        opened.open(build_opening())
        opened.close("complete", {})
        with pytest.raises(NotRecorded, match="no answer"):
            asked.clear()
            opened.close("complete", {}, timeout_s=0.5)
    assert asked[CloseSweep] == 1


def test_a_store_that_never_answers_holds_up_no_longer_than_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(call: RecorderCall[Any]) -> None:
        if not isinstance(call, OpenSweep):
            woken.wait()

    woken = threading.Event()
    pretend(monkeypatch, stuck)
    try:
        with recorder(tmp_path) as opened:  # which is left, too
            opened.open(build_opening())
            with pytest.raises(NotRecorded, match="no answer in 1 s"):
                opened.read({}, timeout_s=1.0)
            opened.queue_trial(TRIALS[0])
            with pytest.raises(NotRecorded, match="longer than 1 s"):
                opened.drain(1.0)
    finally:
        woken.set()


def test_a_slow_store_is_waited_for_as_long_as_it_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(call: RecorderCall[Any]) -> object:
        if not isinstance(call, RecordTrials):
            return None
        time.sleep(0.3)
        return {}

    pretend(monkeypatch, slow)
    monkeypatch.setattr("orchestrator.storage.tracking.recorder._BATCH", 1)
    with recorder(tmp_path) as opened:
        opened.open(build_opening())
        for trial in TRIALS[:12]:
            opened.queue_trial(trial)
        with pytest.raises(NotRecorded):
            opened.drain(0.5)
        opened.drain(2.0, patient=True)


def test_two_drivers_on_a_store_that_is_not_there_yet(tmp_path: Path) -> None:
    """One opens it; that it then breaks and leaves without closing loses nothing either."""
    owners = [Owner.here(), Owner.here(psutil.Process().ppid())]

    def drive(owner: Owner) -> None:
        with recorder(tmp_path) as opened:
            opened.open(build_opening(owner=owner))
            one_is_refused.wait(300)
            opened.queue_trial(TRIALS[0])
            raise KeyError("the driver broke")

    one_is_refused = threading.Event()
    with ThreadPoolExecutor() as pool:
        drives = [pool.submit(drive, owner) for owner in owners]
        wait_for(lambda: any(trial.done() for trial in drives))
        one_is_refused.set()
        errors = [trial.exception() for trial in drives]
    assert sorted(type(error).__name__ for error in errors) == ["KeyError", "LeaseHeld"]
    expect_once(tmp_path, TRIALS[:1])
    assert not (tmp_path / "mlflow.db").stat().st_mode & 0o077
    (parent,) = open_tracker(address(tmp_path)).sweep_runs()
    assert (parent.tags["state"], LEASE.load(parent.tags[LEASE_TAG], "")) == ("stopped", Lease())
