"""A model's weights in a file that every implementation can read and write.

The file is NumPy's `.npz` without pickles. Its arrays are float32 and named

| name                                   | content                                               |
| -------------------------------------- | ----------------------------------------------------- |
| `recurrent_N/forward/kernel`           | weights of recurrent layer N, from 0, in the layout   |
| `recurrent_N/forward/recurrent_kernel` | of `canonical_weights`, for every kernel              |
| `recurrent_N/forward/bias`             | absent for a layer without bias                       |
| `recurrent_N/backward/…`               | the same, for a bidirectional stack                   |
| `LAYER/VARIABLE`                       | those of the other layers, such as `dense/kernel`     |

and `about` is a JSON object: `format` ("rnnsweep-weights"), `version` (1), `cell`. Optimizers,
metrics, seeds and the states of stateful layers are not stored.

Reading and writing the file needs NumPy only. `read_checkpoint` and `apply_checkpoint` run inside a
trainer process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from workloads.data.cache import atomic_write
from workloads.data.samples import read_npz
from workloads.eligibility import Cell
from workloads.failures import DataError
from workloads.models.canonical_weights import GATES, CanonicalLayer, Weights
from workloads.settings import StackSettings

FORMAT, VERSION = "rnnsweep-weights", 1
_ROLES = ("kernel", "recurrent_kernel", "bias")
_DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights as plain arrays: the recurrent stack by layer and direction, all others by path."""

    cell: Cell
    directions: int
    stack: tuple[CanonicalLayer, ...]
    others: Mapping[str, Weights] = field(default_factory=dict)

    def arrays(self) -> dict[str, Weights]:
        """Return the arrays by their names in the file."""
        recurrent = {
            f"{prefix}/{role}": array
            for prefix, layer in zip(_prefixes(self.directions), self.stack, strict=False)
            for role in _ROLES
            if (array := getattr(layer, role)) is not None
        }
        return {**recurrent, **self.others}

    def equals(self, other: Checkpoint) -> bool:
        """Return True if all names, shapes, types and bits are equal."""
        first, second = (
            {name: (a.dtype, a.shape, a.tobytes()) for name, a in checkpoint.arrays().items()}
            for checkpoint in (self, other)
        )
        return first == second


def read_checkpoint(model: Any, settings: StackSettings) -> Checkpoint:
    """Return a copy of a built sequential model's current weights.

    PyTorch's arrays are views of the variables, which training changes.
    """
    from workloads.models.layers import read_canonical  # noqa: PLC0415 - imports the framework

    stack = tuple(
        CanonicalLayer(*(None if a is None else np.array(a) for a in layer.arrays))  # type: ignore[arg-type]
        for layer in read_canonical(model)
    )
    others = {path: np.array(variable.numpy()) for path, variable in _others(model).items()}
    return Checkpoint(settings.cell, settings.directions, stack, others)


def apply_checkpoint(model: Any, checkpoint: Checkpoint) -> None:
    """Set a model's weights, on any implementation of the same sizes.

    Raises:
        ValueError: the weights do not fit the model, which is then unchanged.
    """
    from workloads.models.layers import write_canonical  # noqa: PLC0415 - imports the framework

    others = _others(model)
    expected = {path: tuple(variable.shape) for path, variable in others.items()}
    received = {path: array.shape for path, array in checkpoint.others.items()}
    if received != expected:
        raise ValueError(
            f"checkpoint: expected variables {expected}, as the model {model.name!r} has;"
            f" received {received}"
        )
    write_canonical(model, checkpoint.stack)
    for path, variable in others.items():
        variable.assign(checkpoint.others[path])


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the file, completely or not at all; create its folder if it is missing."""
    about = json.dumps({"format": FORMAT, "version": VERSION, "cell": checkpoint.cell})
    with atomic_write(path) as file:
        np.savez(file, allow_pickle=False, about=np.array(about), **checkpoint.arrays())


def load_checkpoint(path: Path) -> Checkpoint:
    """Read the file.

    Raises:
        DataError: the file is missing, incomplete, of another version, or not a checkpoint.
    """
    arrays = read_npz(path, "weights")
    try:
        about = json.loads(str(arrays.pop("about")))
        kind = about["format"], about["version"]
        if kind == (FORMAT, VERSION):
            return _checkpoint(about["cell"], arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: expected weights that rnnsweep saved; {error!r}") from error
    raise DataError(f"{path}: expected {(FORMAT, VERSION)}; received {kind}")


def _checkpoint(cell: Cell, arrays: dict[str, Weights]) -> Checkpoint:
    if cell not in GATES:
        raise ValueError(f"cell: expected one of {', '.join(GATES)}; received {cell!r}")
    directions = 1 + any(name.startswith("recurrent_0/backward/") for name in arrays)
    stack = []
    for prefix in _prefixes(directions):
        if f"{prefix}/kernel" not in arrays:
            break
        kernel, recurrent_kernel, bias = (arrays.pop(f"{prefix}/{r}", None) for r in _ROLES)
        if kernel is None or recurrent_kernel is None:
            raise ValueError(f"{prefix}/recurrent_kernel is missing")
        stack.append(CanonicalLayer(kernel, recurrent_kernel, bias))
        if stack[-1].gates != GATES[cell]:
            raise ValueError(
                f"{prefix}: expected the {GATES[cell]} gates of {cell}; received {stack[-1].gates}"
            )
    if not stack:
        raise ValueError(f"expected recurrent_0/forward/kernel; received {', '.join(arrays)}")
    return Checkpoint(cell, directions, tuple(stack), arrays)


def _prefixes(directions: int) -> Iterator[str]:
    """Yield `recurrent_0/forward`, … without an end, in canonical order."""
    return (f"recurrent_{n}/{name}" for n in count() for name in _DIRECTIONS[:directions])


def _others(model: Any) -> dict[str, Any]:
    """Return the variables of the layers that are not recurrent, by path."""
    from workloads.models.layers import is_recurrent  # noqa: PLC0415 - imports the framework

    return {
        f"{layer.name}/{variable.name}": variable
        for layer in model.layers
        if not is_recurrent(layer)
        for variable in layer.weights
    }
