"""Trainer processes, one per backend, and the sizes of the checks. Imports no framework."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import yaml

from orchestrator.diagnostics import trainer_answers
from orchestrator.diagnostics.trainer_answers import TrainerAnswer
from orchestrator.execution.job import TrialLimits
from orchestrator.execution.trainer_process import TrainerProcess
from workloads.implementations import parse_implementation
from workloads.layer_traits import Cell
from workloads.protocol import Device, Event, TrialRequest


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    source: str
    batch_size: int
    sequence_length: int
    features: int
    units: int
    layers: int = 1
    bidirectional: bool = False
    with_xla: bool = False  # also time TensorFlow's portable layer with XLA, Keras' default
    published: Mapping[str, float] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        sizes = ("units", "features", "sequence_length", "batch_size")
        return {name: getattr(self, name) for name in (*sizes, "layers", "bidirectional")}


@dataclass(frozen=True, slots=True)
class Sizes:
    cells: Sequence[Cell]
    stacks: Sequence[tuple[int, bool]]  # layers, and whether in both directions
    lengths: Sequence[Sequence[int] | None]
    shapes: Sequence[Shape]
    timed_steps: int
    power_s: float
    idle_s: Sequence[float]


def _read(name: str) -> Any:
    return yaml.safe_load(Path(__file__).with_name(name).read_text())


def _sizes(shapes: int | Sequence[Any], **sizes: Any) -> Sizes:
    rows = _read("shapes.yaml")[:shapes] if isinstance(shapes, int) else shapes
    return Sizes(shapes=[Shape(**row) for row in rows], **sizes)


SIZES = {name: _sizes(**row) for name, row in _read("sizes.yaml").items()}

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
