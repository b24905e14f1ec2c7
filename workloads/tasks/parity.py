"""`rnnsweep parity`, as far as it happens inside trainer processes: save here, load there.

Two workloads that `orchestrator.diagnostics.parity` asks for by name, on the model and data of
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
    """Train for the settings' epochs, prove the kernel; save the weights, and the outputs."""
    asked = SaveRequest.model_validate(trial.settings)
    with prepare_framework(trial) as framework:
        data = load(asked.settings)
        record_dataset(trial, data)
        model = build(asked.settings, trial, data)
        run = _run(trial, asked.settings, model, data)
        model.fit(**run.feeds.train.with_targets(), epochs=run.epochs, shuffle=False, verbose=0)
        _prove(trial, asked.settings, run)
        checkpoint.save_checkpoint(
            Path(asked.into.weights), checkpoint.read_checkpoint(model, asked.settings)
        )
        outputs = _outputs(trial, asked.settings, framework, model, data.validation)
        with atomic_write(Path(asked.into.outputs)) as file:
            np.save(file, outputs, allow_pickle=False)
    return {}


def compare(trial: Context) -> dict[str, float]:
    """Prove the kernel; load what others saved into one model, in turn, and compare its outputs."""
    asked = LoadRequest.model_validate(trial.settings)
    with prepare_framework(trial) as framework:
        data = load(asked.settings)
        record_dataset(trial, data)
        if data.digest != asked.digest:
            raise DataError(
                f"{data.source}: expected the data whose outputs were saved, of digest"
                f" {asked.digest}; received {data.digest}: give both machines the same file"
            )
        model = build(asked.settings, trial, data)
        run = _run(trial, asked.settings, model, data)
        run.train_one_step()  # the evidence is read from a step that has run
        _prove(trial, asked.settings, run)
        found = []
        for files in asked.saved:
            exact = _give(model, asked.settings, Path(files.weights))
            outputs = _outputs(trial, asked.settings, framework, model, data.validation)
            found.append(OutputComparison(difference=_difference(outputs, files), exact=exact))
    trial.artifact(ANSWER, OUTPUT_COMPARISONS.dump_json(tuple(found)).decode())
    return {}


def largest_difference(outputs: Outputs, expected: Outputs) -> float | None:
    """max |outputs − expected| / max |expected|; None where any of them is not finite.

    It is relative to the largest output and not to each one's own, which may be anything near 0.
    """
    ours, theirs = outputs.astype(np.float64), expected.astype(np.float64)
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return None
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def _run(
    trial: Context, settings: ImageRowsSettings, model: WitnessedModel, data: Images
) -> TrainingRun:
    from workloads.models.run import TrainingRun  # noqa: PLC0415 - imports the framework

    return TrainingRun(
        model, data.train, data.validation, settings.batch_size, settings.epochs, trial.device
    )


def _prove(trial: Context, settings: ImageRowsSettings, run: TrainingRun) -> None:
    """Tell which kernel the steps of a run used, some of which have run."""
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


def _give(model: WitnessedModel, settings: ImageRowsSettings, path: Path) -> bool:
    """Give the model the weights of a file; whether they read back as they are there."""
    saved = checkpoint.load_checkpoint(path)
    if saved.cell != settings.cell:
        raise DataError(f"{path}: expected weights of {settings.cell}; received {saved.cell}")
    try:
        checkpoint.apply_checkpoint(model, saved)
    except ValueError as error:
        raise DataError(f"{path}: {error}: load weights that these settings saved") from error
    return checkpoint.read_checkpoint(model, settings).equals(saved)


def _difference(outputs: Outputs, files: SavedFiles) -> float | None:
    """That from the saver's outputs; where there are fewer here, from its first ones."""
    try:
        expected: Outputs = np.load(files.outputs, allow_pickle=False)[: len(outputs)]
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{files.outputs}: expected outputs that were saved; {error}") from error
    if expected.shape != outputs.shape:
        raise DataError(
            f"{files.outputs}: expected outputs of shape {outputs.shape}, as they are here;"
            f" received {expected.shape}"
        )
    return largest_difference(outputs, expected)
