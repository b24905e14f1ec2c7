"""Try a user's own PyTorch module on a batch before any trial. Imports PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from workloads.backends.feeding import packed, with_float_type
from workloads.data.array_trees import arrays_of, map_arrays, shapes_text
from workloads.data.samples import DataSet, Samples, batches_not_finite, full_batches
from workloads.diagnostics.value_ranges import extreme_samples
from workloads.eligibility import module_ineligibility_reason
from workloads.failures import BadRequest, DataError, NonFinite, TrialError
from workloads.implementations import Implementation, parse_implementation
from workloads.model_facts import ArmFact, GraphCounts
from workloads.modules import compiling
from workloads.modules.batches import to_tensor
from workloads.modules.calling import call_with
from workloads.modules.carried_state import (
    find_carried_state,
    kept_tensors,
    restore_kept,
    takes_batch,
)
from workloads.modules.module_run import (
    LOW_PRECISION,
    expect_loss,
    float_type_of,
    make_optimizer,
)
from workloads.modules.own_module import OwnModule, set_mode
from workloads.own_code import CodeFiles, describe_error
from workloads.protocol import Device, TimedWork

_DEVICES: tuple[Device, ...] = ("cpu", "gpu")


def describe_module(own: OwnModule) -> str:
    """Write the layers of a module, and its weights with their shapes and types."""
    weights = [
        (name, tuple(value.shape), str(value.dtype))
        for name, value in own.module.state_dict().items()
        if isinstance(value, torch.Tensor)
    ]
    return f"{own.module!r}{weights}"


def try_module(
    own: OwnModule,
    data: DataSet,
    location: str,
    timed_work: TimedWork,
    code: CodeFiles | None,
    batch_size: int,
    shuffle: bool | None = None,
) -> TriedModule:
    """Run the timed work on the first batch, and validate on another.

    They are in the order of a trial: at random, unless `shuffle` is False. A module that takes no
    other size is tried on a full batch, and one that carries a state from batch to batch also on
    two full batches in the order of the data. Samples with values that are NaN or infinite are
    tried as well. `location` is the function that returned the data. Raise `BadRequest` for
    functions that do not keep their contract, `DataError` for data that the module does not take,
    `NonFinite` for a loss, a metric or an output that is NaN or infinite.
    """
    optimizer = None
    if timed_work == "train":
        expect_loss(own)
        optimizer = make_optimizer(own, own.module)
    trial = _ModuleTrial(own, optimizer, location, code)
    count = min(batch_size, len(data.train))  # a module may be written for this size alone
    in_order = _tensors(own, data.train.first(count))
    carried = find_carried_state(own.module, in_order[0])
    if carried or _takes_full_batches_only(own, data.train, in_order[0]):
        full_batches(data.train, batch_size, f"{location}: train")
        full_batches(data.validation, batch_size, f"{location}: validation")
    for where, samples in batches_not_finite(data, count):  # the most exact message is first
        trial.run(_tensors(own, samples), f"{where}, which has a NaN or infinite value")
        restore_kept(own.module, carried)
    if shuffle is False or (carried and not shuffle):
        names = trial.run(in_order, "the first batch")
    else:
        rows = np.random.default_rng(0).permutation(len(data.train))[:count]
        names = trial.run_shuffled(_tensors(own, data.train.take(rows)), in_order)
    if carried:
        restore_kept(own.module, carried)
        full = full_batches(data.train, batch_size, f"{location}: train").first(2 * batch_size)
        for number in range(len(full) // batch_size):
            batch = full.take(np.arange(number * batch_size, (number + 1) * batch_size))
            trial.run(_tensors(own, batch), f"batch {number + 1}")
    extremes = extreme_samples(data, count)
    if extremes is not None:
        restore_kept(own.module, carried)
        trial.run(_tensors(own, extremes), "the samples with the smallest and largest values")
    restore_kept(own.module, carried)
    if optimizer is not None:
        trial.validate(_tensors(own, data.validation.first(batch_size)))
    restore_kept(own.module, carried)
    return TriedModule(names, tuple(sorted(".".join(filter(None, key)) for key in carried)))


def _takes_full_batches_only(own: OwnModule, samples: Samples, full: Any) -> bool:
    """Return True if a module predicts a full batch and not a single sample."""
    single = _tensors(own, samples.first(1))[0]
    return takes_batch(own.module, full) and not takes_batch(own.module, single)


@dataclass(frozen=True, slots=True)
class TriedModule:
    """The names of a module's metrics of validation, and the attributes that carry its state."""

    metrics: tuple[str, ...]
    carried: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ModuleTrial:
    """A module that is tried on batches; without an optimizer it predicts them."""

    own: OwnModule
    optimizer: Any
    location: str
    """The function that returned the data."""

    code: CodeFiles | None

    def run(self, batch: tuple[Any, ...], which: str) -> tuple[str, ...]:
        """Train on a batch, or predict it; return the names of the metrics.

        `which` names the batch in the message if a result is NaN or infinite.
        """
        own = self.own
        set_mode(own.module, training=self.optimizer is not None)
        with self._doing("the forward pass", batch):
            outputs = call_with(own.module, batch[0])
        if self.optimizer is None:
            totals = [leaf.detach().double().sum() for leaf in _tensors_of(outputs)]
            values = {f"output {number}": float(total) for number, total in enumerate(totals)}
        else:
            values = self._train(outputs, batch)
        faults = [name for name, value in values.items() if not _is_finite(value)]
        if faults:
            raise NonFinite(
                f"{own.location}: {' and '.join(faults)} {'is' if len(faults) == 1 else 'are'} NaN"
                f" or infinite for {which} ({_received(batch)}): check the loss, and the data for"
                " missing or very large values"
            )
        return () if self.optimizer is None else tuple(values)

    def run_shuffled(self, shuffled: tuple[Any, ...], in_order: tuple[Any, ...]) -> tuple[str, ...]:
        """Run a batch of shuffled samples; an error says if samples in their order have none."""
        try:
            return self.run(shuffled, "the first batch")
        except TrialError as error:
            try:
                self.run(in_order, "the first batch")
            except TrialError:
                raise error from None
            raise type(error)(
                f"{error}. The samples are shuffled, and in the order of the data they pass: keep"
                " it by settings.shuffle: false"
            ) from error

    def validate(self, batch: tuple[Any, ...]) -> None:
        """Compute loss and metrics of a batch in eval mode, as the validation of a trial does."""
        set_mode(self.own.module, training=False)
        with torch.no_grad():
            with self._doing("the forward pass in eval mode", batch):
                outputs = call_with(self.own.module, batch[0])
            self._loss_and_metrics(outputs, batch, in_mode=" in eval mode")

    def _train(self, outputs: Any, batch: tuple[Any, ...]) -> dict[str, float]:
        """Train on a batch; return the values of the loss and of the user's metrics."""
        loss, values = self._loss_and_metrics(outputs, batch)
        if not loss.requires_grad:
            raise self._not_a_loss(loss)
        with self._doing("the backward pass", batch):
            loss.backward()
        with self._doing("the step of the optimizer", batch):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return values

    def _loss_and_metrics(
        self, outputs: Any, batch: tuple[Any, ...], in_mode: str = ""
    ) -> tuple[Any, dict[str, float]]:
        own = self.own
        assert own.loss is not None
        with self._doing(f"the function loss{in_mode}", batch):
            loss = own.loss(outputs, *batch[1:])
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise self._not_a_loss(loss, in_mode)
        values = {"loss": float(loss.detach())}
        if own.measure is not None:
            with torch.no_grad(), self._doing(f"the function metrics{in_mode}", batch):
                measured = own.measure(outputs, *batch[1:2])
            if not isinstance(measured, dict) or not all(_is_number(v) for v in measured.values()):
                raise BadRequest(
                    f"{own.location}: metrics(outputs, targets) next to it must return a dict of"
                    f" names and numbers, the means of the batch, not {_described(measured)}"
                )
            values |= {str(name): float(value) for name, value in measured.items()}
        return loss, values

    def _not_a_loss(self, received: Any, in_mode: str = "") -> BadRequest:
        return BadRequest(
            f"{self.own.location}: loss(outputs, targets) next to it must return a tensor with one"
            f" element that depends on the weights; received {_described(received)}{in_mode}"
        )

    @contextmanager
    def _doing(self, step: str, batch: tuple[Any, ...]) -> Iterator[None]:
        """Raise an error of the user's code, or of PyTorch for it, with the step that failed."""
        try:
            yield
        except TrialError:
            raise
        except (ValueError, TypeError, RuntimeError, IndexError) as error:
            reason = describe_error(error, self.code).splitlines()[0]
            if step == "the forward pass":
                raise DataError(
                    f"{self.location}: the forward pass of {self.own.location} failed, with"
                    f" {_received(batch)}: {reason}. If these shapes are wrong, return others"
                ) from error
            raise BadRequest(
                f"{self.own.location}: {step} failed, with {_received(batch)}: {reason}"
            ) from error


def _received(batch: tuple[Any, ...]) -> str:
    """Write the shapes of the inputs, and of the targets if there are some."""
    shapes = [
        f"{name} {_shapes(tree)}{_range_text(tree)}"
        for name, tree in zip("xy", batch, strict=False)
    ]
    return " and ".join(shapes)


def _range_text(tree: Any) -> str:
    """Write the range of one tensor of whole numbers."""
    if not isinstance(tree, torch.Tensor) or tree.is_floating_point() or tree.is_complex():
        return ""
    return f" ({int(tree.min())} to {int(tree.max())})"


def examine_module(
    own: OwnModule,
    data: DataSet,
    implementations: tuple[str, ...],
    probe: int,
    batch_size: int,
) -> Iterator[ArmFact]:
    """Yield whether each implementation can run a module, on each device.

    On a CPU, precisions and the compiler are tried here.
    """
    float_type = float_type_of(own.module)
    for text in implementations:
        for device in _DEVICES:
            implementation = parse_implementation(text)
            reason = module_ineligibility_reason(implementation, device, float_type)
            if reason is None and device == "cpu":
                reason = _refusal_on_cpu(own, data.train.first(batch_size), implementation)
            yield ArmFact(probe, text, device, reason)


def graphs_of_module(
    own: OwnModule, data: DataSet, timed_work: TimedWork, batch_size: int
) -> GraphCounts:
    """Return what `torch.compile` would make of a module for the timed work."""
    set_mode(own.module, training=timed_work == "train")
    with nullcontext() if timed_work == "train" else torch.no_grad():
        return compiling.find_graphs(own.module, _tensors(own, data.train.first(batch_size))[0])


def _refusal_on_cpu(own: OwnModule, batch: Samples, implementation: Implementation) -> str | None:
    """Return why this machine's CPU cannot run a module in a precision, or compiled."""
    dtype = LOW_PRECISION.get(implementation.precision)
    if dtype is not None:
        inputs, before = _tensors(own, batch)[0], kept_tensors(own.module)
        try:
            with torch.autocast("cpu", dtype):
                call_with(own.module, inputs)
        except RuntimeError as error:
            line = str(error).splitlines()[0]
            return f"the module cannot compute in {implementation.precision} here: {line}"
        finally:
            restore_kept(own.module, before)
    return compiling.compile_refusal_reason("cpu") if "compile" in implementation.options else None


def _tensors(own: OwnModule, samples: Samples) -> tuple[Any, ...]:
    """Return samples as a batch of tensors, in the float type of the module."""
    typed = with_float_type(samples, float_type_of(own.module))
    batch: tuple[Any, ...] = map_arrays(to_tensor, packed(typed))
    return batch


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (
        isinstance(value, torch.Tensor) and value.numel() == 1
    )


def _is_finite(value: float) -> bool:
    return bool(torch.isfinite(torch.tensor(value)))


def _tensors_of(outputs: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(outputs)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _shapes(tree: Any) -> str:
    """Write the shapes of one tensor, or of the tensors of a tree."""
    return shapes_text(("", array) for array in arrays_of(tree))


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"{type(value).__name__}: {value!r:.80}"
