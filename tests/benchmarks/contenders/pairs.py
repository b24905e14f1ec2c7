"""Pairs of an arm and its reference script on one task, and one measurement of both."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu.lab import Lab
from tests.gpu.sizes import FULL
from workloads.data.text import load_char_rnn
from workloads.implementations import parse_implementation
from workloads.models.canonical_weights import CanonicalLayer
from workloads.models.initial_weights import draw_layer, draw_variable
from workloads.process import environment_for
from workloads.protocol import Device, Epoch, Event
from workloads.resources import usable_cpus
from workloads.settings import CharRnnSettings

_CPU = (
    *("tensorflow/portable", "tensorflow/portable+xla", "tensorflow/portable+unroll"),
    *("jax/portable", "torch/portable", "torch/fused"),
)
_GPU = (
    *("tensorflow/portable", "tensorflow/portable+xla", "tensorflow/cudnn", "tensorflow/fused"),
    *("jax/portable", "jax/cudnn", "jax/fused", "torch/portable", "torch/cudnn", "torch/fused"),
)
IMPLEMENTATIONS: dict[Device, tuple[str, ...]] = {"cpu": _CPU, "gpu": _GPU}
_SEED = 0


@dataclass(frozen=True, slots=True)
class Question:
    """The task of both sides: settings of `char_rnn`, and the file with data and weights."""

    settings: dict[str, Any]
    steps: int
    data: Path
    device: Device


def write_question(data: Path, device: Device, steps: int, **changes: Any) -> Question:
    """Write data in the order of the trial's batches, and initial weights in Keras' layout.

    The task is Embedding(64 → 128) → LSTM(128) → logits on batches of 64 windows of 64 characters,
    in two epochs of `steps`, unless `changes` replace these settings.
    """
    sizes = {"vocabulary": 64, "sequence_length": 64, "embedding_units": 128, "units": 128}
    asked: dict[str, Any] = {"batches": "windows", **sizes, "layers": 1, "dropout": 0.0}
    asked |= {"batch_size": 64, "validation_samples": 256, "epochs": 2}
    asked |= {"timed_steps": 0, "sample_characters": 0, **changes}
    settings = CharRnnSettings(**asked, samples=steps * asked["batch_size"])
    texts = load_char_rnn(settings)
    train = texts.train.take(np.random.default_rng([_SEED, 1]).permutation(len(texts.train)))
    arrays = {
        f"{part}_{name}": getattr(samples, name)
        for part, samples in (("train", train), ("validation", texts.validation))
        for name in ("inputs", "targets")
    }
    np.savez(data, **arrays, **_weights(settings, texts.classes))
    return Question(settings.model_dump(), steps, data, device)


def _weights(settings: CharRnnSettings, vocabulary: int) -> dict[str, Any]:
    inputs, units = settings.embedding_units, settings.units
    shapes = CanonicalLayer(
        np.empty((inputs, 4 * units)), np.empty((units, 4 * units)), np.empty(4 * units)
    )
    recurrent = draw_layer("recurrent_0", shapes, _SEED)
    return {
        "embeddings": draw_variable("embedding/embeddings", (vocabulary, inputs), _SEED),
        "kernel": recurrent.kernel,
        "recurrent_kernel": recurrent.recurrent_kernel,
        "bias": recurrent.bias,
        "logits_kernel": draw_variable("logits/kernel", (units, vocabulary), _SEED),
        "logits_bias": draw_variable("logits/bias", (vocabulary,), _SEED),
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one `fit`; `step_ms` is that of its last epoch.

    The first epoch is not counted: in it Keras builds the validation's pipeline, before a bare
    script's callback can read the clock.
    """

    step_ms: float
    metrics: dict[str, float]


class Arm:
    """rnnsweep: whole trials in a warm trainer."""

    def __init__(self, implementation: str, question: Question) -> None:
        self.implementation, self.name = implementation, f"rnnsweep {implementation}"
        self.facts: dict[str, Any] = {}
        self._question, backend = question, implementation.partition("/")[0]
        self._lab = Lab(question.device, FULL, [backend], scratch=question.data.parent)
        self._lab.__enter__()

    def answer(self) -> Answer:
        """Run one trial from the initial weights."""
        settings, events = self._question.settings, list[Event]()
        trial = self._lab.ask(
            "char_rnn", self.implementation, settings, seed=_SEED, listen=events.append
        )
        assert trial.reason is None, trial.reason
        self.facts = dict(trial.facts)
        epochs_s = [event.seconds for event in events if isinstance(event, Epoch)]
        return _answer(epochs_s, trial.metrics, self._question)

    def close(self) -> None:
        """End the trainer."""
        self._lab.__exit__()


class Script:
    """A script of this folder in a process that stays warm."""

    def __init__(self, file: str, implementation: str, question: Question) -> None:
        plain = file == "hand_written"
        self.name = "hand-written PyTorch" if plain else f"bare Keras {implementation}"
        self._question, threads = question, usable_cpus()
        job = {
            **{"settings": question.settings, "data": str(question.data)},
            **{"device": question.device, "threads": threads, "implementation": implementation},
        }
        environment = environment_for(parse_implementation(implementation), question.device)
        path = Path(__file__).with_name(f"{file}.py")
        self._process = subprocess.Popen(
            [sys.executable, str(path), json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment, "PJRT_NPROC": str(threads)},
        )

    def answer(self) -> Answer:
        """Run one `fit` from the initial weights."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{self.name} ended with {self._process.wait()}"
        metrics = json.loads(line)
        return _answer(metrics.pop("epochs_s"), metrics, self._question)

    def close(self) -> None:
        """End the script."""
        self._process.kill()
        self._process.communicate()


def _answer(epochs_s: list[float], metrics: Any, question: Question) -> Answer:
    names = ("loss", "accuracy", "val_loss", "val_accuracy")
    return Answer(1_000 * epochs_s[-1] / question.steps, {name: metrics[name] for name in names})


@dataclass(frozen=True, slots=True)
class Asked:
    """Both answers of a pair."""

    arm: Answer
    reference: Answer

    @property
    def ratio(self) -> float:
        """The arm's time over its reference's."""
        return self.arm.step_ms / self.reference.step_ms


class Pair:
    """An arm and the script that a user would write instead; `at_most` is the target ratio."""

    def __init__(self, implementation: str, question: Question) -> None:
        """Start both processes; fused stacks are paired with the hand-written loop."""
        is_fused = parse_implementation(implementation).kernel == "fused"
        self.arm = Arm(implementation, question)
        script = "hand_written" if is_fused else "bare_keras"
        self.reference = Script(script, implementation, question)
        self.at_most = 1.05 if is_fused else 1.03

    def ask(self, order: random.Random) -> Asked:
        """Measure both sides in a random order, one right after the other."""
        sides: list[Arm | Script] = [self.arm, self.reference]
        answers = {side.name: side.answer() for side in order.sample(sides, k=2)}
        return Asked(answers[self.arm.name], answers[self.reference.name])

    def close(self) -> None:
        """End both processes."""
        self.arm.close()
        self.reference.close()
