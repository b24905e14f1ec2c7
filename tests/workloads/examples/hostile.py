"""Workloads that misbehave, which a sweep must survive; they accept any implementation name."""

import ctypes
import os
import signal
import subprocess  # noqa: F401 - for the code that `runs` gets
import sys
import tempfile
import threading
import time
from pathlib import Path

from rnnsweep import Context
from workloads.failures import NotPossible

_MIB = 1024 * 1024


def runs(trial: Context) -> dict[str, float]:
    """Run the Python code in `settings.code`, and return its variable `metrics`."""
    names = {**globals(), "trial": trial, "metrics": {"loss": 0.0}}
    exec(trial.settings["code"], names)
    return names["metrics"]


def noop(trial: Context) -> dict[str, float]:
    trial.epoch(0, 0.0, loss=0.0)
    return {"loss": 0.0, "step_ms": 1.0, "val_accuracy": 0.5}


def keeps_model(trial: Context) -> dict[str, float]:
    if "mib" in trial.settings:
        with tempfile.TemporaryDirectory() as folder:
            with Path(folder, "weights").open("wb") as file:
                file.truncate(int(trial.settings["mib"]) * _MIB)
            trial.checkpoint(folder)
    return {"loss": 0.0}


def raises(trial: Context) -> dict[str, float]:
    try:
        return {"loss": 1 / int(trial.settings.get("zero", 0))}
    except ZeroDivisionError as error:
        raise RuntimeError("the workload broke") from error


def not_possible(trial: Context) -> dict[str, float]:
    raise NotPossible("this needs hardware that nobody has")


def interrupts(trial: Context) -> dict[str, float]:
    raise KeyboardInterrupt


def segfaults(trial: Context) -> dict[str, float]:
    print("about to read address 0", flush=True)
    ctypes.string_at(0)
    return {}


def sleeps(trial: Context) -> dict[str, float]:
    while True:
        time.sleep(3600)


def spins(trial: Context) -> dict[str, float]:
    while True:
        pass


def sleeps_deaf(trial: Context) -> dict[str, float]:
    """Hang, and ignore every signal that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return sleeps(trial)


def prints(trial: Context) -> dict[str, float]:
    """Write to standard output in every possible way, and read standard input."""
    print('{"event": "result", "metrics": {"loss": 666}}', flush=True)
    os.write(1, b"from the file descriptor\n")
    ctypes.CDLL(None).puts(b"from C")
    os.system("echo from a child process")
    return {"read_bytes": float(len(sys.stdin.read()))}


def threads(trial: Context) -> dict[str, float]:
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    reporters = [
        threading.Thread(target=trial.epoch, args=(index, 0.001), kwargs={"loss": float(index)})
        for index in range(32)
    ]
    for reporter in reporters:
        reporter.start()
    for reporter in reporters:
        reporter.join()
    return {"loss": 0.0}


def other_kernel(trial: Context) -> dict[str, float]:
    trial.kernel(asked=trial.implementation.kernel, ran="portable", evidence="as it reports itself")
    return {"loss": 0.0, "step_ms": 1.0}


_kept: list[bytearray] = []


def keeps_memory(trial: Context) -> dict[str, float]:
    """Leak memory: `settings: {mib: 100}` stay in the process after the trial."""
    _kept.append(bytearray(os.urandom(4096)) * (int(trial.settings["mib"]) * _MIB // 4096))
    return {"loss": 0.0}


def leaves_daemon(trial: Context) -> dict[str, float]:
    """Start a daemon with its own session, whose process id goes to `file`; hang if asked to."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(trial.settings["file"]).write_text(str(os.getpid()), "ascii")
            time.sleep(3600)
        os._exit(0)
    os.wait()
    return sleeps_deaf(trial) if trial.settings.get("hangs") else noop(trial)
