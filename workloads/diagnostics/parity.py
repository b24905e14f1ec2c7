"""The trainer side of `rnnsweep parity`, with the model and the data of a built-in workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workloads.context import Context
from workloads.data.array_trees import arrays_of
from workloads.data.cache import atomic_write
from workloads.data.samples import DataSet
from workloads.diagnostics.parity_request import (
    ANSWER,
    OUTPUT_COMPARISONS,
    LoadRequest,
    OutputComparison,
    SaveRequest,
)
from workloads.entry import find_task
from workloads.failures import DataError
from workloads.measuring.measurement import load_and_build, prepare_framework, prove_kernel
from workloads.models import checkpoint

if TYPE_CHECKING:
    from workloads.models.run import TrainingRun

Outputs = NDArray[Any]


def save(trial: Context) -> dict[str, float]:
    """Train for the settings' epochs, prove the kernel, and save weights and outputs."""
    request = SaveRequest.model_validate(trial.settings)
    with prepare_framework(trial):
        _, run = _load_and_build(request.workload, request.settings, trial)
        run.fit(run.train_feed, epochs=run.plan.epochs)
        prove_kernel(trial, run)
        weights, outputs = _files(request.into)
        checkpoint.save_checkpoint(weights, checkpoint.read_checkpoint(run.model))
        with atomic_write(outputs) as file:
            np.save(file, _outputs(run), allow_pickle=False)
    return {}


def compare_outputs(trial: Context) -> dict[str, float]:
    """Prove the kernel; load every saved checkpoint into one model and compare the outputs."""
    request = LoadRequest.model_validate(trial.settings)
    with prepare_framework(trial):
        data, run = _load_and_build(request.workload, request.settings, trial)
        if data.digest != request.digest:
            raise DataError(
                f"{data.source}: expected the data whose outputs were saved, of digest"
                f" {request.digest}; received {data.digest}: give both machines the same file"
            )
        run.train_one_step()  # the evidence comes from a step that has run
        prove_kernel(trial, run)
        comparisons = [_comparison(run, *_files(stem)) for stem in request.saved]
    trial.artifact(ANSWER, OUTPUT_COMPARISONS.dump_json(tuple(comparisons)).decode())
    return {}


def _load_and_build(
    workload: str, settings: Mapping[str, Any], trial: Context
) -> tuple[DataSet, TrainingRun]:
    task = find_task(workload)
    return load_and_build(task, task.check_settings(settings), trial)


def largest_difference(outputs: Outputs, expected: Outputs) -> float | None:
    """Return max |outputs − expected| / max |expected|; None if any value is not finite."""
    outputs64, expected64 = outputs.astype(np.float64), expected.astype(np.float64)
    if not (np.isfinite(outputs64).all() and np.isfinite(expected64).all()):
        return None
    return float(np.abs(outputs64 - expected64).max() / np.abs(expected64).max())


def _files(stem: str) -> tuple[Path, Path]:
    return Path(f"{stem}.npz"), Path(f"{stem}.outputs.npy")


def _outputs(run: TrainingRun) -> Outputs:
    """Return the model's predictions; several outputs of a sample are one row."""
    arrays = arrays_of(run.model.predict(**run.validation_feed.without_targets(), verbose=0))
    if len(arrays) == 1:
        return np.asarray(arrays[0])
    return np.concatenate([np.reshape(array, (len(array), -1)) for array in arrays], axis=1)


def _comparison(run: TrainingRun, weights: Path, outputs_file: Path) -> OutputComparison:
    """Load saved weights; compare as many of the saved outputs as there are here."""
    saved = checkpoint.load_checkpoint(weights)
    try:
        checkpoint.apply_checkpoint(run.model, saved)
    except ValueError as error:
        raise DataError(
            f"{weights}: {error}: load weights that were saved with these settings"
        ) from error
    outputs = _outputs(run)
    try:
        expected: Outputs = np.load(outputs_file, allow_pickle=False)[: len(outputs)]
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{outputs_file}: expected saved outputs; {error}") from error
    if expected.shape != outputs.shape:
        raise DataError(
            f"{outputs_file}: expected outputs of shape {outputs.shape}, as on this machine;"
            f" received {expected.shape}"
        )
    exact = checkpoint.read_checkpoint(run.model).equals(saved)
    return OutputComparison(difference=largest_difference(outputs, expected), exact=exact)
