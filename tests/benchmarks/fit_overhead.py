"""Overhead of the measurement: a trial's timed epochs compared with a bare Keras script.

    python -m tests.benchmarks.fit_overhead [--rounds 7] [--epochs 8] [--units 64]
                                            [--output FOLDER]

The trial runs through `python -m workloads`, warm. The bare script is a process of its own that
builds the same model with plain Keras, warms it up, and runs the same `model.fit`, validation after
each epoch included; six lines of a callback read the clock at the edges of each epoch's training.
Both take turns, so that other load affects both. The target is a ratio of at most 1.03. The exit
code is 1 if the whole interval misses it.

The second ratio is to a `fit` without validation and without callbacks, minus the time of a `fit`
of no epochs: Keras' own epochs are slower if it validates between them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from orchestrator.analysis.statistics.estimates import geometric_mean
from tests.benchmarks import rig
from tests.benchmarks.contenders.table import verdict
from tests.workloads.shared_trainer import Trainer, result
from workloads.backend import environment_for
from workloads.implementations import parse_implementation

_LIMIT = 1.03

_BARE = r"""
import json, os, sys, time
out = os.fdopen(os.dup(1), "w", buffering=1); os.dup2(2, 1)
import keras, tensorflow as tf
from workloads.data.images import load_images
cpus = len(os.sched_getaffinity(0))
tf.config.threading.set_intra_op_parallelism_threads(cpus)
tf.config.threading.set_inter_op_parallelism_threads(cpus)
tf.config.experimental.enable_tensor_float_32_execution(False)
for line in sys.stdin:
    s = json.loads(line)
    keras.utils.clear_session()
    images = load_images("digits")
    data, held_out = images.train, (images.validation.inputs, images.validation.targets)
    model = keras.Sequential([keras.Input((8, 8))])
    for index in range(s["layers"]):
        last = index == s["layers"] - 1
        model.add(keras.layers.LSTM(s["units"], return_sequences=not last, use_cudnn=False))
        model.add(keras.layers.Dropout(0.1 if last and index else 0.2))
    model.add(keras.layers.Dense(32, activation="relu"))
    model.add(keras.layers.Dropout(0.2))
    model.add(keras.layers.Dense(10, activation="softmax"))
    rate = keras.optimizers.schedules.InverseTimeDecay(1e-3, 1, 1e-5)
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy",
                  metrics=["accuracy"], jit_compile=False)
    fit = dict(batch_size=s["batch_size"], shuffle=False, verbose=0)
    class Clock(keras.callbacks.Callback):
        seconds = 0.0
        def on_epoch_begin(self, epoch, logs=None):
            tf.test.experimental.sync_devices(); self.began = time.perf_counter()
        def on_test_begin(self, logs=None):
            tf.test.experimental.sync_devices(); self.seconds += time.perf_counter() - self.began
    model.fit(data.inputs, data.targets, epochs=1, validation_data=held_out, **fit)
    def plain(epochs):
        began = time.perf_counter()
        model.fit(data.inputs, data.targets, epochs=epochs, **fit)
        return time.perf_counter() - began
    clock = Clock()
    model.fit(data.inputs, data.targets, epochs=s["epochs"], validation_data=held_out,
              callbacks=[clock], **fit)
    out.write(json.dumps([clock.seconds, plain(s["epochs"]) - plain(0)]) + "\n")
"""


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds of the timed epochs of a trial, of the same `fit`, and of one without validation."""

    trial_s: float
    bare_s: float
    without_validation_s: float

    def text(self) -> str:
        return (
            f"trial {self.trial_s:.3f} s, bare {self.bare_s:.3f} s,"
            f" bare without validation {self.without_validation_s:.3f} s"
        )


def main() -> int:
    """Print the ratios, their spread and the medians, and write them if requested."""
    asked = _parser().parse_args()
    settings = {"units": asked.units, "layers": 2, "epochs": asked.epochs, "batch_size": 32}
    environment = rig.environment("keras", "tensorflow")
    rounds: list[Round] = []
    variables = environment_for(parse_implementation("tensorflow/portable"), "cpu")
    with _bare(variables) as bare, Trainer(stderr=subprocess.DEVNULL) as trainer:
        for number in range(asked.rounds + 1):
            if number % 2:
                trial_s = _trial_s(trainer, settings)
                bare_s, plain_s = _bare_s(bare, settings)
            else:
                bare_s, plain_s = _bare_s(bare, settings)
                trial_s = _trial_s(trainer, settings)
            if number:  # the first round of both processes is cold
                rounds.append(Round(trial_s, bare_s, plain_s))
                print(f"round {number}: {rounds[-1].text()}", flush=True)
        bare.kill()
    text, ratio = as_text(environment, rounds), geometric_mean(_ratios_to_bare(rounds))
    print(text)
    if asked.output is not None:
        result = {
            "benchmark": "fit_overhead",
            "environment": environment,
            "settings": settings,
            "trial_over_bare": asdict(ratio) if ratio else None,
            "rounds": [asdict(one_round) for one_round in rounds],
        }
        rig.keep(asked.output, "fit_overhead", result, text)
    return 1 if verdict(ratio, _LIMIT) == "missed" else 0


def as_text(environment: Mapping[str, str], rounds: Sequence[Round]) -> str:
    """Format medians, and geometric means of the ratios with 95 % t intervals over the rounds."""
    columns = zip(*(astuple(one_round) for one_round in rounds), strict=True)
    medians = Round(*(statistics.median(column) for column in columns))
    same = _ratios_to_bare(rounds)
    plain = [one_round.trial_s / one_round.without_validation_s for one_round in rounds]
    return "\n".join(
        [
            "A trial's timed epochs compared with a bare Keras script",
            rig.heading(environment),
            f"medians of {len(rounds)} rounds: {medians.text()}",
            f"trial / bare: {_ratio(same)};"
            f" to reach: at most {_LIMIT}: {verdict(geometric_mean(same), _LIMIT)}",
            f"trial / bare without validation: {_ratio(plain)}",
        ]
    )


def _ratios_to_bare(rounds: Sequence[Round]) -> list[float]:
    return [one_round.trial_s / one_round.bare_s for one_round in rounds]


def _ratio(ratios: Sequence[float]) -> str:
    """Format the geometric mean with its 95 % t interval over the rounds, and their range."""
    spread = f"rounds {min(ratios):.3f}–{max(ratios):.3f}"
    mean = geometric_mean(ratios)
    if mean is None:  # a single round
        return spread
    return f"{mean.value:.3f} ({mean.low:.3f}–{mean.high:.3f}; {spread})"


def _trial_s(trainer: Trainer, settings: dict[str, Any]) -> float:
    events = trainer.ask("image_rows", "tensorflow/portable", settings=settings)
    return result(events)["train_s"]


def _bare_s(bare: subprocess.Popen[str], settings: dict[str, Any]) -> list[float]:
    assert bare.stdin is not None and bare.stdout is not None
    bare.stdin.write(json.dumps(settings) + "\n")
    bare.stdin.flush()
    return [float(seconds) for seconds in json.loads(bare.stdout.readline())]


def _bare(environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _BARE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--output", type=Path, help="write fit_overhead.json and .txt here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
