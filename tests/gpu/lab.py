"""Trainer processes, one per backend, and their answers. Imports no framework."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from orchestrator.execution.trainer_process import Trainer, TrainerGone
from tests.gpu.sizes import Sizes
from workloads.implementations import parse_implementation
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
    def metrics(self) -> dict[str, float]:
        """The metrics of a successful trial; empty if it failed."""
        last = self.events[-1]
        return dict(last.metrics) if isinstance(last, Result) else {}

    @property
    def why(self) -> str:
        """The failure's kind and message; empty if there is none."""
        last = self.events[-1]
        return f"{last.kind}: {last.message}" if isinstance(last, Failure) else ""

    @property
    def proof(self) -> dict[str, str]:
        """The kernel that ran and its evidence; empty if there is no proof."""
        kernel = self._last(KernelProof)
        return {} if kernel is None else {"ran": kernel.ran, "evidence": kernel.evidence}

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts about the trainer's environment."""
        environment = self._last(Environment)
        return {} if environment is None else environment.facts

    def artifact(self) -> Any:
        """Return the last artifact, parsed as JSON, or an empty object."""
        artifact = self._last(Artifact)
        return {} if artifact is None else json.loads(artifact.text)

    def some(self, *names: str) -> dict[str, float]:
        """Return these metrics as far as they were measured."""
        return {name: self.metrics[name] for name in names if name in self.metrics}

    def wrong_kernel(self, asked: str) -> str:
        """Return the failure, or the kernel that ran if it is another one, or an empty text."""
        ran = self.proof.get("ran", "nothing")
        return self.why or ("" if ran == asked else f"{asked} was requested, {ran} ran")

    def _last(self, kind: Any) -> Any:
        return next((event for event in reversed(self.events) if isinstance(event, kind)), None)


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
            self._trainer(backend)
        return self

    def __exit__(self, *raised: object) -> None:
        for trainer in self._trainers.values():
            trainer.close()

    def pid(self, backend: str) -> int:
        """Return the process of the backend's warm trainer."""
        return self._trainer(backend).pid

    def ask(
        self,
        workload: str,
        implementation: str,
        settings: Mapping[str, Any] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        listen: Callable[[Event], None] = lambda event: None,
        **fields: Any,
    ) -> Answer:
        """Run a trial in the warm trainer of its backend; replace a dead or hanging trainer.

        Args:
            workload: built in, `module:name`, or a name in `probes` or `racing`.
            implementation: of a backend of this lab.
            settings: the settings of the workload.
            environ: run the trial in a process of its own with this environment instead.
            listen: called with each event as it comes.
            fields: other fields of the request.

        Raises:
            NoTimeLeft: before the trial begins.
        """
        self.expect_time()
        name = (
            f"{__package__}.{workload}" if workload.startswith(("probes:", "racing:")) else workload
        )
        fields = {"device": self.device, **fields}
        request = TrialRequest(name, implementation, settings or {}, **fields)
        if environ is None:
            trainer = self._trainer(implementation.partition("/")[0])
            return self._answer(trainer, request, listen)
        asked = parse_implementation(implementation)
        with self._start(asked, self.device, python_path=[_ROOT], environ=environ) as trainer:
            return self._answer(trainer, request, listen)

    def expect_time(self) -> None:
        """Raise `NoTimeLeft` if the time is over."""
        if self._until_s is not None and time.monotonic() > self._until_s:
            raise NoTimeLeft

    def images(self) -> str:
        """Return a file of images of MNIST's shape; each class has its own bright rows.

        They are synthetic, since a machine with a GPU may have no internet access.
        """
        path = self.scratch / "images.npz"
        if not path.exists():
            draw = np.random.default_rng(0)
            arrays: dict[str, Any] = {}
            for part, count in (("train", self.sizes.images), ("test", self.sizes.images // 3)):
                labels = np.concatenate([np.arange(10), draw.integers(0, 10, max(0, count - 10))])
                pixels = draw.integers(0, 128, (len(labels), 28, 28))
                pixels[np.arange(len(labels)), 2 * labels + 4] += 127
                arrays |= {f"x_{part}": pixels.astype("uint8"), f"y_{part}": labels.astype("uint8")}
            unfinished = path.with_name(f"unfinished-{threading.get_ident()}.npz")
            np.savez(unfinished, **arrays)
            unfinished.replace(path)
        return str(path)

    def _trainer(self, backend: str) -> Trainer:
        trainer = self._trainers.get(backend)
        if trainer is None or not trainer.alive:
            if trainer is not None:
                trainer.close()
            portable = parse_implementation(f"{backend}/portable")
            trainer = self._start(portable, self.device, python_path=[_ROOT])
            self._trainers[backend] = trainer
        return trainer

    def _answer(
        self, trainer: Trainer, request: TrialRequest, listen: Callable[[Event], None]
    ) -> Answer:
        events: list[Event] = []
        limit_s = self.sizes.trial_limit_s
        until_s = time.monotonic() + limit_s
        try:
            trainer.request(request)
            while not events or not isinstance(events[-1], Result | Failure):
                if (event := trainer.next_event(_POLL_S)) is not None:
                    events.append(event)
                    listen(event)
                elif time.monotonic() > until_s:
                    raise TimeoutError(f"no answer within {limit_s:.0f} s: ended")
        except (TrainerGone, ProtocolError, TimeoutError) as error:
            events.append(Failure("error", str(error), trainer.output_tail()))
            trainer.kill()
        return Answer(events)
