"""A PyTorch module that a user's `build` returned, with the functions next to it.

Imports no framework: a module exists only where the user's code has imported PyTorch.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from workloads.failures import BadRequest

Loss: TypeAlias = Callable[..., Any]
"""A function of outputs and targets (and of sample weights, where the data have some)."""


@dataclass(frozen=True, slots=True)
class OwnModule:
    """A module, and what trains it.

    `loss` returns the mean loss of a batch, a tensor with one element. `make_optimizer` returns the
    optimizer of the parameters. `measure` returns the means of a batch's metrics by their names;
    None if there are none. `location` is where `build` is defined, for messages.
    """

    module: Any
    location: str
    settings: Mapping[str, Any]
    loss: Loss | None = None
    make_optimizer: Callable[[Any, Mapping[str, Any]], Any] | None = None
    measure: Callable[[Any, Any], Mapping[str, Any]] | None = None


def is_torch_module(model: object) -> bool:
    """Return True for a PyTorch module; a layer or model of Keras does not count as one."""
    torch, keras = sys.modules.get("torch"), sys.modules.get("keras")
    if torch is None or not isinstance(model, torch.nn.Module):
        return False
    return keras is None or not isinstance(model, keras.Layer)


def set_mode(module: Any, *, training: bool) -> None:
    """Put a PyTorch module and all inside it in training or in inference mode.

    As `module.train(training)` does; but authors also give the name `train` to a method of another
    kind, such as `train(self, x, y)`, and that is not called.
    """
    if _changes_mode(module):
        module.train(training)
        return
    module.training = training
    for child in module.children():
        set_mode(child, training=training)


def _changes_mode(module: Any) -> bool:
    """Return True if the class of a module has a method `train(mode)` of its own."""
    own = next(kind.__dict__["train"] for kind in type(module).__mro__ if "train" in kind.__dict__)
    if own.__module__.startswith("torch."):
        return False  # it would call the methods `train` of the modules inside
    try:
        inspect.signature(own).bind(module, True)
    except TypeError:
        return False
    return True


def with_functions_next_to(
    build: Callable[..., Any], module: Any, location: str, settings: Mapping[str, Any]
) -> OwnModule:
    """Return a module with the functions `loss`, `optimizer` and `metrics` of the file of `build`.

    Raise `BadRequest` for one that cannot be called, and for settings of Keras models alone.
    """
    if settings.get("weights") == "own":
        raise BadRequest(
            f"{location}: remove settings.weights: a PyTorch module always keeps the weights that"
            " its layers draw, which are equal on all arms"
        )
    if settings.get("class_weight") is not None:
        raise BadRequest(
            f"{location}: remove settings.class_weight, because a module has its own loss: put the"
            " weights into loss, or return sample weights from the function that loads the data"
            " (loss gets them as its third argument)"
        )
    names = vars(sys.modules[inspect.unwrap(build).__module__])
    found = {name: names.get(name) for name in ("loss", "optimizer", "metrics")}
    for name, function in found.items():
        if function is not None and not callable(function):
            raise BadRequest(
                f"{location}: {name!r} next to it must be a function, not {function!r:.80}"
            )
    return OwnModule(
        module, location, settings, found["loss"], found["optimizer"], found["metrics"]
    )
