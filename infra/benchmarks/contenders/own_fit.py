"""The model of sweeps/own_model.py in a program of its user's: `build`, `load` and `fit`.

For another kernel than `auto` the program calls `rnnsweep.convert` before `fit`.

One `fit` without an end. Each line on standard input has a number of steps, which the next whole
epochs take; it is answered with a line of JSON.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import rnnsweep
from infra.benchmarks.contenders.bare_keras import prepare
from workloads.implementations import AUTO, parse_implementation


def main() -> None:
    job = json.loads(sys.argv[1])
    sys.path.append(job["folder"])
    own_model = importlib.import_module("own_model")
    synchronise, settings = prepare(job["threads"]), job["settings"]
    (inputs, targets), _ = own_model.load(settings)
    order = np.random.default_rng([job["seed"], 1]).permutation(len(inputs))
    keras.utils.set_random_seed(job["seed"])
    model = own_model.build(settings)
    if parse_implementation(job["implementation"]).kernel != AUTO:
        model = rnnsweep.convert(model, job["implementation"])
    steps = -(-len(inputs) // settings["batch_size"])
    model.fit(
        inputs[order],
        targets[order],
        batch_size=settings["batch_size"],
        epochs=10**9,
        shuffle=False,
        verbose=0,
        callbacks=[Slices(synchronise, steps)],
    )


class Slices(keras.callbacks.Callback):
    """A callback that times epochs, as many as each line asks for."""

    def __init__(self, synchronise: Callable[[], Any], steps: int) -> None:
        super().__init__()
        self._synchronise, self._steps_of_epoch = synchronise, steps
        self._epochs = self._left = 0
        self._seconds = self._began_s = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if not self._left:
            line = sys.stdin.readline()
            if not line:
                sys.exit()
            self._epochs = self._left = max(1, round(int(line) / self._steps_of_epoch))
            self._seconds = 0.0
        self._synchronise()
        self._began_s = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._synchronise()
        self._seconds += time.monotonic() - self._began_s
        self._left -= 1
        if not self._left:
            steps = self._epochs * self._steps_of_epoch
            print(json.dumps({"steps": steps, "seconds": self._seconds}), flush=True)


if __name__ == "__main__":
    main()
