"""Contenders as warm processes: rnnsweep's trainer and plain scripts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil

from tests.benchmarks.contenders.question import SEED
from tests.workloads.shared_trainer import Trainer, result
from workloads.backend import environment_for
from workloads.implementations import parse_implementation
from workloads.protocol import Device, Environment, Epoch

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Question:
    """The task of every contender: settings of `char_rnn`, and the file with the arrays."""

    settings: dict[str, Any]
    steps: int
    data: Path
    device: Device
    threads: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one `fit`; `step_ms` is that of its last epoch.

    The first epoch is not counted: in it Keras builds the validation's pipeline, before a bare
    script's callback can read the clock.
    """

    step_ms: float
    metrics: dict[str, float]


class Contender(Protocol):
    """A process that trains repeatedly."""

    name: str

    def answer(self) -> Answer:
        """Train from the initial weights."""

    @property
    def process(self) -> psutil.Process:
        """The process whose CPU time belongs to this contender."""

    def close(self) -> None:
        """End the process."""


@dataclass
class Arm:
    """rnnsweep: whole trials through `python -m workloads`."""

    implementation: str
    question: Question
    name: str = field(init=False)
    facts: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.name = f"rnnsweep {self.implementation}"
        self._trainer = Trainer(stderr=subprocess.DEVNULL)

    def answer(self) -> Answer:
        """Run one trial."""
        question = self.question
        events = self._trainer.ask(
            "char_rnn",
            self.implementation,
            settings=question.settings,
            device=question.device,
            seed=SEED,
        )
        metrics = result(events)
        (environment,) = [event for event in events if isinstance(event, Environment)]
        self.facts = dict(environment.facts)
        epochs = [event for event in events if isinstance(event, Epoch)]
        return _answer([epoch.seconds for epoch in epochs], metrics, question)

    @property
    def process(self) -> psutil.Process:
        """The trainer."""
        return psutil.Process(self._trainer.process.pid)

    def close(self) -> None:
        """End the trainer."""
        self._trainer.__exit__(None, None, None)


class Script:
    """A script of this folder, with its task as argument."""

    def __init__(self, name: str, file: str, implementation: str, question: Question) -> None:
        self.name, self._question = name, question
        job = {
            "settings": question.settings,
            "data": str(question.data),
            "device": question.device,
            "threads": question.threads,
            "implementation": implementation,
        }
        environment = environment_for(parse_implementation(implementation), question.device)
        self._process = subprocess.Popen(
            [sys.executable, str(_HERE / file), json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment, "PJRT_NPROC": str(question.threads)},
        )

    def answer(self) -> Answer:
        """Start one `fit`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{self.name} ended with {self._process.wait()}"
        metrics = json.loads(line)
        return _answer(metrics.pop("epochs_s"), metrics, self._question)

    @property
    def process(self) -> psutil.Process:
        """The script."""
        return psutil.Process(self._process.pid)

    def close(self) -> None:
        """End the script."""
        self._process.kill()
        self._process.communicate()


def bare_keras(implementation: str, question: Question) -> Script:
    """Start a plain Keras script with the implementation's backend, layer and options."""
    return Script(f"bare Keras {implementation}", "bare_keras.py", implementation, question)


def hand_written(question: Question) -> Script:
    """Start a plain PyTorch loop over `nn.LSTM`."""
    return Script("hand-written PyTorch", "hand_written.py", "torch/fused", question)


def _answer(epochs_s: list[float], metrics: dict[str, float], question: Question) -> Answer:
    assert len(epochs_s) > 1, f"settings.epochs: expected at least 2; received {len(epochs_s)}"
    names = ("loss", "accuracy", "val_loss", "val_accuracy")
    return Answer(1_000 * epochs_s[-1] / question.steps, {name: metrics[name] for name in names})
