"""A train step on PyTorch that calls layers, loss and optimizer directly.

PyTorch traces nothing: the Python code that Keras wraps around them takes about 2 ms in every step,
even for a small model. `DirectStep` omits it, and returns no
logs; the resulting numbers are Keras' own.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import keras
import torch
from torch.nn import functional

from workloads.backends.torch.direct_calls import (
    chain_of_calls,
    has_type_of_inputs,
    is_plain_chain,
)
from workloads.data.array_trees import is_single_array

_Measure: TypeAlias = Callable[[Any, Any], Any]
"""A function of targets and outputs."""


class DirectStep:
    """The direct train step: its layers, loss, optimizer and metrics."""

    def __init__(self, model: Any) -> None:
        self._call_layers = chain_of_calls(model, training=True)
        self._loss, self._optimizer = _loss_of(model.loss), model.optimizer
        self._variables = list(model.trainable_variables)
        self._loss_mean, *metrics = _flat_metrics(model)
        self._metrics = [(metric, _metric_of(metric)) for metric in metrics]

    def __call__(self, data: tuple[Any, Any]) -> dict[str, float]:
        """Run the step; return no logs."""
        inputs, targets = data
        outputs, count = self._call_layers(inputs), len(inputs)
        loss = self._loss(targets, outputs).mean()
        values = [variable.value for variable in self._variables]
        for value in values:
            value.grad = None
        loss.backward()
        with torch.no_grad():
            self._optimizer.apply([value.grad for value in values], self._variables)
            _add(self._loss_mean, loss, count)
            for mean, metric in self._metrics:
                _add(mean, metric(targets, outputs).mean(), count)
        return {}


def _add(mean: Any, value: Any, count: int) -> None:
    """Add the value of a batch to a Keras metric that is a mean."""
    mean.total.value.add_(value * count)
    mean.count.value.add_(count)


def computes_the_same(model: Any, batch: tuple[Any, ...]) -> bool:
    """Return True if the direct step of a model has the results of Keras' step on such batches."""
    inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(batch)
    if weights is not None or not (is_single_array(inputs) and is_single_array(targets)):
        return False
    loss, (_, *metrics) = model.loss, _flat_metrics(model)
    return (
        is_plain_chain(model)
        and keras.Sequential in type(model).__bases__  # no train step of the author's own class
        and has_type_of_inputs(model, inputs)
        and not model.losses
        and _is_of_keras(loss)
        and loss.reduction == "sum_over_batch_size"
        and model._compile_loss._user_loss_weights is None
        and all(isinstance(metric, keras.metrics.MeanMetricWrapper) for metric in metrics)
    )


def _is_of_keras(loss: Any) -> bool:
    """Return True for a loss of Keras' own, whose `call` converts the targets itself."""
    return getattr(keras.losses, type(loss).__name__, None) is type(loss)


def _loss_of(loss: Any) -> _Measure:
    """Return the function for the losses of a batch, or for their mean."""
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        config = loss.get_config()
        if config["from_logits"] and config.get("ignore_class") is None:
            return lambda targets, logits: functional.cross_entropy(
                logits.flatten(0, -2), targets.flatten().long()
            )
    call: _Measure = loss.call
    return call


def _metric_of(metric: Any) -> _Measure:
    """Return the function for the values whose mean is the metric."""
    if metric._fn is keras.metrics.sparse_categorical_accuracy:
        return lambda targets, outputs: (
            outputs.argmax(-1) == targets.reshape(outputs.shape[:-1])
        ).float()
    values: _Measure = partial(metric._fn, **metric._fn_kwargs)
    return values


def _flat_metrics(model: keras.Model) -> list[Any]:
    """Return the tracker of the loss, and the metrics that `compile` got."""
    metrics: list[Any] = []
    for metric in model.metrics:
        metrics += getattr(metric, "metrics", None) or [metric]
    return metrics
