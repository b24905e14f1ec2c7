"""A workload of your own: an echo state network in NumPy, which learns a majority of bits.

own_workload.yaml names its function `run`. Put your model in its place: any framework will do.
"""

import numpy as np

from rnnsweep import Context

BATCH, COUNTED = 64, 5


def run(trial: Context) -> dict[str, float]:
    """Train for the epochs of the spec, and return the metrics of the trial."""
    settings, units = trial.settings, trial.settings["units"]
    dtype = trial.implementation.kernel  # float32 of numpy/float32
    draw = np.random.default_rng(trial.seed)  # the same on all arms of a block
    with trial.phase("load"):
        bits = draw.choice([-1.0, 1.0], (settings["samples"], settings["sequence_length"]))
        bits = bits.astype(dtype)
        wanted = np.sign(bits[:, -COUNTED:].sum(axis=1))
        enter = draw.uniform(-1, 1, units).astype(dtype)
        recurrent = draw.normal(0, 0.9 / np.sqrt(units), (units, units)).astype(dtype)
        weights = np.zeros(units, dtype)

    def states(sequences):
        state = np.zeros((len(sequences), units), dtype)
        for column in sequences.T:
            state = np.tanh(np.outer(column, enter) + state @ recurrent)
        return state

    loss = accuracy = 0.0
    for epoch in range(settings["epochs"]):
        with trial.phase("train") as window:  # the time that is compared
            for first in range(0, len(bits), BATCH):
                state = states(bits[first : first + BATCH])
                error = state @ weights - wanted[first : first + BATCH]
                weights -= settings["learning_rate"] * (error @ state) / len(error)
        outputs = states(bits) @ weights
        loss = float(np.mean((outputs - wanted) ** 2))
        accuracy = float(np.mean(np.sign(outputs) == wanted))
        trial.epoch(epoch, window.seconds, loss=loss, accuracy=accuracy)
    trial.kernel(asked=dtype, ran=str(weights.dtype), evidence="the type of the trained weights")
    steps = settings["epochs"] * -(-len(bits) // BATCH)
    return {"loss": loss, "accuracy": accuracy, "step_ms": 1e3 * trial.seconds["train"] / steps}
