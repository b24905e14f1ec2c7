"""The thread of a driver that writes its heartbeat and rotates its logs."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.scheduling.pulse import Pulse
from orchestrator.storage import heartbeat, journal
from orchestrator.storage.heartbeat import read_heartbeat
from orchestrator.storage.home import SweepFolder
from tests.building.arms import PORTABLE
from tests.building.trials import IDENTITY, build_failed_trial, build_full_trial
from tests.commands import wait_for


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    made = SweepFolder(tmp_path, "quickstart")
    made.make()
    return made


def read(folder: SweepFolder) -> heartbeat.Heartbeat:
    found = read_heartbeat(folder.path)
    assert found is not None
    return found


def test_a_heartbeat_says_what_is_waited_for_and_what_has_ended(
    folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "PULSE_S", 0.05)
    recorder: Any = SimpleNamespace(trouble=OSError("away"), waiting=2, lease_age_s=3.5)
    shown = list[str]()
    log = folder.path / "recorder.log"
    with Pulse(folder, recorder, log) as pulse:
        pulse.noting(shown.append)("Opening MLflow")
        first = read(folder)
        assert (shown, first.waits_for, first.sweep) == (
            ["Opening MLflow"],
            "Opening MLflow",
            "quickstart",
        )
        assert (first.store_trouble, first.not_in_store, first.lease_age_s) == ("away", 2, 3.5)
        assert (first.last_trial_s, first.has_ended) == (None, False)
        assert first.disk_free_bytes > 0
        wait_for(lambda: read(folder).at_s > first.at_s)  # without any event
        assert read(folder).waits_since_s == first.waits_since_s
        with journal.Journal(folder.generation(2)) as pulse.journal:
            for record in (
                journal.SweepOpened(IDENTITY, {}),
                journal.SessionStarted(1.0, 1, "here", "0", 2, 1, [PORTABLE]),
                journal.TrialFinished(build_full_trial(0)),
                journal.TrialFinished(build_failed_trial(1)),
                journal.AttemptLost(2.0, ["a", "b"], 3.0),
            ):
                pulse.journal.append(record)
        pulse.waits_for("Running trials")
        then = read(folder)
        assert (then.trials_ended, then.trials_failed, then.lost_attempts) == (2, 1, 1)
        assert then.last_trial_s == max(build_full_trial(0).ended_s, build_failed_trial(1).ended_s)
    assert read(folder).has_ended


def test_a_heartbeat_that_cannot_be_written_is_told_once_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder: Any = SimpleNamespace(trouble=None, waiting=0, lease_age_s=None)
    nowhere = SweepFolder(tmp_path, "no folder")
    with (
        caplog.at_level(logging.WARNING, "rnnsweep"),
        Pulse(nowhere, recorder, nowhere.path / "recorder.log") as pulse,
    ):
        pulse.waits_for("Starting Ray")
        pulse.waits_for("Opening MLflow")
    assert len(caplog.records) == 1
