"""The trainer side of `rnnsweep parity`: save weights with one implementation, load with another.

`orchestrator.diagnostics.parity` runs these two workloads by name. They use the model and data of
`image_rows`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workloads.context import Context
from workloads.data.cache import atomic_write
from workloads.data.images import Images
from workloads.data.samples import Samples
from workloads.failures import DataError
from workloads.measuring.measurement import prepare_framework, record_dataset
from workloads.models import checkpoint
from workloads.settings.image_rows import ImageRowsSettings
from workloads.settings.parity import (
    ANSWER,
    OUTPUT_COMPARISONS,
    LoadRequest,
    OutputComparison,
    SavedFiles,
    SaveRequest,
)
from workloads.tasks.image_rows import build, load

if TYPE_CHECKING:
    from workloads.frameworks import Framework
    from workloads.models.model import WitnessedModel
    from workloads.models.run import TrainingRun

Outputs = NDArray[Any]


def save(trial: Context) -> dict[str, float]:
    """Train for the settings' epochs, prove the kernel, and save weights and outputs."""
    request = SaveRequest.model_validate(trial.settings)
    with prepare_framework(trial) as framework:
        data = load(request.settings)
        record_dataset(trial, data)
        model = build(request.settings, trial, data)
        run = _training_run(trial, request.settings, model, data)
        model.fit(**run.feeds.train.with_targets(), epochs=run.epochs, shuffle=False, verbose=0)
        _prove(trial, request.settings, run)
        checkpoint.save_checkpoint(
            Path(request.into.weights), checkpoint.read_checkpoint(model, request.settings)
        )
        outputs = _outputs(trial, request.settings, framework, model, data.validation)
        with atomic_write(Path(request.into.outputs)) as file:
            np.save(file, outputs, allow_pickle=False)
    return {}


def compare(trial: Context) -> dict[str, float]:
    """Prove the kernel; load every saved checkpoint into one model and compare the outputs."""
    request = LoadRequest.model_validate(trial.settings)
    with prepare_framework(trial) as framework:
        data = load(request.settings)
        record_dataset(trial, data)
        if data.digest != request.digest:
            raise DataError(
                f"{data.source}: expected the data whose outputs were saved, of digest"
                f" {request.digest}; received {data.digest}: give both machines the same file"
            )
        model = build(request.settings, trial, data)
        run = _training_run(trial, request.settings, model, data)
        run.train_one_step()  # the evidence comes from a step that has run
        _prove(trial, request.settings, run)
        comparisons = []
        for files in request.saved:
            exact = _load_weights(model, request.settings, Path(files.weights))
            outputs = _outputs(trial, request.settings, framework, model, data.validation)
            comparisons.append(
                OutputComparison(difference=_difference(outputs, files), exact=exact)
            )
    trial.artifact(ANSWER, OUTPUT_COMPARISONS.dump_json(tuple(comparisons)).decode())
    return {}


def largest_difference(outputs: Outputs, expected: Outputs) -> float | None:
    """Return max |outputs − expected| / max |expected|; None if any value is not finite.

    It is relative to the largest output and not to every single one, which may be close to 0.
    """
    outputs64, expected64 = outputs.astype(np.float64), expected.astype(np.float64)
    if not (np.isfinite(outputs64).all() and np.isfinite(expected64).all()):
        return None
    return float(np.abs(outputs64 - expected64).max() / np.abs(expected64).max())


def _training_run(
    trial: Context, settings: ImageRowsSettings, model: WitnessedModel, data: Images
) -> TrainingRun:
    from workloads.models.run import TrainingRun  # noqa: PLC0415 - imports the framework

    return TrainingRun(
        model, data.train, data.validation, settings.batch_size, settings.epochs, trial.device
    )


def _prove(trial: Context, settings: ImageRowsSettings, run: TrainingRun) -> None:
    """Report the kernel of a run's steps, some of which have run."""
    from workloads.evidence import Stack, prove  # noqa: PLC0415 - imports the framework

    directions = 2 if settings.bidirectional else 1
    proof = prove(run, Stack(settings.layers, directions, run.train.inputs.shape[1]))
    trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)


def _outputs(
    trial: Context,
    settings: ImageRowsSettings,
    framework: Framework,
    model: WitnessedModel,
    samples: Samples,
) -> Outputs:
    feed = framework.make_feed(samples, settings.batch_size, trial.device)
    return np.asarray(model.predict(**feed.without_targets(), verbose=0))


def _load_weights(model: WitnessedModel, settings: ImageRowsSettings, path: Path) -> bool:
    """Load the weights of a file; return True if they read back bit by bit as in the file."""
    saved = checkpoint.load_checkpoint(path)
    if saved.cell != settings.cell:
        raise DataError(f"{path}: expected weights of {settings.cell}; received {saved.cell}")
    try:
        checkpoint.apply_checkpoint(model, saved)
    except ValueError as error:
        raise DataError(
            f"{path}: {error}: load weights that were saved with these settings"
        ) from error
    return checkpoint.read_checkpoint(model, settings).equals(saved)


def _difference(outputs: Outputs, files: SavedFiles) -> float | None:
    """Return the largest difference from as many of the saved outputs as there are here."""
    try:
        expected: Outputs = np.load(files.outputs, allow_pickle=False)[: len(outputs)]
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{files.outputs}: expected saved outputs; {error}") from error
    if expected.shape != outputs.shape:
        raise DataError(
            f"{files.outputs}: expected outputs of shape {outputs.shape}, as on this machine;"
            f" received {expected.shape}"
        )
    return largest_difference(outputs, expected)
