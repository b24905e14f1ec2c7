"""A workload that checks masks: the same batches with and without waiting for the device.

TensorFlow's cuDNN layers copied the lengths of masked sequences to the device without waiting for
the copy (tensorflow/tensorflow#60192). Lengths that change from batch to batch then gave results
that were wrong at random, and right where each batch was waited for. One batch cannot show it.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from pydantic import BaseModel

from workloads.context import Context
from workloads.failures import NotPossible
from workloads.layer_traits import Cell
from workloads.measuring.measurement import prepare_framework
from workloads.settings import StackSettings

MAX_DIFFERENCE = 1e-3
"""Relative. A batch with the lengths of another one differs by some 0.1 to 1; the order in which a
GPU adds up changes results by some 1e-6, and by 1e-4 with TF32."""


class MaskedBatches(BaseModel):
    """Sizes of the stack and its batches; `batches` of them, with lengths of their own."""

    cell: Cell = "lstm"
    batches: int = 300
    batch_size: int = 16
    steps: int = 24
    features: int = 8
    units: int = 32


def check_masks(trial: Context) -> dict[str, float]:
    """Return `batches`, and `largest_difference` between running with and without waiting.

    Raise `NotPossible` if a batch differs by more than `MAX_DIFFERENCE`.
    """
    sizes = MaskedBatches(**trial.settings)
    with prepare_framework(trial) as framework:
        import keras  # noqa: PLC0415 - the framework of this process

        from workloads.models.initial_weights import build_with_initial_weights  # noqa: PLC0415
        from workloads.models.layers import recurrent_stack  # noqa: PLC0415
        from workloads.models.recurrent_parts import (  # noqa: PLC0415
            mark_recurrent_layers,
            recurrent_parts,
        )
        from workloads.models.rewriting import rewrite  # noqa: PLC0415

        def build() -> Any:
            stack = StackSettings(cell=sizes.cell, units=sizes.units)
            shape = sizes.batch_size, sizes.steps, sizes.features
            layers = recurrent_stack(stack, return_sequences=True, seed=trial.seed)
            return keras.Sequential(
                [keras.Input(batch_shape=shape), keras.layers.Masking(), *layers]
            )

        model = build_with_initial_weights(build, trial.seed)
        model = rewrite(model, trial.implementation, framework).model
        mark_recurrent_layers(model, framework)
        passes = framework.make_passes(model, trial.implementation)
        batches = [passes.place(batch) for batch in padded_batches(sizes, trial.seed)]

        def run(wait: Callable[[Any], object]) -> list[Any]:
            framework.synchronise()
            results = []
            for batch in batches:
                result = passes.forward(batch), passes.forward_backward(batch)[-1]
                wait(result)
                results.append(result)
            framework.synchronise(results)
            return results

        run(framework.synchronise)  # compiles
        unwaited, waited = run(lambda result: None), run(framework.synchronise)
        largest = max(
            _difference(keras.ops.convert_to_numpy(right), keras.ops.convert_to_numpy(doubtful))
            for pair in zip(waited, unwaited, strict=True)
            for right, doubtful in zip(*pair, strict=True)
        )
        parts = recurrent_parts(model)
        proof = framework.prove_passes(passes, batches[0], parts, trial.implementation, "train")
        trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)
    if not largest <= MAX_DIFFERENCE:
        raise NotPossible(
            f"{trial.implementation}: masked layers give wrong results here: over {sizes.batches}"
            f" batches of different lengths, they change by up to {largest:.2g} (relative) when"
            " rnnsweep synchronises after each batch"
            " (https://github.com/tensorflow/tensorflow/issues/60192)"
        )
    return {"batches": float(sizes.batches), "largest_difference": largest}


def padded_batches(sizes: MaskedBatches, seed: int) -> Iterable[np.ndarray[Any, Any]]:
    """Yield batches with padding on the right; the lengths of each differ from the last one's."""
    draw = np.random.default_rng([seed, 3])
    for _ in range(sizes.batches):
        lengths = draw.integers(1, sizes.steps + 1, sizes.batch_size)
        is_step = np.arange(sizes.steps) < lengths[:, None]
        values = draw.standard_normal((sizes.batch_size, sizes.steps, sizes.features))
        yield (values * is_step[..., None]).astype(np.float32)


def _difference(right: np.ndarray[Any, Any], doubtful: np.ndarray[Any, Any]) -> float:
    """Return the largest difference, relative to the largest right value; infinite for a NaN."""
    difference = float(np.abs(right - doubtful).max() / max(float(np.abs(right).max()), 1e-30))
    return difference if np.isfinite(difference) else float("inf")
