"""The weights of a trained model, and the model that a sweep keeps."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workloads.context import Context
from workloads.models.canonical_weights import CanonicalLayer, Weights


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights of a model with any kernel: `others` are those of layers that are not recurrent."""

    recurrent: list[CanonicalLayer]
    others: dict[str, Weights]
    """By the names of the layer and the variable."""


def read_checkpoint(model: Any) -> Checkpoint:
    """Return a copy of a built model's weights: PyTorch's arrays would change in training."""
    from workloads.models import layers  # noqa: PLC0415 - imports the framework

    return Checkpoint(
        [
            CanonicalLayer(
                np.array(kernel), np.array(recurrent), None if bias is None else np.array(bias)
            )
            for kernel, recurrent, bias in layers.read_canonical(model)
        ],
        {name: np.array(variable.numpy()) for name, variable in _other_variables(model).items()},
    )


def apply_checkpoint(model: Any, checkpoint: Checkpoint) -> None:
    """Set a model's weights on any implementation; `ValueError` if they do not fit: none is set."""
    from workloads.models import layers  # noqa: PLC0415 - imports the framework

    layers.write_canonical(model, checkpoint.recurrent)
    for name, variable in _other_variables(model).items():
        variable.assign(checkpoint.others[name])


def keep_model(trained: Checkpoint, trial: Context, build: Callable[[], Any]) -> None:
    """Keep weights in the model as its author wrote it, which `build` returns.

    The text `model_not_kept.txt` has the reason if that fails: the measurements count.
    """
    try:
        model = build()
        apply_checkpoint(model, trained)
        plain = type(model).from_config(model.get_config())  # without optimizer and loss
        plain.set_weights(model.get_weights())
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.keras"
            plain.save(file)
            trial.checkpoint(file)
    except Exception as error:  # noqa: BLE001 - memory, disk, or a limit
        trial.artifact("model_not_kept.txt", f"{type(error).__name__}: {error}")


def _other_variables(model: Any) -> dict[str, Any]:
    """Return the variables of the layers that are not recurrent, by path."""
    from workloads.models import layers  # noqa: PLC0415 - imports the framework

    return {
        f"{layer.name}/{variable.name}": variable
        for layer in layers.layers_of(model)
        if not layers.is_recurrent(layer)
        for variable in layer.weights
    }
