"""The weights of a trained model, and the model that a sweep keeps."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workloads.context import Context
from workloads.data.samples import Samples
from workloads.model_facts import NOT_KEPT
from workloads.models.canonical_weights import CanonicalLayer, Weights
from workloads.own_code import describe_error


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights of a model with any kernel: `others` are those of layers that are not recurrent."""

    recurrent: list[CanonicalLayer]
    others: dict[str, Weights]
    """By the layer, and the number of the variable in it."""


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


def keep_model(
    trained: Checkpoint, trial: Context, build: Callable[[], Any], samples: Samples
) -> None:
    """Keep weights in the model as its author wrote it, which `build` returns.

    A model that waits for its first batch gets these samples.

    A model whose class has no configuration is kept as its weights. A text and a fact of the trial
    have the reason if that fails: the measurements count.
    """
    from workloads.models.initial_weights import make_variables  # noqa: PLC0415 - the framework

    try:
        model = build()
        make_variables(model, samples)
        apply_checkpoint(model, trained)
        with tempfile.TemporaryDirectory() as folder:
            trial.checkpoint(_save(model, Path(folder)))
    except Exception as error:  # noqa: BLE001 - memory, disk, or a limit
        report_not_kept(trial, error)


def report_not_kept(trial: Context, error: Exception) -> None:
    """Record why the model of a trial could not be kept."""
    text = describe_error(error, None)
    trial.artifact("model_not_kept.txt", text)
    trial.environment(**{NOT_KEPT: text.splitlines()[0]})


def _save(model: Any, folder: Path) -> Path:
    """Save a model without optimizer and loss; return the file."""
    try:
        plain = type(model).from_config(model.get_config())
    except (NotImplementedError, TypeError, ValueError):  # a class of the author that needs more
        file = folder / "model.weights.h5"
        model.save_weights(file)
        return file
    plain.set_weights(model.get_weights())
    file = folder / "model.keras"
    plain.save(file)
    return file


def _other_variables(model: Any) -> dict[str, Any]:
    """Return the variables of the layers that are not recurrent, by layer and number.

    A second model of the same author has other automatic names: `dense_2` for `dense`. So a name
    that Keras gave counts by its rank among the names of its class.
    """
    from workloads.models import layers  # noqa: PLC0415 - imports the framework

    others = [layer for layer in layers.layers_of(model) if not layers.is_recurrent(layer)]
    ranks, names = Counter[str](), dict[int, str]()
    for layer in sorted(others, key=lambda layer: _split_name(layer.name)[1]):
        name, _ = _split_name(layer.name)
        names[id(layer)] = f"{name}:{ranks[name]}"
        ranks[name] += 1
    return {
        f"{names[id(layer)]}/{index}": variable
        for layer in others
        for index, variable in enumerate(layer.weights)
    }


def _split_name(name: str) -> tuple[str, int]:
    """Return a layer's name without the number that Keras counts for each class, and the number."""
    stem, _, number = name.rpartition("_")
    return (stem, int(number)) if stem and number.isdecimal() else (name, 0)
