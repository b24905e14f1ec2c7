"""A fake trainer without a process, whose answers a test defines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from orchestrator.execution.trainer_process import TrainerGone
from tests.gpu.lab import Lab
from tests.gpu.sizes import QUICK, Sizes
from workloads.implementations import Implementation, parse_implementation
from workloads.protocol import Device, Event, KernelProof, Result, TrialRequest


class Scripted:
    """A substitute for `orchestrator.execution.trainer_process.Trainer`.

    An answer of None ends the process.
    """

    def __init__(self, answer: Callable[[TrialRequest], Sequence[Event] | None]) -> None:
        self._answer, self._events = answer, list[Event]()
        self.alive, self._gone = True, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def request(self, request: TrialRequest) -> None:
        events = self._answer(request)
        self._gone, self._events = events is None, list(events or ())

    def next_event(self, timeout_s: float) -> Event | None:
        if self._gone:
            self.alive = False
            raise TrainerGone(-9)
        return self._events.pop(0) if self._events else None

    def output_tail(self) -> str:
        return "the last output"

    def kill(self) -> None:
        self.alive = False

    close = kill


def as_asked(request: TrialRequest) -> Sequence[Event]:
    """Answer that the requested kernel ran, in one millisecond per step."""
    text = parse_implementation(request.implementation).kernel_text
    return [KernelProof(text, text, "scripted"), Result({"step_ms": 1.0, "loss": 2.0})]


def lab_of(
    scratch: Path,
    answer: Callable[[TrialRequest], Sequence[Event] | None] = as_asked,
    *,
    device: Device = "gpu",
    backends: Sequence[str] = ("tensorflow",),
    sizes: Sizes = QUICK,
    until_s: float | None = None,
) -> Lab:
    """Return a lab whose trainers give these answers."""

    def start(implementation: Implementation, device: Device, **options: Any) -> Any:
        return Scripted(answer)

    return Lab(device, sizes, backends, scratch=scratch, until_s=until_s, start=start)
