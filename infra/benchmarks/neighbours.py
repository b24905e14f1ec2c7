"""Processes that are beside a trainer in a sweep, for benchmarks: each can be stopped for a while.

`python -m infra.benchmarks.neighbours KIND THREADS PID…` is one of them: `ray` is a Ray with one
node, `sampler` the telemetry of a round whose trainers are the processes PID, and `partner` a
trainer that takes turns: for each line on its standard input it works for `SLICE_S`, and answers
with a line.
"""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import psutil

SLICE_S = 0.25
_PARTS = {"ray": {"gcs_server", "raylet"}, "sampler": set[str](), "partner": set[str]()}
"""Descendants, by name, without which a neighbour is not what it is to be."""


class Neighbour:
    """A process beside this one; it is stopped except between `resume` and `pause`."""

    def __init__(self, kind: str, pids: Sequence[int], threads: int) -> None:
        command = [sys.executable, "-m", __name__, kind, str(threads), *map(str, pids)]
        self._parts = _PARTS[kind]
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
        """Stop the process and all of its descendants: they take no time.

        Raise `RuntimeError` if one of them has ended.
        """
        names = self._signal(signal.SIGSTOP)
        if not self._parts <= names:  # Ray may take a pause for a failure
            raise RuntimeError(f"a neighbour has lost {', '.join(self._parts - names)}")

    def take_turn(self) -> None:
        """Let a partner work for a slice, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._expect_line("done")

    def _signal(self, number: int) -> set[str]:
        """Send a signal to the process and to its descendants; return their names."""
        root, names = psutil.Process(self._process.pid), set[str]()
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
                names.add(process.name())
        return names

    def _expect_line(self, expected: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != expected:
            raise RuntimeError(f"expected {expected!r} of a neighbour; received {line!r}")


def main() -> None:
    kind, threads, *pids = sys.argv[1], *map(int, sys.argv[2:])
    match kind:
        case "ray":
            _be_ray()
        case "sampler":
            _be_sampler(pids)
        case "partner":
            _be_partner(threads)


def _be_ray() -> None:
    from orchestrator.cluster import connection  # noqa: PLC0415 - only one kind needs it

    with connection.connect(None):
        print("ready", flush=True)
        sys.stdin.read()


def _be_sampler(pids: Sequence[int]) -> None:
    from orchestrator.execution.telemetry import Instruments, TelemetrySampler  # noqa: PLC0415

    sampler = TelemetrySampler("cpu", pids[0], Instruments(), pids[1:])
    sampler.start()
    print("ready", flush=True)
    sys.stdin.read()
    sampler.stop()


def _be_partner(threads: int) -> None:
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
