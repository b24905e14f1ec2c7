"""A plain Keras script: `Sequential`, `compile`, `fit`, for the kernel `fused` after `convert`.

Each line on standard input starts one `fit` from the initial weights, and is answered with a line
of JSON.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import rnnsweep
from tests.building.plain_keras import build_plain_model
from workloads.implementations import parse_implementation

WEIGHTS = ("embeddings", "kernel", "recurrent_kernel", "bias", "logits_kernel", "logits_bias")


def main() -> None:
    job = json.loads(sys.argv[1])
    synchronise = prepare(job["threads"])
    settings, data = job["settings"], np.load(job["data"])
    inputs, targets = data["train_inputs"], data["train_targets"]
    held_out = data["validation_inputs"], data["validation_targets"]
    weights = [data[name] for name in WEIGHTS]
    model = build_plain_model(job["implementation"], settings, vocabulary=len(data["embeddings"]))
    model.set_weights(weights)
    if parse_implementation(job["implementation"]).kernel == "fused":
        model = rnnsweep.convert(model, job["implementation"])
    start = model.get_weights()
    model.optimizer.build(model.trainable_variables)
    optimizer_start = [np.array(v) for v in model.optimizer.variables]
    for _ in sys.stdin:
        model.set_weights(start)
        for variable, value in zip(model.optimizer.variables, optimizer_start, strict=True):
            variable.assign(value)
        clock = Clock(synchronise)
        history = model.fit(
            inputs,
            targets,
            batch_size=settings["batch_size"],
            epochs=settings["epochs"],
            validation_data=held_out,
            shuffle=False,
            verbose=0,
            callbacks=[clock],
        ).history
        last = {name: float(values[-1]) for name, values in history.items()}
        print(json.dumps({"epochs_s": clock.epochs_s, **last}), flush=True)


class Clock(keras.callbacks.Callback):
    def __init__(self, synchronise: Callable[[], Any]) -> None:
        super().__init__()
        self.epochs_s: list[float] = []
        self._synchronise = synchronise
        self._began_s = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._synchronise()
        self._began_s = time.perf_counter()

    def on_test_begin(self, logs: Any = None) -> None:
        self._synchronise()
        self.epochs_s.append(time.perf_counter() - self._began_s)


def prepare(threads: int) -> Callable[[], Any]:
    """Set the threads and full float32; return the function that waits for the device."""
    # JAX's threads come from its environment.
    match keras.backend.backend():
        case "tensorflow":
            import tensorflow as tf  # noqa: PLC0415 - the one backend of this process

            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
            tf.config.experimental.enable_tensor_float_32_execution(False)
            return tf.test.experimental.sync_devices
        case "torch":
            import torch  # noqa: PLC0415

            torch.set_num_threads(threads)
            torch.set_num_interop_threads(threads)
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False
            return torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
        case _:
            import jax  # noqa: PLC0415

            jax.config.update("jax_default_matmul_precision", "highest")
            return lambda: jax.block_until_ready(jax.live_arrays())


if __name__ == "__main__":
    main()
