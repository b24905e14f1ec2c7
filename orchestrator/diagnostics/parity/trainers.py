"""Trainer processes that work at the same time: one per backend and device, warm to the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeAlias

from orchestrator.diagnostics.parity.request import Participant
from orchestrator.execution.trainer_process import Trainer, TrainerGone
from workloads import protocol
from workloads.cpus import usable_cpus
from workloads.protocol import Device, TrialRequest

_LOOK_S = 1.0
_IDLE_S = 120.0
"""Neither an event nor CPU time for so long is a hang."""

Key: TypeAlias = tuple[str, Device]


@dataclass(slots=True)
class RequestOutcome:
    """The outcome of a request; `reason` is None if it succeeded."""

    seconds: float = 0.0
    reason: str | None = None
    possible: bool = True
    kernel: protocol.KernelProof | None = None
    dataset: protocol.Dataset | None = None
    texts: dict[str, str] = field(default_factory=dict)

    def take(self, event: protocol.Event) -> bool:
        """Note an event; return whether it was the last one."""
        match event:
            case protocol.KernelProof():
                self.kernel = event
                if event.ran != event.asked:
                    self.reason = f"ran {event.ran}, not {event.asked} ({event.evidence})"
            case protocol.Dataset():
                self.dataset = event
            case protocol.Artifact(name, text):
                self.texts[name] = text
            case protocol.Failure(kind, message):
                self.reason, self.possible = message, kind != "not_possible"
        return isinstance(event, protocol.Result | protocol.Failure)


class ParityTrainers:
    """Trainers that answer requests; those of different backends or devices run concurrently.

    They may disturb each other, since no time is measured. Ctrl-C ends them with the `with` block.
    """

    def __init__(self) -> None:
        self._trainers: dict[Key, Trainer] = {}
        self._pool = ThreadPoolExecutor(max(2, usable_cpus()), "parity")
        self._closing = False

    def __enter__(self) -> ParityTrainers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing = True
        while self._trainers:
            _, trainer = self._trainers.popitem()
            trainer.close()
        self._pool.shutdown(cancel_futures=True)

    def ask(
        self,
        requests: Sequence[tuple[Participant, TrialRequest]],
        report: Callable[[Participant, RequestOutcome], None],
    ) -> dict[Participant, RequestOutcome]:
        """Return the outcomes of all requests; call `report` with each at once, in some thread."""
        queues: dict[Key, list[tuple[Participant, TrialRequest]]] = {}
        for participant, request in requests:
            queues.setdefault((participant.implementation.backend, participant.device), []).append(
                (participant, request)
            )
        answers: dict[Participant, RequestOutcome] = {}

        def work(key: Key, queue: Sequence[tuple[Participant, TrialRequest]]) -> None:
            for participant, request in queue:
                answers[participant] = self._answer(key, participant, request)
                if self._closing:
                    return
                report(participant, answers[participant])

        working = [self._pool.submit(work, key, queue) for key, queue in queues.items()]
        for future in as_completed(working):
            future.result()
        return {participant: answers[participant] for participant, _ in requests}

    def _answer(self, key: Key, participant: Participant, request: TrialRequest) -> RequestOutcome:
        began_s, answer = time.monotonic(), RequestOutcome()
        try:
            trainer = self._trainers.get(key)
            if trainer is None:
                trainer = self._trainers[key] = Trainer(
                    participant.implementation, participant.device
                )
            if self._closing:  # those that are there have been ended; this one is new
                raise InterruptedError("stopped")
            trainer.request(request)
            _listen(trainer, answer)
        except (TrainerGone, TimeoutError, protocol.ProtocolError, OSError) as error:
            answer.reason = str(error)
            if (dead := self._trainers.pop(key, None)) is not None:
                if tail := dead.output_tail():
                    answer.reason += f"; its last output: {tail.splitlines()[-1]}"
                dead.close()
        answer.seconds = time.monotonic() - began_s
        return answer


def _listen(trainer: Trainer, answer: RequestOutcome) -> None:
    """Take the trainer's events up to the last one.

    Raises:
        TrainerGone: the process ended.
        ProtocolError: it wrote something else than events.
        TimeoutError: it hangs.
    """
    active_s, cpu_s = time.monotonic(), trainer.family()[0]
    while True:
        event = trainer.next_event(_LOOK_S)
        if event is not None and answer.take(event):
            return
        used_s = trainer.family()[0]
        if event is not None or used_s > cpu_s + 0.01:
            active_s, cpu_s = time.monotonic(), used_s
        elif time.monotonic() - active_s > _IDLE_S:
            raise TimeoutError(f"neither an event nor CPU time for {_IDLE_S:.0f} s")
