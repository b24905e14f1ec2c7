"""Trainer processes, one per backend. Imports no framework."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from infra.gpu.sizes import Sizes
from orchestrator.execution import trainer_answers
from orchestrator.execution.job import TrialLimits
from orchestrator.execution.trainer_answers import TrainerAnswer
from orchestrator.execution.trainer_process import TrainerProcess
from workloads.implementations import parse_implementation
from workloads.protocol import Device, Event, TrialRequest

_ROOT = str(Path(__file__).parents[2])


class NoTimeLeft(Exception):
    """The time limit of all checks is over."""


class Lab:
    def __init__(
        self,
        device: Device,
        sizes: Sizes,
        backends: Sequence[str],
        *,
        capability: float | None = None,
        until_s: float = math.inf,
    ) -> None:
        self.device, self.sizes, self.capability = device, sizes, capability
        self.backends, self.until_s = tuple(backends), until_s
        self._trainers = dict[str, TrainerProcess]()

    def __enter__(self) -> Self:
        for backend in self.backends:
            self._trainer(backend)
        return self

    def __exit__(self, *raised: object) -> None:
        for trainer in self._trainers.values():
            trainer.close()

    def pid(self, backend: str) -> int:
        return self._trainer(backend).pid

    def ask(
        self,
        workload: str,
        implementation: str,
        settings: Mapping[str, Any] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        listen: Callable[[Event], object] = lambda event: None,
        **fields: Any,
    ) -> TrainerAnswer:
        """Run a trial in the warm trainer of its backend; replace a dead or hanging trainer."""
        self.expect_time()
        if workload.startswith("probes:"):
            workload = f"{__package__}.{workload}"
        fields = {"device": self.device, **fields}
        request = TrialRequest(workload, implementation, settings or {}, **fields)
        if environ is None:
            trainer = self._trainer(implementation.partition("/")[0])
            answer = trainer_answers.ask_trainer(trainer, request, listen, self._limits())
            if not answer.is_usable:
                trainer.kill()
                self.expect_time()
            return answer
        asked = parse_implementation(implementation)
        with TrainerProcess(asked, self.device, python_path=[_ROOT], environ=environ) as trainer:
            return trainer_answers.ask_trainer(trainer, request, listen, self._limits())

    def printed(self, backend: str) -> str:
        """Return what the last trial of a backend's trainer printed."""
        return self._trainers[backend].output_tail() if backend in self._trainers else ""

    def _limits(self) -> TrialLimits:
        return TrialLimits(self.until_s - time.monotonic(), idle_s=120.0)

    def expect_time(self) -> None:
        if time.monotonic() > self.until_s:
            raise NoTimeLeft

    def _trainer(self, backend: str) -> TrainerProcess:
        trainer = self._trainers.get(backend)
        if trainer is None or not trainer.alive:
            if trainer is not None:
                trainer.close()
            portable = parse_implementation(f"{backend}/portable")
            trainer = TrainerProcess(portable, self.device, python_path=[_ROOT])
            self._trainers[backend] = trainer
        return trainer
