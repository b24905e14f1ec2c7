"""Processes that are beside a trainer in a sweep, for benchmarks: each can be stopped for a while.

`python -m tests.benchmarks.neighbours KIND PID THREADS` is one of them: `ray` is a Ray with one
node, `sampler` the telemetry of the process PID, `partner` a trainer that takes turns with it: for
each line on its standard input it works for `SLICE_S`, and answers with a line.
"""

import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

import psutil

SLICE_S = 0.25
KINDS = ("ray", "sampler", "partner")


class Neighbour:
    """A process beside this one; it is stopped except between `resume` and `pause`."""

    def __init__(self, kind: str, pid: int, threads: int) -> None:
        command = [sys.executable, "-m", __name__, kind, str(pid), str(threads)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._expect_line("ready")
        self.pause()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.resume()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def resume(self) -> None:
        """Let the process and all of its descendants go on."""
        self._signal(signal.SIGCONT)

    def pause(self) -> None:
        """Stop the process and all of its descendants: they take no time."""
        self._signal(signal.SIGSTOP)

    def take_turn(self) -> None:
        """Let a partner work for a slice, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._expect_line("done")

    def _signal(self, number: int) -> None:
        root = psutil.Process(self._process.pid)
        for process in (root, *root.children(recursive=True)):
            process.send_signal(number)

    def _expect_line(self, expected: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != expected:
            raise RuntimeError(f"expected {expected!r} of a neighbour; received {line!r}")


def main() -> None:
    kind, pid, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    {"ray": _be_ray, "sampler": _be_sampler, "partner": _be_partner}[kind](pid, threads)


def _be_ray(pid: int, threads: int) -> None:
    from orchestrator.cluster import connection  # noqa: PLC0415 - only one kind needs it

    with connection.connect(None):
        print("ready", flush=True)
        sys.stdin.read()


def _be_sampler(pid: int, threads: int) -> None:
    from orchestrator.execution.telemetry import Instruments, TelemetrySampler  # noqa: PLC0415

    sampler = TelemetrySampler("cpu", pid, Instruments())
    sampler.start()
    print("ready", flush=True)
    sys.stdin.read()
    sampler.stop()


def _be_partner(pid: int, threads: int) -> None:
    import torch  # noqa: PLC0415

    torch.set_num_threads(threads)
    layer, batch = torch.nn.LSTM(320, 320, batch_first=True), torch.randn(64, 100, 320)
    layer(batch)[0].mean().backward()
    print("ready", flush=True)
    for _ in sys.stdin:
        until_s = time.perf_counter() + SLICE_S
        while time.perf_counter() < until_s:
            layer(batch)[0].mean().backward()
        print("done", flush=True)


if __name__ == "__main__":
    main()
