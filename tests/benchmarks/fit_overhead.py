"""What the measurement costs: a trial's timed epochs beside a bare Keras script, in one run.

    python -m tests.benchmarks.fit_overhead [--rounds 7] [--epochs 8] [--units 64]

The trial runs through `python -m workloads`, warm. The bare script is a process of its own that
builds the same model with plain Keras, warms it up, and times `model.fit` with no callbacks, less
what `model.fit` takes for no epoch at all (its set-up, which a trial's epochs do not hold either).
Both take turns, so that whatever else the machine does hits both; to reach: at most 1.03.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any

from tests.workloads.asking import Trainer, result
from workloads.backend import environment_for
from workloads.implementations import parse

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
    data = load_images("digits").train
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
    model.fit(data.images, data.labels, epochs=1, **fit)
    def seconds(epochs):
        began = time.perf_counter()
        model.fit(data.images, data.labels, epochs=epochs, **fit)
        return time.perf_counter() - began
    out.write(json.dumps(seconds(s["epochs"]) - seconds(0)) + "\n")
"""


def main() -> None:
    """Print the ratio, its spread over the rounds, and both medians."""
    options = _parser().parse_args()
    settings = {"units": options.units, "layers": 2, "epochs": options.epochs, "batch_size": 32}
    ratios, trials, bares = [], [], []
    environment = environment_for(parse("tensorflow/portable"), "cpu")
    with _bare(environment) as bare, Trainer(stderr=subprocess.DEVNULL) as trainer:
        for number in range(options.rounds + 1):
            turns = [lambda: _trial_s(trainer, settings), lambda: _bare_s(bare, settings)]
            order = (0, 1) if number % 2 else (1, 0)
            seconds = {turn: turns[turn]() for turn in order}
            if number == 0:
                continue  # both processes' first is cold
            trials.append(seconds[0])
            bares.append(seconds[1])
            ratios.append(seconds[0] / seconds[1])
            print(f"round {number}: trial {seconds[0]:.3f} s, bare {seconds[1]:.3f} s,"
                  f" ratio {ratios[-1]:.3f}")  # fmt: skip
        bare.kill()
    print(f"median of {options.rounds} rounds: trial {statistics.median(trials):.3f} s, bare"
          f" {statistics.median(bares):.3f} s, ratio {statistics.median(ratios):.3f}"
          f" ({min(ratios):.3f}–{max(ratios):.3f}); to reach: at most 1.03")  # fmt: skip


def _trial_s(trainer: Trainer, settings: dict[str, Any]) -> float:
    events = trainer.ask("image_rows", "tensorflow/portable", settings=settings)
    return result(events)["train_s"]


def _bare_s(bare: subprocess.Popen[str], settings: dict[str, Any]) -> float:
    assert bare.stdin is not None and bare.stdout is not None
    bare.stdin.write(json.dumps(settings) + "\n")
    bare.stdin.flush()
    return float(json.loads(bare.stdout.readline()))


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--units", type=int, default=64)
    return parser


if __name__ == "__main__":
    main()
