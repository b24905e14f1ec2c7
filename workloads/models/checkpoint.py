"""Weights in a NumPy file that every implementation reads and writes (`docs/weights.md`)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workloads.context import Context
from workloads.data.cache import atomic_write
from workloads.data.samples import read_npz
from workloads.failures import DataError
from workloads.models.canonical_weights import CanonicalLayer, Weights

CHECKPOINT_FORMAT, CHECKPOINT_VERSION = "rnnsweep-weights", 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The weights of a model with a recurrent cell, by their names in the file."""

    cell: str
    arrays: dict[str, Weights]

    def equals(self, other: Checkpoint) -> bool:
        """Return True if all names, shapes, types and bits are equal."""
        first, second = (
            {name: (a.dtype, a.shape, a.tobytes()) for name, a in checkpoint.arrays.items()}
            for checkpoint in (self, other)
        )
        return first == second


def read_checkpoint(model: Any) -> Checkpoint:
    """Return a copy of a built model's weights: PyTorch's arrays would change in training."""
    from workloads.models import layers  # noqa: PLC0415 - imports the framework

    arrays = {path: variable.numpy() for path, variable in _other_variables(model).items()}
    names = layers.canonical_names(model)
    for prefix, layer in zip(names, layers.read_canonical(model), strict=True):
        for role, array in layer._asdict().items():
            if array is not None:
                arrays[f"{prefix}/{role}"] = array
    copies = {name: np.array(array) for name, array in arrays.items()}
    return Checkpoint(layers.cell_of(model), copies)


def apply_checkpoint(model: Any, checkpoint: Checkpoint) -> None:
    """Set a model's weights on any implementation; `ValueError` if they do not fit: none is set."""
    from workloads.models import layers  # noqa: PLC0415 - imports the framework

    if checkpoint.cell != (cell := layers.cell_of(model)):
        raise ValueError(f"expected weights of {cell}; received {checkpoint.cell}")
    arrays = checkpoint.arrays
    expected, received = (
        {name: array.shape for name, array in content.items()}
        for content in (read_checkpoint(model).arrays, arrays)
    )
    if different := [n for n in expected | received if expected.get(n) != received.get(n)]:
        wanted, given = ({n: shapes.get(n) for n in different} for shapes in (expected, received))
        raise ValueError(f"expected weights of the shapes {wanted}; received {given}")
    roles = CanonicalLayer._fields
    stack = (
        CanonicalLayer(*(arrays.get(f"{prefix}/{role}") for role in roles))  # type: ignore[arg-type]
        for prefix in layers.canonical_names(model)
    )
    layers.write_canonical(model, stack)
    for path, variable in _other_variables(model).items():
        variable.assign(arrays[path])


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


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the file, completely or not at all; create its folder if it is missing."""
    about = json.dumps(
        {"format": CHECKPOINT_FORMAT, "version": CHECKPOINT_VERSION, "cell": checkpoint.cell}
    )
    with atomic_write(path) as file:
        np.savez(file, allow_pickle=False, about=np.array(about), **checkpoint.arrays)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read the file; raise `DataError` if it is missing, incomplete or no such checkpoint."""
    arrays = read_npz(path, "weights")
    try:
        about = json.loads(str(arrays.pop("about")))
        kind, cell = (about["format"], about["version"]), about["cell"]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: expected weights that rnnsweep saved; {error!r}") from error
    if kind != (CHECKPOINT_FORMAT, CHECKPOINT_VERSION):
        raise DataError(
            f"{path}: expected {(CHECKPOINT_FORMAT, CHECKPOINT_VERSION)}; received {kind}"
        )
    return Checkpoint(cell, arrays)


def _other_variables(model: Any) -> dict[str, Any]:
    """Return the variables of the layers that are not recurrent, by path."""
    from workloads.models import layers  # noqa: PLC0415 - imports the framework

    return {
        f"{layer.name}/{variable.name}": variable
        for layer in layers.layers_of(model)
        if not layers.is_recurrent(layer)
        for variable in layer.weights
    }
