"""A train step on PyTorch that calls layers, loss and optimizer directly.

PyTorch traces nothing: the Python code that Keras wraps around every layer, loss and metric runs in
every step, and takes about 2 ms even for a small model. `DirectModel` omits it. `fit`, the layers,
the loss, the optimizer and the resulting numbers are Keras' own.
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
    """A model on PyTorch with a direct train step.

    With masks or mixed precision it uses Keras' own step. The direct step returns no logs: the
    results of the metrics are computed once, at the end of an epoch.
    """

    def callbacks(self) -> list[Any]:
        """Return `NoThreadCallback`; with Keras' own step it would read the logs in every step."""
        return [NoThreadCallback()] if isinstance(self.witness.direct_step, _Step) else []

    def train_step(self, data: Any) -> Any:
        """Run one step on `(inputs, targets)`.

        The first step is Keras' own, which makes the variables of the metrics.
        """
        step = self.witness.direct_step
        if step is None:
            logs = super().train_step(data)
            self.witness.direct_step = _step_of(self) or super().train_step
            return logs
        if isinstance(step, _Step):
            self.witness.record_call("train", (data,))
        return step(data)

    def _get_metrics_result_or_logs(self, logs: Any) -> Any:
        return super()._get_metrics_result_or_logs(logs or self.get_metrics_result())


class NoThreadCallback(keras.callbacks.Callback):
    """A callback with an empty step hook, so that `fit` starts no thread for such hooks."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The direct train step: its layers, loss, optimizer and metrics."""

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
    """Return the direct step of a model after its first step; None if its results would differ."""
    tracker, *others = _flat_metrics(model)
    loss = model.loss
    is_plain = (
        all(_is_plain(layer) for layer in model.layers)
        and not model.losses
        and isinstance(loss, keras.losses.Loss)
        and loss.reduction == "sum_over_batch_size"
        and all(isinstance(metric, keras.metrics.MeanMetricWrapper) for metric in others)
    )
    if not is_plain:
        return None
    return _Step(
        layers=tuple(_call_in_training(layer) for layer in model.layers),
        loss=_loss_of(loss),
        optimizer=model.optimizer,
        variables=list(model.trainable_variables),
        loss_mean=_Mean(tracker.total, tracker.count),
        metrics=tuple((_Mean(metric.total, metric.count), _metric_of(metric)) for metric in others),
    )


def _loss_of(loss: Any) -> Callable[[Any, Any], Any]:
    """Return the function for the losses of a batch, or for their mean."""
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        config = loss.get_config()
        if config["from_logits"] and config.get("ignore_class") is None:
            return _cross_entropy
    call: Callable[[Any, Any], Any] = loss.call
    return call


def _cross_entropy(targets: Any, logits: Any) -> Any:
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten().long())


def _metric_of(metric: Any) -> Callable[[Any, Any], Any]:
    """Return the function for the values whose mean is the metric."""
    if metric._fn is keras.metrics.sparse_categorical_accuracy:
        return _is_right
    values: Callable[[Any, Any], Any] = metric._fn
    return values


def _is_right(targets: Any, outputs: Any) -> Any:
    return (outputs.argmax(-1) == targets.reshape(outputs.shape[:-1])).float()


def _is_plain(layer: Any) -> bool:
    """Return True if `call` is all that a layer computes: it makes no mask and casts nothing."""
    makes_mask = isinstance(layer, keras.layers.Masking) or getattr(layer, "mask_zero", False)
    return not makes_mask and layer.compute_dtype == layer.variable_dtype


def _call_in_training(layer: Any) -> Callable[[Any], Any]:
    if layer._call_has_training_arg:
        return lambda inputs: layer.call(inputs, training=True)
    call: Callable[[Any], Any] = layer.call
    return call


def _flat_metrics(model: keras.Model) -> list[Any]:
    """Return the tracker of the loss, and the metrics that `compile` got."""
    metrics: list[Any] = []
    for metric in model.metrics:
        metrics += getattr(metric, "metrics", None) or [metric]
    return metrics
