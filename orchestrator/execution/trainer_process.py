"""A trainer process: start it, send it requests, read its events, end it.

It is `python -P -m workloads`, under a reaper of its own. It dies, with all that it started, with
the thread that spawned it (the kernel's parent-death signal) or at the end of its standard input,
whichever comes first.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import psutil

from orchestrator.core.version import import_path
from orchestrator.hardware.gpu_readers import hiding_environment
from workloads import protocol
from workloads.implementations import Implementation
from workloads.process import environment_for

_TAIL_BYTES = 4000
_MOST_BYTES = 16 * 2**20
"""The size at which the file of the output is emptied, so that a trial cannot fill the disk."""

_FREE_FILES = 64
"""The fewest files that a process must be able to open for another trial."""

_DRAIN_S = 0.5
_LONGEST_START_S, _LONGEST_END_S = 300.0, 60.0
"""How long a process may take until it is a trainer, and until the kernel has ended it."""


class TrainerGone(RuntimeError):
    """The trainer process has ended; `returncode` is as of `subprocess` (negative: a signal)."""

    def __init__(self, returncode: int) -> None:
        names = {-number.value: number.name for number in signal.Signals}
        ended = f"ended with exit status {returncode}"
        if returncode < 0:
            ended = f"was killed by {names.get(returncode, f'signal {-returncode}')}"
        super().__init__(f"the trainer process {ended}")
        self.returncode = returncode


class TrainerProcess(contextlib.AbstractContextManager["TrainerProcess"]):
    """One trainer process, kept warm between trials of one backend and device.

    `cpus` are the only ones that it may use; None for all that this process may. Users' own
    workloads in the folders `python_path` are imported where no installed package has their name.
    """

    def __init__(
        self,
        implementation: Implementation,
        device: protocol.Device,
        *,
        cpus: tuple[int, ...] | None = None,
        python_path: Sequence[str] = (),
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.trials = 0
        self.cpus = cpus
        self.start_s = 0.0
        self._began_s = time.monotonic()
        self._output = tempfile.TemporaryFile("w+b")  # noqa: SIM115  (closed in close())
        with confined(cpus):
            self._process = subprocess.Popen(
                trainer_command(python_path, "--die-with-parent", str(os.getpid())),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._output,
                env=trainer_environment(implementation, device, environ),
                start_new_session=True,  # Ctrl-C in the terminal is the driver's to handle
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        self._handle = self._reaper = psutil.Process(self._process.pid)
        until_s = time.monotonic() + _LONGEST_START_S
        while self.alive and self._handle is self._reaper:
            if time.monotonic() > until_s:  # a network file system that does not answer, say
                self.kill()
                raise TimeoutError(f"it did not start within {_LONGEST_START_S:.0f} seconds")
            time.sleep(0.01)
            with contextlib.suppress(psutil.Error, IndexError):  # not forked yet
                self._handle = self._reaper.children()[0]
        self._events: queue.SimpleQueue[protocol.Event | protocol.ProtocolError | None] = (
            queue.SimpleQueue()
        )
        reader = threading.Thread(target=self._read_events, daemon=True, name="trainer-reader")
        self._reader = reader
        self._reader.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._handle.pid

    @property
    def alive(self) -> bool:
        """Return whether the process is running; its reaper may end some time later."""
        with contextlib.suppress(psutil.Error):
            is_zombie = self._handle.status() == psutil.STATUS_ZOMBIE
            return self._process.poll() is None and not is_zombie
        return False

    @property
    def has_events(self) -> bool:
        """Return whether events are left that no one has read: no state to begin a trial in."""
        return not self._events.empty()

    @property
    def age_s(self) -> float:
        """Seconds since the process began."""
        return time.monotonic() - self._began_s

    def request(self, request: protocol.TrialRequest) -> None:
        """Send one trial, and clear the output of the previous one; raise as `send`."""
        self._empty_output()
        self.send(request)

    def send(self, command: protocol.TrialRequest | protocol.RoundCommand) -> None:
        """Send a command to the running trial; raise `TrainerGone` if the process has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(protocol.encode_message(command) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise TrainerGone(self._end()) from error

    def next_event(self, timeout_s: float) -> protocol.Event | None:
        """Return the next event; None if none came; raise `TrainerGone` or `ProtocolError`."""
        try:
            event = self._events.get(timeout=timeout_s)
        except queue.Empty:
            if self.alive:
                return None
            try:  # a child of the ended process may hold the pipe open
                event = self._events.get(timeout=_DRAIN_S)
            except queue.Empty:
                event = None
        if event is None:
            raise TrainerGone(self._end())
        if isinstance(event, protocol.ProtocolError):
            raise event
        return event

    def memory_mib(self) -> float:
        """Return the resident memory of the process, in MiB; 0 once it has ended."""
        try:
            return float(self._handle.memory_info().rss) / 2**20
        except psutil.Error:
            return 0.0

    def family(self) -> tuple[float, float]:
        """Return CPU seconds and resident MiB of the process and its descendants; takes ms."""
        cpu_s = memory_mib = 0.0
        with contextlib.suppress(psutil.Error):
            ended = self._handle.cpu_times()
            cpu_s += ended.children_user + ended.children_system
            for process in (self._handle, *self._handle.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    used = process.cpu_times()
                    cpu_s += used.user + used.system
                    memory_mib += process.memory_info().rss / 2**20
        return cpu_s, memory_mib

    def can_open_files(self) -> bool:
        """Return whether the process may open some more files than trials have left open in it."""
        with contextlib.suppress(psutil.Error):
            limit, _ = self._handle.rlimit(psutil.RLIMIT_NOFILE)
            return limit == psutil.RLIM_INFINITY or limit - self._handle.num_fds() >= _FREE_FILES
        return True

    def has_leftover_processes(self) -> bool:
        """Return whether processes of a trial are left, apart from Python's resource tracker."""
        with contextlib.suppress(psutil.Error):
            for process in self._reaper.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    command = " ".join(process.cmdline())  # empty for a moment after it was started
                    is_ours = process == self._handle or "resource_tracker" in command
                    if not is_ours and process.status() != psutil.STATUS_ZOMBIE:
                        return True
        return False

    def limit_output(self) -> None:
        """Keep the last part of the output alone if there is much; call it now and then."""
        if os.fstat(self._output.fileno()).st_size > _MOST_BYTES:
            tail = self.output_tail()
            self._empty_output()
            self._output.write(tail.encode())
            self._output.flush()

    def _empty_output(self) -> None:
        os.ftruncate(self._output.fileno(), 0)
        self._output.seek(0)  # the trainer writes at the same position

    def output_tail(self) -> str:
        """Return the end of what the current trial wrote to standard output and standard error."""
        size = os.fstat(self._output.fileno()).st_size
        start = max(0, size - _TAIL_BYTES)
        text = os.pread(self._output.fileno(), _TAIL_BYTES, start).decode(errors="replace")
        return text.strip("\x00\n ")

    def _end(self) -> int:
        """Return the exit status of a process that closed its pipes, which is killed if it runs."""
        try:
            return self._process.wait(_DRAIN_S * 10)
        except subprocess.TimeoutExpired:  # a workload has closed them, or runs another program
            self.kill()
            ended = self._process.poll()
            return -signal.SIGKILL if ended is None else ended

    def kill(self) -> None:
        """End the process and everything that it started, at once."""
        self._process.terminate()
        try:
            self._process.wait(_DRAIN_S * 10)
        except subprocess.TimeoutExpired:  # the reaper is suspended
            with contextlib.suppress(psutil.Error):
                for process in (*self._reaper.children(recursive=True), self._reaper):
                    with contextlib.suppress(psutil.Error):
                        process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel cannot end it
                self._process.wait(_LONGEST_END_S)

    def close(self) -> None:
        """End the process and close its pipes and its output."""
        self.kill()
        self._reader.join(timeout=5)
        for stream in (self._process.stdin, self._process.stdout, self._output):
            with contextlib.suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()

    def _read_events(self) -> None:
        """Queue the trainer's events as they come, wrong lines as errors, and None at the end."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self._events.put(protocol.decode_event(line))
            except protocol.ProtocolError as error:
                self._events.put(error)
        self._events.put(None)


@contextlib.contextmanager
def confined(cpus: Sequence[int] | None) -> Iterator[None]:
    """Confine this thread, and processes that it starts, to CPUs in the block (None: no change)."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def trainer_command(python_path: Sequence[str], *arguments: str) -> list[str]:
    """Return the command of a trainer that imports from these folders after all others."""
    folders = (word for folder in python_path for word in ("--path", folder))
    return [sys.executable, "-P", "-m", "workloads", *folders, *arguments]


def trainer_environment(
    implementation: Implementation | None,
    device: protocol.Device,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return the environment of a trainer's process; None for one that imports no backend."""
    return {
        **environ,
        **(hiding_environment() if device == "cpu" else {}),
        **(environment_for(implementation, device) if implementation else {}),
        **import_path(environ),
        "PYTHONUNBUFFERED": "1",
    }
