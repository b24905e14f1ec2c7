"""Weights of classes in the loss, as `class_weight` of Keras' `fit`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from workloads.data.array_trees import is_single_array
from workloads.data.samples import Samples
from workloads.failures import BadRequest


def with_class_weights(samples: Samples, weights: Mapping[int, float]) -> Samples:
    """Return samples with the weights of their classes; 1 for a class that is not named.

    Keras' `fit` does the same with `class_weight`, but not for every kind of data: on PyTorch it
    refuses batches. Raise `BadRequest` where Keras refuses it, for several targets or for samples
    that have weights.
    """
    if not is_single_array(samples.targets):
        raise BadRequest(
            f"settings.class_weight is for one array of targets, not {_form(samples.targets)}:"
            " return sample weights from the function that loads the data instead"
        )
    if samples.weights is not None:
        raise BadRequest(
            "settings.class_weight and sample weights exclude each other: remove one of them"
        )
    classes = _classes(np.asarray(samples.targets[:]))
    if classes.ndim > 1:
        raise BadRequest(
            "settings.class_weight needs one class for each sample, and the targets have shape"
            f" {samples.targets.shape}: return sample weights from the function that loads the data"
            " instead"
        )
    found, indices = np.unique(classes, return_inverse=True)
    by_class = np.array([weights.get(int(number), 1.0) for number in found], np.float32)
    return replace(samples, weights=by_class[indices])


def _classes(targets: Any) -> Any:
    """Return the class of each sample: its number, or the index of the largest target."""
    if targets.ndim > 1:
        targets = targets[..., 0] if targets.shape[-1] == 1 else targets.argmax(-1)
    return np.round(targets).astype(np.int64)


def _form(targets: Any) -> str:
    return "no targets" if targets is None else f"{len(targets)} targets"
