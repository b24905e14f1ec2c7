"""Starts of a sweep that has many trials: all are done, or as many again are asked for."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from orchestrator.storage.home import SweepFolder
from tests.benchmarks import rig
from tests.benchmarks.scaling import endurance


def measure(home: Path = endurance.HOME, trials: int = endurance.TRIALS) -> list[dict[str, Any]]:
    """Start the sweep of `endurance`, which runs if it has not, in processes of their own."""
    if len(endurance.ends_s(home)) != trials:
        endurance.measure(home, trials)
    spec = home.with_suffix(".yaml")
    spec.write_text(endurance.spec(trials))
    again_s = min(_seconds(home, "run", spec) for _ in range(3))
    status_s = min(_seconds(home, "status", endurance.NAME) for _ in range(3))
    spec.write_text(endurance.spec(2 * trials))
    journal = SweepFolder(home, endurance.NAME).generation(1) / "journal.jsonl"
    return [
        rig.figure("s to start again, all done", again_s, 10.0),
        rig.figure("s to the first trial, half done", _seconds(home, "run", spec, journal), 15.0),
        rig.figure("s of status", status_s, 1.0),
    ]


def _seconds(home: Path, command: str, argument: object, journal: Path | None = None) -> float:
    """Return how long a command takes, or until a trial is in the journal; then it is stopped."""
    environ = {**os.environ, "RNNSWEEP_HOME": str(home)}
    size = journal.stat().st_size if journal else 0
    words = [sys.executable, "-m", "orchestrator", command, str(argument)]
    began_s = time.monotonic()
    with subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if journal and b"trial_finished" in journal.read_bytes()[size:]:
                took_s = time.monotonic() - began_s
                process.send_signal(signal.SIGINT)
                process.wait()
                return took_s
            time.sleep(0.02)
    assert process.returncode == 0, words
    return time.monotonic() - began_s
