"""Tensors that a PyTorch module carries from one batch to the next, such as a hidden state."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import nn

from workloads.modules.calling import call_with
from workloads.modules.own_module import set_mode

KeptTensors: TypeAlias = Mapping[tuple[str, str], Any]
"""Values by the name of a module inside the whole one, and the name of its attribute."""

_USUAL = frozenset(vars(nn.Module()))
_TOLERANCE = {"rtol": 1e-3, "atol": 1e-5, "equal_nan": True}


def kept_tensors(module: nn.Module) -> KeptTensors:
    """Return copies of the tensors that the author's modules keep as attributes, or as buffers.

    An attribute that is None may hold one later, and counts. The modules of PyTorch itself do not.
    """
    return {
        (name, attribute): _copied(value)
        for name, part in module.named_modules()
        if not type(part).__module__.startswith("torch.")
        for attribute, value in _attributes(part)
    }


def restore_kept(module: nn.Module, kept: KeptTensors) -> None:
    """Set the attributes back to copies of these values."""
    parts = dict(module.named_modules())
    for (name, attribute), value in kept.items():
        setattr(parts[name], attribute, _copied(value))


def find_carried_state(module: nn.Module, inputs: Any) -> KeptTensors:
    """Return the values of attributes by which one prediction depends on the prediction before it.

    They are the values before the first prediction; none for a module whose second prediction of
    the same inputs is the same, or that cannot predict these inputs. Module and random state are
    left as they were.
    """
    outputs, after = list[Any](), dict[tuple[str, str], Any]()
    try:
        with _left_as_it_was(module) as before:
            for _ in range(2):
                outputs.append(_tensors(_predict(module, inputs)))
                after = after or {**kept_tensors(module)}
    except Exception:  # noqa: BLE001 - its training or validation tells of it
        return {}
    if _are_equal(*outputs):
        return {}
    return {
        key: before.get(key)
        for key, value in after.items()
        if not _are_equal(_tensors(before.get(key)), _tensors(value))
    }


def takes_batch(module: nn.Module, inputs: Any) -> bool:
    """Return True if a module predicts these inputs without an error.

    Module and random state are left as they were.
    """
    try:
        with _left_as_it_was(module):
            _predict(module, inputs)
    except Exception:  # noqa: BLE001 - any error of the user's code
        return False
    return True


@contextmanager
def _left_as_it_was(module: nn.Module) -> Iterator[KeptTensors]:
    """Put a module in inference mode; yield its kept tensors, and set both back at the end."""
    before, was_training = kept_tensors(module), module.training
    set_mode(module, training=False)
    try:
        yield before
    finally:
        for name, attribute in kept_tensors(module).keys() - before.keys():
            delattr(module.get_submodule(name), attribute)
        restore_kept(module, before)
        set_mode(module, training=was_training)


def _predict(module: nn.Module, inputs: Any) -> Any:
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng([*gpus]), torch.no_grad():
        torch.manual_seed(0)
        return call_with(module, inputs)


def _attributes(part: nn.Module) -> Iterator[tuple[str, Any]]:
    yield from part._buffers.items()
    for name, value in vars(part).items():
        if name not in _USUAL and (value is None or _holds_tensors(value)):
            yield name, value


def _holds_tensors(value: Any) -> bool:
    if not isinstance(value, torch.Tensor | list | tuple | dict):
        return False
    leaves = torch.utils._pytree.tree_leaves(value)
    return any(isinstance(leaf, torch.Tensor) for leaf in leaves) and not any(
        isinstance(leaf, nn.Parameter | nn.Module) for leaf in leaves
    )


def _copied(value: Any) -> Any:
    return torch.utils._pytree.tree_map(
        lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, value
    )


def _tensors(tree: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _are_equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    if [tensor.shape for tensor in first] != [tensor.shape for tensor in second]:
        return False
    return all(
        torch.allclose(one.double(), other.double(), **_TOLERANCE)
        for one, other in zip(first, second, strict=True)
    )
