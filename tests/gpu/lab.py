"""Trainer processes, one per backend, and their answers. Imports no framework."""

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
    """The time limit of all checks is over."""


@dataclass(frozen=True, slots=True)
class Answer:
    """All events of a trial, of which the last is its result or failure."""

    events: Sequence[Event]

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics of a successful trial; empty if it failed."""
        last = self.events[-1]
        return last.metrics if isinstance(last, Result) else {}

    @property
    def failure(self) -> Failure | None:
        """The failure, or None."""
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
        """The facts about the trainer's environment."""
        environment = self._last(Environment)
        return {} if environment is None else environment.facts

    def artifact(self) -> Any:
        """Return the last artifact, parsed as JSON, or an empty object."""
        artifact = self._last(Artifact)
        return {} if artifact is None else json.loads(artifact.text)

    def _last(self, kind: Any) -> Any:
        events = [event for event in self.events if isinstance(event, kind)]
        return events[-1] if events else None


class Lab:
    """The trainers of a device, and the sizes of the checks there.

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
        """Return the request of a trial on this lab's device.

        Args:
            workload: built in, or `module:name` of a module of this package.
            implementation: of a backend of this lab.
            settings: the settings of the workload.
            fields: other fields of the request.
        """
        name = f"{__package__}.{workload}" if ":" in workload else workload
        return TrialRequest(
            name, implementation, settings or {}, **{"device": self.device, **fields}
        )

    def pid(self, backend: str) -> int:
        """Return the process of the backend's warm trainer."""
        return self._trainer(parse_implementation(f"{backend}/portable")).pid

    def ask(
        self, request: TrialRequest, *, listen: Callable[[Event], None] = lambda event: None
    ) -> Answer:
        """Run a trial in the warm trainer of its backend; replace a dead or hanging trainer.

        Args:
            request: the trial.
            listen: called with each event as it comes.

        Raises:
            NoTimeLeft: before the trial begins.
        """
        self.expect_time()
        trainer = self._trainer(parse_implementation(request.implementation))
        return _sent(trainer, request) or self._events(trainer, listen)

    def ask_fresh(
        self, requests: Sequence[TrialRequest], *, environ: Mapping[str, str] = os.environ
    ) -> list[Answer]:
        """Run trials at the same time, each in its own process. Not for timing.

        Args:
            requests: the trials.
            environ: the environment of the processes.

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
            failures = [_sent(*pair) for pair in zip(trainers, requests, strict=True)]
            return [
                failure or self._events(trainer)
                for trainer, failure in zip(trainers, failures, strict=True)
            ]

    def expect_time(self) -> None:
        """Raise `NoTimeLeft` if the time is over."""
        if self._until_s is not None and time.monotonic() > self._until_s:
            raise NoTimeLeft

    def _trainer(self, implementation: Implementation) -> Trainer:
        trainer = self._trainers.get(implementation.backend)
        if trainer is not None and trainer.alive:
            return trainer
        if trainer is not None:
            trainer.close()
        new = self._start(implementation, self.device, python_path=[_ROOT])
        self._trainers[implementation.backend] = new
        return new

    def _events(
        self, trainer: Trainer, listen: Callable[[Event], None] = lambda event: None
    ) -> Answer:
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
                listen(event)
            elif time.monotonic() > until_s:
                trainer.kill()
                limit_s = self.sizes.trial_limit_s
                events.append(Failure("error", f"no answer within {limit_s:.0f} s: ended"))
        return Answer(events)


def _sent(trainer: Trainer, request: TrialRequest) -> Answer | None:
    """Send a trial to a trainer; return a failure if the trainer has ended."""
    try:
        trainer.request(request)
    except TrainerGone as gone:
        return Answer([Failure("error", str(gone), trainer.output_tail())])
    return None
