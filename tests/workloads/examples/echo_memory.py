"""A user's own workload: a small recurrent network in plain NumPy, really trained.

It learns to repeat the first of a few random bits at the end of the sequence. In a spec:

    workload: tests.workloads.examples.echo_memory:run
    settings: {epochs: 20}
    search: {space: {units: {low: 8, high: 32}}, …}
    arms: {implementations: [numpy/loop], hardware: [cpu]}
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnsweep import Context

Array = NDArray[np.floating[Any]]
_SAMPLES, _STEPS, _BATCH = 512, 6, 32


def run(trial: Context) -> dict[str, float]:
    """Train by back-propagation through time; return the final loss and accuracy."""
    draw = np.random.default_rng(trial.seed)
    units, epochs = int(trial.settings.get("units", 16)), int(trial.settings.get("epochs", 20))
    with trial.phase("load"):
        bits = draw.integers(0, 2, (_SAMPLES, _STEPS)) * 2.0 - 1.0
        network = Network(units, draw)
    trial.kernel(asked="loop", ran="loop", evidence="there is only one implementation")
    loss = accuracy = 0.0
    for index in range(epochs):
        if trial.should_prune():
            epochs = index
            break
        with trial.phase("train") as window:
            batches = bits.reshape(-1, _BATCH, _STEPS)
            loss = float(np.mean([network.step(batch) for batch in batches]))
        accuracy = float(np.mean(np.sign(network.outputs(bits)[1]) == bits[:, 0]))
        trial.epoch(index, window.seconds, loss=loss, accuracy=accuracy)
    echoes = zip(bits[:8, 0], network.outputs(bits[:8])[1], strict=True)
    trial.artifact("echoes.txt", "".join(f"{bit:+.0f} {output:+.2f}\n" for bit, output in echoes))
    steps = epochs * _SAMPLES // _BATCH
    return {"loss": loss, "accuracy": accuracy, "step_ms": 1e3 * trial.seconds["train"] / steps}


class Network:
    """A network of tanh units over a sequence of bits, with one linear output at its end."""

    def __init__(self, units: int, draw: np.random.Generator) -> None:
        self.first = draw.normal(0, 0.5, units)
        self.recurrent = np.eye(units) + draw.normal(0, 0.1 / np.sqrt(units), (units, units))
        self.last = draw.normal(0, 1 / np.sqrt(units), units)

    def outputs(self, bits: Array) -> tuple[list[Array], Array]:
        states: list[Array] = [np.zeros((len(bits), len(self.first)))]
        for column in bits.T:
            states.append(np.tanh(np.outer(column, self.first) + states[-1] @ self.recurrent))
        return states, states[-1] @ self.last

    def step(self, bits: Array, rate: float = 0.05) -> float:
        """Run a step of gradient descent on the squared error; return the error before it."""
        states, output = self.outputs(bits)
        error = (output - bits[:, 0]) / len(bits)
        gradient = np.outer(error, self.last)
        change_first, change_recurrent = np.zeros_like(self.first), np.zeros_like(self.recurrent)
        for index in reversed(range(_STEPS)):
            gradient = gradient * (1 - states[index + 1] ** 2)
            change_first += bits[:, index] @ gradient
            change_recurrent += states[index].T @ gradient
            gradient = gradient @ self.recurrent.T
        self.last -= rate * (states[-1].T @ error)
        self.first -= rate * change_first
        self.recurrent -= rate * change_recurrent
        return float(np.mean((output - bits[:, 0]) ** 2))
