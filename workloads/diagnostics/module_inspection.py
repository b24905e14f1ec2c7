"""Try a user's own PyTorch module on a batch before any trial. Imports PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from workloads.backends.feeding import packed, with_float_type
from workloads.data.array_trees import arrays_of, map_arrays, shapes_text
from workloads.data.samples import DataSet, Samples, batches_not_finite
from workloads.eligibility import module_ineligibility_reason
from workloads.failures import BadRequest, DataError, NonFinite, TrialError
from workloads.implementations import Implementation, parse_implementation
from workloads.model_facts import ArmFact
from workloads.modules.compiling import compile_refusal_reason
from workloads.modules.module_run import (
    LOW_PRECISION,
    call_with,
    expect_loss,
    float_type_of,
    make_optimizer,
)
from workloads.modules.own_module import OwnModule
from workloads.own_code import CodeFiles, describe_error
from workloads.protocol import Device, TimedWork

_MOST_SAMPLES = 8
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
) -> tuple[str, ...]:
    """Run the timed work on a few samples; return the names of the metrics of validation.

    Samples with values that are NaN or infinite are tried as well. `location` is the function that
    returned the data. Raise `BadRequest` for functions that do not keep their contract, `DataError`
    for data that the module does not take, `NonFinite` for a loss, a metric or an output that is
    NaN or infinite.
    """
    optimizer = None
    if timed_work == "train":
        expect_loss(own)
        optimizer = make_optimizer(own, own.module)
    first = data.train.first(_MOST_SAMPLES)
    names = _try(own, optimizer, _tensors(own, first), location, code, "the first batch")
    for where, samples in batches_not_finite(data, _MOST_SAMPLES):
        which = f"{where}, which has a value that is NaN or infinite"
        _try(own, optimizer, _tensors(own, samples), location, code, which)
    return names


def _try(
    own: OwnModule,
    optimizer: Any,
    batch: tuple[Any, ...],
    location: str,
    code: CodeFiles | None,
    which: str,
) -> tuple[str, ...]:
    """Predict a batch, or with an optimizer train on it; return the names of the metrics.

    `which` names the batch in the message if a result is NaN or infinite.
    """
    received = f"x {_shapes(batch[0])}"
    if optimizer is not None:
        received += f" and y {_shapes(batch[1])}"
    try:
        outputs = call_with(own.module, batch[0])
        values = {} if optimizer is None else _train_once(own, optimizer, outputs, batch)
    except TrialError:
        raise
    except (ValueError, TypeError, RuntimeError, IndexError) as error:
        reason = describe_error(error, code).splitlines()[0]
        raise DataError(
            f"{location}: expected data for the module of {own.location}; received {received}:"
            f" return arrays of the shapes that its forward takes. It said: {reason}"
        ) from error
    names = tuple(values)
    if optimizer is None:
        totals = [leaf.detach().double().sum() for leaf in _tensors_of(outputs)]
        values = {f"output {number}": float(total) for number, total in enumerate(totals)}
    faults = [name for name, value in values.items() if not _is_finite(value)]
    if faults:
        raise NonFinite(
            f"{own.location}: expected finite numbers for {which}; {' and '.join(faults)}"
            f" {'is' if len(faults) == 1 else 'are'} NaN or infinite, with {received}: look for"
            " missing or very large values in the data, and at the loss"
        )
    return names


def examine_module(
    own: OwnModule, data: DataSet, implementations: tuple[str, ...], probe: int
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
                reason = _refusal_on_cpu(own, data, implementation)
            yield ArmFact(probe, text, device, reason)


def _refusal_on_cpu(own: OwnModule, data: DataSet, implementation: Implementation) -> str | None:
    """Return why this machine's CPU cannot run a module in a precision, or compiled."""
    dtype = LOW_PRECISION.get(implementation.precision)
    if dtype is not None:
        inputs = _tensors(own, data.train.first(_MOST_SAMPLES))[0]
        try:
            with torch.autocast("cpu", dtype):
                call_with(own.module, inputs)
        except RuntimeError as error:
            line = str(error).splitlines()[0]
            return f"the module cannot compute in {implementation.precision} here: {line}"
    return compile_refusal_reason("cpu") if "compile" in implementation.options else None


def _tensors(own: OwnModule, samples: Samples) -> tuple[Any, ...]:
    """Return samples as a batch of tensors, in the float type of the module."""
    typed = with_float_type(samples, float_type_of(own.module))
    batch: tuple[Any, ...] = map_arrays(torch.as_tensor, packed(typed))
    return batch


def _train_once(
    own: OwnModule, optimizer: Any, outputs: Any, batch: tuple[Any, ...]
) -> dict[str, float]:
    """Train on a batch; return the values of the loss and of the user's metrics."""
    assert own.loss is not None
    loss = own.loss(outputs, *batch[1:])
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
        raise BadRequest(
            f"{own.location}: expected loss(outputs, targets) next to it to return a tensor with"
            f" one element that depends on the weights; received {_described(loss)}"
        )
    values = {"loss": float(loss.detach())}
    if own.measure is not None:
        with torch.no_grad():
            measured = own.measure(outputs, batch[1])
        if not isinstance(measured, dict) or not all(_is_number(v) for v in measured.values()):
            raise BadRequest(
                f"{own.location}: expected metrics(outputs, targets) next to it to return a dict of"
                f" names and numbers, the means of the batch; received {_described(measured)}"
            )
        values |= {str(name): float(value) for name, value in measured.items()}
    loss.backward()
    optimizer.step()
    return values


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
