"""A train step on PyTorch that calls layers, loss and optimizer directly.

PyTorch traces nothing: what Keras wraps around each layer, loss and metric is Python that runs
anew at each step, some 2 ms of it however small the model. `DirectModel` is the model without it:
`fit` is Keras' own, the layers, the loss and the optimizer are Keras' too, and so are the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import torch
from torch.nn import functional

from workloads.models.model import WitnessedModel


class DirectModel(WitnessedModel):
    """The model on PyTorch; it steps as Keras does where it has masks or mixed precision.

    Its step returns no logs: the metrics' results are computed at the end of an epoch, once.
    """

    def callbacks(self) -> list[Any]:
        """`NoThreadCallback`; for Keras' own step it would fetch the logs at each step."""
        return [NoThreadCallback()] if isinstance(self.witness.step, _Step) else []

    def train_step(self, data: Any) -> Any:
        """One step on `(inputs, targets)`.

        Keras' own comes first: it makes what is not there yet, such as the metrics' variables.
        """
        step = self.witness.step
        if step is None:
            logs = super().train_step(data)
            self.witness.step = _step_of(self) or super().train_step
            return logs
        if isinstance(step, _Step):
            self.witness.note("train", (data,))
        return step(data)

    def _get_metrics_result_or_logs(self, logs: Any) -> Any:
        return super()._get_metrics_result_or_logs(logs or self.get_metrics_result())


class NoThreadCallback(keras.callbacks.Callback):
    """Does nothing at the end of each step, so that `fit` starts no thread to do it in."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class _Step:
    layers: tuple[Callable[[Any], Any], ...]
    loss: Callable[[Any, Any], Any]
    optimizer: Any
    variables: list[Any]
    loss_mean: _Mean
    metrics: tuple[tuple[_Mean, Callable[[Any, Any], Any]], ...]

    def __call__(self, data: tuple[Any, Any]) -> dict[str, float]:
        inputs, targets = data
        outputs = inputs
        for layer in self.layers:
            outputs = layer(outputs)
        loss = self.loss(targets, outputs).mean()
        values = [variable.value for variable in self.variables]
        for value in values:
            value.grad = None
        loss.backward()
        with torch.no_grad():
            self.optimizer.apply([value.grad for value in values], self.variables)
            self.loss_mean.add(loss * len(inputs), len(inputs))
            for mean, metric in self.metrics:
                mean.add(metric(targets, outputs).mean() * len(inputs), len(inputs))
        return {}


@dataclass(frozen=True, slots=True)
class _Mean:
    """The two variables of a Keras metric that is a mean."""

    total: Any
    count: Any

    def add(self, values: Any, count: int) -> None:
        self.total.value.add_(values)
        self.count.value.add_(count)


def _step_of(model: DirectModel) -> _Step | None:
    """The direct step of a model that has taken a step; None where it would compute otherwise."""
    tracker, *others = _each_metric(model)
    loss = model.loss
    plain = (
        all(_is_plain(layer) for layer in model.layers)
        and not model.losses
        and isinstance(loss, keras.losses.Loss)
        and loss.reduction == "sum_over_batch_size"
        and all(isinstance(metric, keras.metrics.MeanMetricWrapper) for metric in others)
    )
    if not plain:
        return None
    return _Step(
        layers=tuple(_call_in_training(layer) for layer in model.layers),
        loss=_loss_of(loss),
        optimizer=model.optimizer,
        variables=list(model.trainable_variables),
        loss_mean=_Mean(tracker.total, tracker.count),
        metrics=tuple((_Mean(each.total, each.count), _metric_of(each)) for each in others),
    )


def _loss_of(loss: Any) -> Callable[[Any, Any], Any]:
    """The losses of a batch, or their mean."""
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        asked = loss.get_config()
        if asked["from_logits"] and asked.get("ignore_class") is None:
            return _cross_entropy
    each: Callable[[Any, Any], Any] = loss.call
    return each


def _cross_entropy(targets: Any, logits: Any) -> Any:
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten().long())


def _metric_of(metric: Any) -> Callable[[Any, Any], Any]:
    """The values that a metric is the mean of."""
    if metric._fn is keras.metrics.sparse_categorical_accuracy:
        return _is_right
    values: Callable[[Any, Any], Any] = metric._fn
    return values


def _is_right(targets: Any, outputs: Any) -> Any:
    return (outputs.argmax(-1) == targets.reshape(outputs.shape[:-1])).float()


def _is_plain(layer: Any) -> bool:
    """Whether its `call` alone computes what the layer computes: no mask is made, nothing cast."""
    makes_mask = isinstance(layer, keras.layers.Masking) or getattr(layer, "mask_zero", False)
    return not makes_mask and layer.compute_dtype == layer.variable_dtype


def _call_in_training(layer: Any) -> Callable[[Any], Any]:
    if layer._call_has_training_arg:
        return lambda inputs: layer.call(inputs, training=True)
    call: Callable[[Any], Any] = layer.call
    return call


def _each_metric(model: keras.Model) -> list[Any]:
    """The tracker of the loss, and the metrics that `compile` was given."""
    found: list[Any] = []
    for metric in model.metrics:
        found += getattr(metric, "metrics", None) or [metric]
    return found
