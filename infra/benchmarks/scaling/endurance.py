"""Many trials that do nothing, through Ray Tune, trainers, journal and MLflow on SQLite.

The journal gives the pace. The whole ends when all is read back and the report is stored.
Then the sweep is started again: all of its trials are done, or as many again are asked for.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from infra.benchmarks import rig
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import read
from tests.building.specs import USER_WORKLOAD, build_spec_text

NAME, TRIALS = "endurance", 10_000
HOME = Path(tempfile.gettempdir(), "rnnsweep-endurance", "home")
_WARM = 100  # trials until all processes run


def spec(trials: int) -> str:
    return build_spec_text(
        USER_WORKLOAD,
        name=NAME,
        workload="tests.workloads.examples.hostile:noop",
        configs=trials // 2,
        space={"units": {"low": 1, "high": 1_000_000}},
        objectives={"val_accuracy": "maximize"},
        implementations=["python/one", "python/two"],
    )


def ends_s(home: Path) -> list[float]:
    """Return when the trials of the sweep ended, in their order."""
    state = read(SweepFolder(home, NAME).generation(1))
    return [] if state is None else [done.ended_s for done in state.finished.values()]


def measure(home: Path = HOME, trials: int = TRIALS) -> list[dict[str, Any]]:
    """Run the sweep in this process, in a new home that is kept for `restart`."""
    shutil.rmtree(home, ignore_errors=True)
    memory: list[tuple[float, int]] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.5):
            memory.append((time.time(), psutil.Process().memory_info().rss))

    threading.Thread(target=watch, daemon=True).start()
    ended, began_s = rig.run(spec(trials), home)
    whole_s = time.time() - began_s
    is_over.set()
    ends, tenth = ends_s(home), trials // 10
    assert len(ends) == len(ended.record.trials) == trials
    first_s, last_s = ends[_WARM + tenth] - ends[_WARM], ends[-1] - ends[-1 - tenth]
    before, after = np.interp([ends[tenth], ends[-1]], *np.transpose(memory))
    return [
        rig.figure("ms a trial, with its report", 1e3 * whole_s / trials, 35.0),
        rig.figure("ms a trial, first tenth", 1e3 * first_s / tenth),
        rig.figure("ms a trial, last tenth", 1e3 * last_s / tenth),
        rig.figure("last tenth ÷ first", last_s / first_s, 1.1),
        rig.figure("driver's kB a trial", (after - before) / 1e3 / (trials - tenth), 20.0),
    ]


def restart(home: Path = HOME, trials: int = TRIALS) -> list[dict[str, Any]]:
    """Start the sweep, which runs first if it has not, in processes of their own."""
    if len(ends_s(home)) != trials:
        measure(home, trials)
    file = home.with_suffix(".yaml")
    file.write_text(spec(trials))
    again_s = min(_seconds(home, "run", file) for _ in range(3))
    status_s = min(_seconds(home, "status", NAME) for _ in range(3))
    file.write_text(spec(2 * trials))
    journal = SweepFolder(home, NAME).generation(1) / "journal.jsonl"
    return [
        rig.figure("s to start again, all done", again_s, 10.0),
        rig.figure("s to the first trial, half done", _seconds(home, "run", file, journal), 15.0),
        rig.figure("s of status", status_s, 1.0),
    ]


def _seconds(home: Path, command: str, argument: object, journal: Path | None = None) -> float:
    """Return how long a command takes, or until a round is in the journal; then it is stopped."""
    environ = {**os.environ, "RNNSWEEP_HOME": str(home)}
    size = journal.stat().st_size if journal else 0
    words = [sys.executable, "-m", "orchestrator", command, str(argument)]
    began_s = time.monotonic()
    with subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if journal and b"round_finished" in journal.read_bytes()[size:]:
                took_s = time.monotonic() - began_s
                process.send_signal(signal.SIGINT)
                process.wait()
                return took_s
            time.sleep(0.02)
    assert process.returncode == 0, words
    return time.monotonic() - began_s
