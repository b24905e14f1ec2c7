"""Pairs of an arm and its reference script on one task, and one measurement of both."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from infra.benchmarks.contenders.start_weights import start_weights
from infra.gpu.lab import Lab
from infra.gpu.sizes import SIZES
from workloads.implementations import parse_implementation
from workloads.process import environment_for
from workloads.protocol import Device, Epoch, Event
from workloads.resources import usable_cpus
from workloads.tasks.char_rnn.settings import CharRnnSettings
from workloads.tasks.char_rnn.task import load

_CPU = (
    "tensorflow/portable",
    "tensorflow/portable+xla",
    "tensorflow/portable+unroll",
    "jax/portable",
    "torch/portable",
    "torch/fused",
)
_GPU = (
    "tensorflow/portable",
    "tensorflow/portable+xla",
    "tensorflow/cudnn",
    "tensorflow/fused",
    "jax/portable",
    "jax/cudnn",
    "jax/fused",
    "torch/portable",
    "torch/cudnn",
    "torch/fused",
)
IMPLEMENTATIONS: dict[Device, tuple[str, ...]] = {"cpu": _CPU, "gpu": _GPU}
_SEED = 0


@dataclass(frozen=True, slots=True)
class Question:
    settings: dict[str, Any]
    steps: int
    data: Path
    device: Device


def write_question(data: Path, device: Device, steps: int, **changes: Any) -> Question:
    """Write data in the order of the trial's batches, and initial weights in Keras' layout."""
    sizes = {"vocabulary": 64, "sequence_length": 64, "embedding_units": 128, "units": 128}
    asked: dict[str, Any] = {"batches": "windows", **sizes, "layers": 1, "dropout": 0.0}
    asked |= {"batch_size": 64, "validation_samples": 256, "epochs": 2}
    asked |= {"timed_steps": 0, "sample_characters": 0, **changes}
    settings = CharRnnSettings(**asked, samples=steps * asked["batch_size"])
    texts = load(settings, _SEED)
    train = texts.train.take(np.random.default_rng([_SEED, 1]).permutation(len(texts.train)))
    arrays = {
        f"{part}_{name}": getattr(samples, name)
        for part, samples in (("train", train), ("validation", texts.validation))
        for name in ("inputs", "targets")
    }
    weights = start_weights(settings, texts.vocabulary, _SEED, data.parent)
    np.savez(data, **arrays, **weights)
    return Question(settings.model_dump(), steps, data, device)


@dataclass(frozen=True, slots=True)
class Answer:
    step_ms: float  # of the last epoch: in the first one Keras builds the validation's pipeline
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True)
class Asked:
    arm: Answer
    reference: Answer

    @property
    def ratio(self) -> float:
        return self.arm.step_ms / self.reference.step_ms


class Pair:
    """An arm of rnnsweep in a warm trainer, and the script that a user would write instead."""

    def __init__(self, implementation: str, question: Question) -> None:
        self.implementation, self._question = implementation, question
        self.facts: dict[str, Any] = {}
        backend, threads = implementation.partition("/")[0], usable_cpus()
        self._lab = Lab(question.device, SIZES["full"], [backend])
        self._lab.__enter__()
        job = {
            "settings": question.settings,
            "data": str(question.data),
            "threads": threads,
            "implementation": implementation,
        }
        environment = environment_for(parse_implementation(implementation), question.device)
        self._script = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.bare_keras", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment, "PJRT_NPROC": str(threads)},
        )

    def ask(self, order: random.Random) -> Asked:
        sides = {"arm": self._run_trial, "reference": self._run_script}
        return Asked(**{name: sides[name]() for name in order.sample(list(sides), k=2)})

    def close(self) -> None:
        self._lab.__exit__()
        self._script.kill()
        self._script.communicate()

    def _run_trial(self) -> Answer:
        settings, events = self._question.settings, list[Event]()
        trial = self._lab.ask(
            "char_rnn", self.implementation, settings, seed=_SEED, listen=events.append
        )
        assert trial.reason is None, trial.reason
        self.facts = dict(trial.facts)
        epochs_s = [event.seconds for event in events if isinstance(event, Epoch)]
        return self._answer(epochs_s, trial.metrics)

    def _run_script(self) -> Answer:
        assert self._script.stdin is not None and self._script.stdout is not None
        self._script.stdin.write("\n")
        self._script.stdin.flush()
        line = self._script.stdout.readline()
        assert line, f"the script ended with {self._script.wait()}"
        metrics = json.loads(line)
        return self._answer(metrics.pop("epochs_s"), metrics)

    def _answer(self, epochs_s: list[float], metrics: Mapping[str, Any]) -> Answer:
        names = ("loss", "accuracy", "val_loss", "val_accuracy")
        step_ms = 1_000 * epochs_s[-1] / self._question.steps
        return Answer(step_ms, {name: metrics[name] for name in names})
