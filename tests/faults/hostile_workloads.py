"""Workloads that go wrong as users' workloads do, and what becomes of their trials."""

import os
import textwrap
from dataclasses import dataclass
from typing import Literal

from orchestrator.execution.job import TrialLimits


@dataclass(frozen=True, kw_only=True)
class HostileWorkload:
    """The code of a workload, and what becomes of its trial and of the next one.

    `ends` is `complete`, `wrong_kernel`, or the reason of the failure, whose message has `message`
    in it (`{host}` is this machine). The next trial runs in the same trainer process, in a new one,
    or in any.
    """

    does: str
    code: str
    ends: str
    message: str = ""
    next_trainer: Literal["same", "new", "any"] = "same"
    limits: TrialLimits | None = None

    @property
    def program(self) -> str:
        """The code, without the indentation that it has here."""
        return textwrap.dedent(self.code)


LEFT_PROGRAM = ["sleep", f"3598.{os.getpid()}"]
"""A program that a workload leaves; other processes of the tests may leave theirs at that time."""

HOSTILE_WORKLOADS = [
    HostileWorkload(
        does="raises odd text",
        code='raise ValueError("file \\udcff is odd")',
        ends="error",
        message="is odd",
    ),
    HostileWorkload(
        does="raises a megabyte", code='raise ValueError("y" * 10**6)', ends="error", message="yyyy"
    ),
    HostileWorkload(
        does="raises control characters",
        code='raise ValueError("\\x1b[2J\\x07 \\x00")',
        ends="error",
        message="\\x1b[2J",
    ),
    HostileWorkload(
        does="has no data",
        code='from workloads.failures import DataError; raise DataError("not here")',
        ends="data",
        message="node {host}: ",
    ),
    HostileWorkload(does="exits", code="sys.exit(7)", ends="error", message="SystemExit"),
    HostileWorkload(
        does="reads address 0",
        code="ctypes.string_at(0)",
        ends="crash",
        message="SIGSEGV",
        next_trainer="new",
    ),
    HostileWorkload(
        does="ends its group",
        code="os.killpg(0, signal.SIGTERM); time.sleep(9)",
        ends="crash",
        message="was killed by SIG",
        next_trainer="new",
    ),
    HostileWorkload(
        does="is deaf and hangs",
        code="""
            for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)
            time.sleep(60)
        """,
        ends="hung",
        message="limits.idle_s",
        next_trainer="new",
        limits=TrialLimits(trial_s=60, idle_s=1),
    ),
    HostileWorkload(
        does="spins",
        code="while True: pass",
        ends="time_limit",
        message="limits.trial_s",
        next_trainer="new",
        limits=TrialLimits(trial_s=4, idle_s=2),
    ),
    HostileWorkload(
        does="eats memory",
        code="""
            eaten = []
            while True: eaten.append(b"x" * 2**26); time.sleep(0.05)
        """,
        ends="out_of_memory",
        message="600",
        next_trainer="new",
        limits=TrialLimits(trial_s=120, idle_s=60, memory_mib=600),
    ),
    HostileWorkload(
        does="crashes and leaves a child",
        code="""
            if os.fork() == 0:
                time.sleep(20); os._exit(0)
            os.kill(os.getpid(), signal.SIGSEGV)
        """,
        ends="crash",
        message="SIGSEGV",
        next_trainer="new",
    ),
    HostileWorkload(
        does="returns in a child as well",
        code="""
            if os.fork() == 0:
                time.sleep(9); trial.epoch(0, 0.1, loss=666.0)
        """,
        ends="complete",
        next_trainer="new",
    ),
    HostileWorkload(
        does="leaves a program",
        code=f"subprocess.Popen({LEFT_PROGRAM}, start_new_session=True)",
        ends="complete",
        next_trainer="new",
    ),
    HostileWorkload(
        does="leaves a thread",
        code="threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        ends="complete",
    ),
    HostileWorkload(
        does="reports late",
        code='threading.Timer(0.1, trial.epoch, (99, 1.0), {"loss": 1.0}).start()',
        ends="complete",
    ),
    HostileWorkload(
        does="closes all files", code="os.closerange(3, 100)", ends="crash", next_trainer="new"
    ),
    HostileWorkload(
        does="leaves as many files open as it can",
        code="""
            import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))
            while True: os.open("/dev/null", 0)
        """,
        ends="error",
        message="Too many open files",
        next_trainer="new",
    ),
    HostileWorkload(
        does="floods its output", code='for _ in range(40): print("x" * 10**6)', ends="complete"
    ),
    HostileWorkload(
        does="writes no text",
        code='os.write(2, bytes(range(256)) * 999); raise ValueError("bytes")',
        ends="error",
        message="bytes",
    ),
    HostileWorkload(
        does="removes its folder",
        code="folder = tempfile.mkdtemp(); os.chdir(folder); os.rmdir(folder)",
        ends="complete",
    ),
    HostileWorkload(
        does="returns NaN",
        code='metrics = {"loss": float("nan")}',
        ends="non_finite",
        message="loss is nan",
    ),
    HostileWorkload(
        does="returns the largest number",
        code='metrics = {"loss": 1.7e308, "step_ms": 1e-320}',
        ends="complete",
    ),
    HostileWorkload(
        does="returns a text",
        code='metrics = {"loss": "0.5"}',
        ends="error",
        message="the metric 'loss' is not a number",
    ),
    HostileWorkload(
        does="returns nothing",
        code="metrics = None",
        ends="error",
        message="mapping of metric names",
    ),
    HostileWorkload(
        does="names metrics by no texts",
        code='metrics = {None: 1.0, 2: 2.0, "../../x": 4.0, "a\\nb\\x1b[31m": 5.0}',
        ends="complete",
    ),
    HostileWorkload(
        does="returns 100,000 metrics",
        code='metrics = {f"m{i}": 1.0 for i in range(100_000)}',
        ends="error",
        message="100,000 names, and a trial can have 5,000",
    ),
    HostileWorkload(
        does="reports other metrics in each epoch",
        code="""
            for i in range(100): trial.epoch(i, 0.1, **{f"m{i}.{j}": 1.0 for j in range(100)})
        """,
        ends="error",
        message="5,100 names, and a trial can have 5,000",
    ),
    HostileWorkload(
        does="has two long names of one beginning",
        code='metrics = {"a" * 300 + end: 1.0 for end in "xy"}',
        ends="protocol",
        message="under one name",
        next_trainer="new",
    ),
    HostileWorkload(
        does="has an epoch without a time",
        code='trial.epoch(0, float("nan"), loss=1.0)',
        ends="error",
        message="JSON",
    ),
    HostileWorkload(
        does="proves another kernel at length",
        code='trial.kernel(asked="a", ran="b", evidence="x" * 10**6)',
        ends="wrong_kernel",
    ),
    HostileWorkload(
        does="has two names that MLflow mixes up",
        code='metrics = {"a?b": 1.0, "a!b": 2.0}',
        ends="protocol",
        message="'a?b' and 'a!b'",
        next_trainer="new",
    ),
]
