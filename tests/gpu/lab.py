"""Trainer processes to ask, one for each backend, and what they answered. Imports no framework."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from orchestrator.execution.trainer_process import Trainer, TrainerGone
from tests.gpu.sizes import Sizes
from workloads.implementations import Implementation, parse_implementation
from workloads.protocol import (
    Artifact,
    Device,
    Environment,
    Event,
    Failure,
    KernelProof,
    ProtocolError,
    Result,
    TrialRequest,
)

_ROOT = str(Path(__file__).parents[2])
_POLL_S = 0.1


class NoTimeLeft(Exception):
    """The time that was given to all checks is over."""


@dataclass(frozen=True, slots=True)
class Answer:
    """All events of a trial, of which the last is its result or failure."""

    events: Sequence[Event]

    @property
    def metrics(self) -> Mapping[str, float]:
        """Of a trial that succeeded; nothing of one that failed."""
        last = self.events[-1]
        return last.metrics if isinstance(last, Result) else {}

    @property
    def failure(self) -> Failure | None:
        """Why it failed; None if it did not."""
        last = self.events[-1]
        return last if isinstance(last, Failure) else None

    @property
    def why(self) -> str:
        """The failure's kind and message; empty if there is none."""
        failure = self.failure
        return "" if failure is None else f"{failure.kind}: {failure.message}"

    @property
    def kernel(self) -> KernelProof | None:
        """The last proof of a kernel."""
        return self._last(KernelProof)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Of its environment."""
        environment = self._last(Environment)
        return {} if environment is None else environment.facts

    def artifact(self) -> Any:
        """What its last artifact holds, read as JSON; nothing where it has none."""
        artifact = self._last(Artifact)
        return {} if artifact is None else json.loads(artifact.text)

    def _last(self, kind: Any) -> Any:
        found = [event for event in self.events if isinstance(event, kind)]
        return found[-1] if found else None


class Lab:
    """The trainers of a device, and how large things are made there.

    Trainers are started by the thread that enters the lab: a trainer ends with that thread.
    """

    def __init__(
        self,
        device: Device,
        sizes: Sizes,
        backends: Sequence[str],
        *,
        scratch: Path,
        until_s: float | None = None,
        start: Callable[..., Trainer] = Trainer,
    ) -> None:
        self.device, self.sizes, self.scratch = device, sizes, scratch
        self.backends = tuple(backends)
        self._until_s, self._start = until_s, start
        self._trainers: dict[str, Trainer] = {}

    def __enter__(self) -> Self:
        for backend in self.backends:
            self._trainer(parse_implementation(f"{backend}/portable"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for trainer in self._trainers.values():
            trainer.close()

    def request(
        self,
        workload: str,
        implementation: str,
        settings: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> TrialRequest:
        """A trial on this lab's device.

        Args:
            workload: built in, or `module:name` of one beside this file.
            implementation: of a backend of this lab.
            settings: the workload's.
            fields: others of the request.
        """
        name = f"{__package__}.{workload}" if ":" in workload else workload
        return TrialRequest(
            name, implementation, settings or {}, **{"device": self.device, **fields}
        )

    def ask(self, request: TrialRequest, *, meanwhile: Callable[[], None] = lambda: None) -> Answer:
        """Run a trial in the warm trainer of its backend; a dead or a hanging one is replaced.

        Args:
            request: the trial.
            meanwhile: called again and again until the trial is over.

        Raises:
            NoTimeLeft: before the trial begins.
        """
        self.expect_time()
        trainer = self._trainer(parse_implementation(request.implementation))
        return _sent(trainer, request) or self._events(trainer, meanwhile)

    def ask_fresh(
        self, requests: Sequence[TrialRequest], *, environ: Mapping[str, str] = os.environ
    ) -> list[Answer]:
        """Run trials, each in a process of its own, all at once: not for times.

        Args:
            requests: the trials.
            environ: of those processes.

        Raises:
            NoTimeLeft: before the trials begin.
        """
        self.expect_time()
        with ExitStack() as stack:
            trainers = [
                stack.enter_context(
                    self._start(
                        parse_implementation(request.implementation),
                        self.device,
                        python_path=[_ROOT],
                        environ=environ,
                    )
                )
                for request in requests
            ]
            unsent = [_sent(*pair) for pair in zip(trainers, requests, strict=True)]
            return [
                gone or self._events(trainer, lambda: None)
                for trainer, gone in zip(trainers, unsent, strict=True)
            ]

    def expect_time(self) -> None:
        """Raise `NoTimeLeft` if the time is over."""
        if self._until_s is not None and time.monotonic() > self._until_s:
            raise NoTimeLeft

    def _trainer(self, implementation: Implementation) -> Trainer:
        kept = self._trainers.get(implementation.backend)
        if kept is not None and kept.alive:
            return kept
        if kept is not None:
            kept.close()
        new = self._start(implementation, self.device, python_path=[_ROOT])
        self._trainers[implementation.backend] = new
        return new

    def _events(self, trainer: Trainer, meanwhile: Callable[[], None]) -> Answer:
        events: list[Event] = []
        until_s = time.monotonic() + self.sizes.trial_limit_s
        while not events or not isinstance(events[-1], Result | Failure):
            try:
                event = trainer.next_event(_POLL_S)
            except (TrainerGone, ProtocolError) as error:
                events.append(Failure("error", str(error), trainer.output_tail()))
                trainer.kill()
                break
            if event is not None:
                events.append(event)
            elif time.monotonic() > until_s:
                trainer.kill()
                limit_s = self.sizes.trial_limit_s
                events.append(Failure("error", f"no answer within {limit_s:.0f} s: ended"))
            meanwhile()
        return Answer(events)


def _sent(trainer: Trainer, request: TrialRequest) -> Answer | None:
    """Send a trial; the answer, where nobody is there to take it."""
    try:
        trainer.request(request)
    except TrainerGone as gone:
        return Answer([Failure("error", str(gone), trainer.output_tail())])
    return None
