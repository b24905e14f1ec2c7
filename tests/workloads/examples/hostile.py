"""Workloads that misbehave, each in one way: what a sweep must survive. For tests and benchmarks.

Any implementation name will do, such as `none/noop`; importing this module costs nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

from workloads.context import Context
from workloads.failures import DataError, NotPossible

_MIB = 1024 * 1024


def noop(trial: Context) -> dict[str, float]:
    """Does nothing well: the floor of a trial's cost."""
    trial.epoch(0, 0.0, loss=0.0)
    return {"loss": 0.0, "step_ms": 1.0, "val_accuracy": 0.5}


def usable_cpus(trial: Context) -> dict[str, float]:
    """Tells how many CPUs its process may use."""
    return {"usable_cpus": float(len(os.sched_getaffinity(0)))}


def scores(trial: Context) -> dict[str, float]:
    """Metrics from the settings: `settings: {metrics: {val_accuracy: 0.9}, sleep_s: 0.1}`."""
    time.sleep(float(trial.settings.get("sleep_s", 0.0)))
    metrics = {name: float(value) for name, value in trial.settings.get("metrics", {}).items()}
    trial.epoch(0, 0.001, **metrics)
    return {"step_ms": 1.0, **metrics}


def keeps_texts(trial: Context) -> dict[str, float]:
    """Keeps texts: `settings: {texts: [[sample.txt, "To be"], …]}`."""
    for name, text in trial.settings["texts"]:
        trial.artifact(name, text)
    return {"loss": 0.0}


def raises(trial: Context) -> dict[str, float]:
    """Raises, with a cause."""
    try:
        return {"loss": 1 / int(trial.settings.get("zero", 0))}
    except ZeroDivisionError as error:
        raise RuntimeError("the workload broke") from error


def raises_in_phase(trial: Context) -> dict[str, float]:
    """Raises in the middle of a phase, which stays open."""
    with trial.phase("train"):
        raise RuntimeError("broke while training")


def not_possible(trial: Context) -> dict[str, float]:
    """Refuses these settings."""
    raise NotPossible("this needs hardware that nobody has")


def no_data(trial: Context) -> dict[str, float]:
    """Lacks its data."""
    raise DataError("the data is not here")


def exits(trial: Context) -> dict[str, float]:
    """Calls sys.exit."""
    sys.exit(7)


def interrupts(trial: Context) -> dict[str, float]:
    """Raises what Ctrl-C raises."""
    raise KeyboardInterrupt


def leaves(trial: Context) -> dict[str, float]:
    """Ends the process with a status, past every handler."""
    os._exit(int(trial.settings.get("status", 3)))


def segfaults(trial: Context) -> dict[str, float]:
    """Dies as a bad C extension does."""
    print("about to read address 0", flush=True)
    ctypes.string_at(0)
    return {}


def dies(trial: Context) -> dict[str, float]:
    """Dies of a signal: `settings: {signal: SIGKILL}`; SIGSEGV by default."""
    os.kill(os.getpid(), signal.Signals[str(trial.settings.get("signal", "SIGSEGV"))])
    time.sleep(60)
    return {}


def sleeps(trial: Context) -> dict[str, float]:
    """Hangs without using the CPU."""
    while True:
        time.sleep(3600)


def spins(trial: Context) -> dict[str, float]:
    """Hangs on a full CPU."""
    while True:
        pass


def sleeps_deaf(trial: Context) -> dict[str, float]:
    """Hangs, and ignores every signal that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return sleeps(trial)


def nan_epoch(trial: Context) -> dict[str, float]:
    """Its loss is NaN in the second epoch."""
    trial.epoch(0, 0.001, loss=1.0)
    trial.epoch(1, 0.001, loss=float("nan"))
    return {"loss": 0.0}


def nan_result(trial: Context) -> dict[str, float]:
    """Returns an infinite metric."""
    return {"loss": float("inf")}


def returns_nothing(trial: Context) -> dict[str, float]:
    """Forgets to return its metrics."""
    return None  # type: ignore[return-value]


def returns_words(trial: Context) -> dict[str, float]:
    """Returns a metric that is no number."""
    return {"loss": "low"}  # type: ignore[dict-item]


def eats_memory(trial: Context) -> dict[str, float]:
    """Takes memory and touches it, up to `settings: {mib: 4096}`, 64 MiB at a time."""
    eaten = []
    for _ in range(0, int(trial.settings.get("mib", 4096)), 64):
        eaten.append(bytearray(os.urandom(4096)) * (64 * _MIB // 4096))
        time.sleep(0.01)
    return {"eaten_mib": float(64 * len(eaten))}


def prints(trial: Context) -> dict[str, float]:
    """Writes to standard output in every way there is, and reads standard input."""
    print('{"event": "result", "metrics": {"loss": 666}}', flush=True)
    os.write(1, b"from the file descriptor\n")
    ctypes.CDLL(None).puts(b"from C")
    os.system("echo from a child process")
    return {"read_bytes": float(len(sys.stdin.read()))}


def chatters(trial: Context) -> dict[str, float]:
    """Prints more than any pipe holds: `settings: {mib: 8}`."""
    for _ in range(int(trial.settings.get("mib", 8))):
        print("x" * _MIB)
    return {"loss": 0.0}


def threads(trial: Context) -> dict[str, float]:
    """Leaves a thread behind that works on, and reports from several threads at once."""
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
    """Runs another kernel than it was asked for."""
    trial.kernel(asked=trial.implementation.kernel, ran="portable", evidence="as it reports itself")
    return {"loss": 0.0, "step_ms": 1.0}


def late_thread(trial: Context) -> dict[str, float]:
    """Leaves a thread behind that reports after the trial is over."""
    threading.Timer(0.1, trial.epoch, args=(99, 1.0), kwargs={"loss": 1.0}).start()
    return {"loss": 0.0}


_kept: list[bytearray] = []


def keeps_memory(trial: Context) -> dict[str, float]:
    """Leaks: `settings: {mib: 100}` stay in the process after the trial."""
    _kept.append(bytearray(os.urandom(4096)) * (int(trial.settings["mib"]) * _MIB // 4096))
    return {"loss": 0.0}


def child_works(trial: Context) -> dict[str, float]:
    """Leaves the work to a child, and itself uses no CPU: `settings: {seconds: 3}`."""
    seconds = float(trial.settings["seconds"])
    work = f"import time; end = time.time() + {seconds}\nwhile time.time() < end: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
    return {"loss": 0.0}


def crashes_with_child(trial: Context) -> dict[str, float]:
    """Forks, and crashes while its child lives on and holds every pipe open."""
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def raises_odd_text(trial: Context) -> dict[str, float]:
    """Raises with text that is no Unicode, as file names can be."""
    raise ValueError("file \udcff is odd")
