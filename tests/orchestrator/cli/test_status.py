"""How far sweeps are, read from journals; and `rnnsweep stop` on the machine they run on."""

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.local import describe_sweep, sweep_row, sweep_rows
from orchestrator.cli.output import quiet
from orchestrator.cli.progress import LiveView
from orchestrator.cli.stop import stop_local_sweep
from orchestrator.core.errors import Refusal
from orchestrator.hardware import classify
from orchestrator.storage import journal, lock
from orchestrator.storage.heartbeat import write_heartbeat
from orchestrator.storage.home import SweepFolder
from tests.building.arms import PORTABLE, XLA
from tests.building.hardware import build_node
from tests.building.scheduling import build_plan
from tests.building.trials import IDENTITY, build_failed_trial, build_full_trial
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.storage.test_heartbeat import BEAT


def started(home: Path, name: str) -> Path:
    """A sweep of which one arm and the third block were dropped; its journal's path."""
    with journal.Journal(SweepFolder(home, name).generation(1)) as opened:
        opened.append(journal.SweepOpened(IDENTITY, {}))
        for block in range(3):
            opened.append(journal.BlockSuggested(block, build_full_trial(block).trial.config, 0.0))
            for done in (
                build_full_trial(block),
                build_failed_trial(block, XLA),
                build_full_trial(block, repeat=1),
            ):
                opened.append(journal.TrialFinished(done))
        opened.append(journal.SessionStarted(0.0, 1, "here", "0", 2, 1, [PORTABLE]))
        opened.append(journal.SessionEnded(1.0, "complete"))
        return opened.path


def test_a_stray_file_and_a_corrupt_journal_hide_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only trials of the latest plan count."""
    started(tmp_path, "good")
    corrupt = started(tmp_path, "corrupt")
    corrupt.write_bytes(b"nonsense\n" + corrupt.read_bytes())
    (tmp_path / "sweeps" / ".DS_Store").touch()
    (row,) = sweep_rows(tmp_path)
    assert (row["sweep"], row["state"], row["kept_in"]) == ("quickstart", "complete", ["home"])
    assert (row["trials"]["ended"], row["trials"]["expected"]) == (2, 2)
    assert row["trials"]["outcomes"] == {"complete": 2}
    assert row["blocks"] == {"suggested": 2, "expected": 2}
    assert f"corrupt: cannot be read: {corrupt}, line 1" in capsys.readouterr().err
    with pytest.raises(journal.JournalError, match="line 1"):
        describe_sweep(tmp_path, "corrupt")


def test_what_has_not_begun_has_the_state_of_reports(tmp_path: Path) -> None:
    """A sweep that was opened, and stopped before its first trial, is `stopped` in its store."""
    folder = SweepFolder(tmp_path, "quickstart")
    with journal.Journal(folder.generation(1)) as opened:
        assert sweep_row(folder, 1)["state"] == "not started"
        opened.append(journal.SweepOpened(IDENTITY, {}))
    assert "stopped before it began" in describe_sweep(tmp_path, "quickstart")
    with folder.lock():
        assert sweep_row(folder, 1)["state"] == "starting"
    with journal.Journal(folder.generation(1)) as opened:
        opened.append(journal.SessionStarted(0.0, 1, "here", "0", 2, 1, [PORTABLE]))
    assert sweep_row(folder, 1)["state"] == "killed"


def test_a_running_sweep_shows_what_runs_since_when_and_the_time_left(tmp_path: Path) -> None:
    folder, now_s = SweepFolder(tmp_path, "quickstart"), time.time()
    with journal.Journal(folder.generation(1)) as opened:
        opened.append(journal.SweepOpened(IDENTITY, {}))
        opened.append(journal.SessionStarted(now_s - 600, 1, "here", "0", 6, 1, [PORTABLE]))
        for block in range(2):
            opened.append(journal.BlockSuggested(block, build_full_trial(block).config, now_s - 30))
            opened.append(journal.TrialFinished(build_full_trial(block, ended_s=now_s - 20)))
        opened.show_running([(now_s - 900, "of an earlier start"), (now_s - 120.4, "block 2")])
        assert "block 2" not in describe_sweep(tmp_path, "quickstart"), "no driver is alive"
        with folder.lock():
            text = describe_sweep(tmp_path, "quickstart")
            assert sweep_rows(tmp_path)[0]["state"] == "running"
        opened.append(journal.SessionEnded(now_s, "complete"))  # it had no more configs
        row = sweep_row(folder, 1)
        assert (row["state"], row["trials"]["expected"]) == ("complete", 2)
    assert "  runs block 2, for 2 min " in text and "earlier" not in text
    assert "  about 20 min 0 s left\n" in text, "four trials at the pace of two"


def test_the_log_of_a_sweep_has_each_trial_and_the_output_of_failed_ones(
    run: Run, home: Path
) -> None:
    folder = SweepFolder(home, "mine")
    folder.make()
    assert run("logs", "mine")[0] == run("logs", "other")[0] == 2
    trial = build_full_trial()
    with quiet(folder.log) as console:
        view = LiveView(console, build_plan(classify([build_node("a")])))
        view.round_finished([trial])
        view.round_finished([build_failed_trial()])
    code, out, _ = run("logs", "mine")
    first, second, third, *output = out.splitlines()
    assert code == 0 and "8.12 ms/step" in first and "FAILED (crash)" in second
    assert ("output" in third, output) == (True, ["last", "lines", ""])
    with journal.Journal(folder.generation(1)) as opened:
        for record in (journal.SweepOpened(IDENTITY, {}), journal.SessionEnded(1.0, "stopped")):
            opened.append(record)
        assert run("logs", "mine", "--follow")[:2] == (3, out)
        for code, done in enumerate(
            (build_full_trial(status="pruned"), build_full_trial(1, status="wrong_kernel"))
        ):
            opened.append(journal.TrialFinished(done))
            opened.append(journal.SessionEnded(2.0, "complete"))
            assert run("logs", "mine", "--follow")[:2] == (code, out)
    with folder.log.open("a") as file:
        file.write("\x1b[31mred\x1b[0m\n")  # as Ray writes
    assert run("logs", "mine")[1] == f"{out}\\x1b[31mred\\x1b[0m\n"


def test_status_is_data_for_machines(home: Path, run: Run) -> None:
    started(home, "quickstart")
    write_heartbeat(SweepFolder(home, "quickstart").path, BEAT)
    code, out, _ = run("status", "quickstart", "--format", "json")
    body = json.loads(out)
    (row,) = body["sweeps"]
    assert (code, body["format"], body["home"]) == (0, "rnnsweep-status", str(home))
    assert (row["sweep"], row["generation"], row["state"]) == ("quickstart", 1, "complete")
    assert (row["heartbeat"]["not_in_store"], row["driver"]) == (2, None)
    assert run("status", "--format", "json", "--address", "http://nowhere:8265")[0] == 2


def test_names_of_folders_have_no_control_characters(home: Path, run: Run) -> None:
    (home / "sweeps" / "a\x1b[2J\x07").mkdir(parents=True)
    assert "a\\x1b[2J\\x07" in run("status")[1]
    assert "a\\x1b[2J\\x07" in run("status", "other")[2]


DRIVER = """
import signal, sys, time
from pathlib import Path
from orchestrator.storage import lock

lock.take_lock(Path(sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("holds it", flush=True)
time.sleep(60)
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of the sweep `mine` until SIGTERM."""
    command = [sys.executable, "-c", DRIVER, str(SweepFolder(tmp_path, "mine").path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "holds it\n"
        yield process
        process.kill()


def test_the_driver_is_stopped(tmp_path: Path, driver: subprocess.Popen[str]) -> None:
    stop_local_sweep(tmp_path, "mine")
    assert driver.wait(60) == 3
    with pytest.raises(Refusal, match="'mine' is not running in"):
        stop_local_sweep(tmp_path, "mine")


@pytest.mark.parametrize("other", [{"machine": "another boot"}, {"started_s": 1.0}, None])
def test_nobody_else_is_signalled(
    tmp_path: Path, driver: subprocess.Popen[str], other: dict[str, Any] | None
) -> None:
    """Neither a driver of another machine or container, nor a process that has its id now."""
    file = SweepFolder(tmp_path, "mine").path / lock.LOCK_FILE
    if other is None:
        file.write_text("somebody")
    else:
        lock.write_owner(file, dataclasses.replace(lock.Owner.here(driver.pid), **other))
    with pytest.raises(Refusal, match="runs elsewhere"):
        stop_local_sweep(tmp_path, "mine")
    assert driver.poll() is None
