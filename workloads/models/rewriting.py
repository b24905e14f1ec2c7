"""From a model as its author wrote it to the copy that a trial's arm runs. Imports Keras.

- `auto` runs the model as it is.
- `portable` and `cudnn` switch all LSTM and GRU layers, wherever they are inside the model.
- `fused` replaces each chain of recurrent layers (`workloads.models.chains`) by a `FusedStack`, in
  a model around the same other layers. Recurrent layers that no chain has stay as they are.

Weights, states and seeds stay: layers are the same objects, and a `FusedStack` gets the weights of
the layers that it replaces.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras

from workloads.backends.backend import CUDNN
from workloads.backends.framework import Framework
from workloads.backends.loading import load_framework_of_keras
from workloads.backends.registry import find_backend
from workloads.eligibility import (
    NO_CUDNN_ON_CPU,
    ineligibility_reason,
    layer_ineligibility_reason,
    no_recurrent_dropout_reason,
    no_unrolling_reason,
)
from workloads.failures import NotPossible
from workloads.implementations import AUTO, Implementation
from workloads.layer_traits import Cell, LayerTraits
from workloads.models.canonical_weights import CanonicalLayer
from workloads.models.chains import Chain, Graph, KeptLayer, find_chains, is_recurrent_operation
from workloads.models.fused_stack import FusedStack
from workloads.models.recurrent_layers import (
    GATED_LAYERS,
    keras_gated_layers,
    keras_recurrent_layers,
    traits_for_cudnn,
)
from workloads.protocol import Device

_MATRIX_OPTIMIZERS = ("Adafactor", "Lamb", "Muon")
"""Keras' optimizers whose update depends on the shape or the norm of a variable."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The model that an arm runs.

    `author_variables` are the paths of the trainable variables of the author's model, in its order,
    which no implementation has.
    """

    model: Any
    author_variables: tuple[str, ...]


_METHODS_OF_TRAINING = (
    "train_step",
    "test_step",
    "predict_step",
    "compute_loss",
    "compute_metrics",
    "call",
)


@dataclass(frozen=True, slots=True)
class Examination:
    """Why a model cannot be rewritten; `reason` is None if it can.

    With `is_masked` a layer that has a mask would run in a library's call on a GPU.
    """

    reason: str | None
    is_masked: bool = False


def examine_rewrite(
    model: Any, implementation: Implementation, device: Device, capability: float | None = None
) -> Examination:
    """Return whether an implementation can run a built model, in a process of its backend.

    The model is not changed. `capability` is the GPU's compute capability, if it is known.
    """
    reason = ineligibility_reason(implementation, LayerTraits(), device, capability=capability)
    if reason is not None:
        return Examination(reason)
    if implementation.kernel == AUTO:
        masked = _runs_masks_in_cudnn(model, implementation)
        return Examination(_unmet_demand(model, implementation, device), is_masked=masked)
    if reason := _structure_reason(model):
        return Examination(reason)
    if implementation.kernel == "portable":
        return Examination(_unroll_reason(model) if _unrolls(implementation) else None)
    if not any(is_recurrent_operation(layer) for _, layer in _operations(model)):
        return Examination("the model has no recurrent layer: use the kernel portable or auto")
    if implementation.kernel == "cudnn":
        masked = _runs_masks_in_cudnn(model, implementation)
        return Examination(_cudnn_reason(model, implementation), is_masked=masked)
    chains, kept = _find_all_chains(model, implementation)
    if not chains:
        reasons = "; ".join(f"{layer.name}: {layer.reason}" for layer in kept)
        return Examination(f"no layer can be fused ({reasons})")
    stay = {layer.name for layer in kept}
    reason = (
        _replaced_method_reason(model)
        or _optimizer_reason(model)
        or _unmet_demand(model, implementation, device, stay)
    )
    is_masked = any(chain.traits.mask != "none" for chain in chains)
    return Examination(reason, is_masked)


def rewrite(model: Any, implementation: Implementation, framework: Framework) -> Rewritten:
    """Return a built model with the kernel of an implementation, and with equal weights.

    The result takes over layers of `model`, which must not be used afterwards. What it was
    compiled with is kept. Raise `NotPossible` if there is nothing to fuse.
    """
    author_variables = tuple(variable.path for variable in model.trainable_variables)
    if implementation.kernel == AUTO:
        return Rewritten(model, author_variables)
    if implementation.kernel != "fused":
        is_cudnn = implementation.kernel == "cudnn"
        switch_layers(model, use_cudnn=is_cudnn, unroll=_unrolls(implementation))
        return Rewritten(model, author_variables)
    if reason := _structure_reason(model) or _replaced_method_reason(model):
        raise NotPossible(f"{implementation}: {reason}")
    fusion = _Fusion(implementation, framework)
    fused = fusion.rebuild(model)
    if not fusion.stacks:
        reasons = "; ".join(f"{layer.name}: {layer.reason}" for layer in fusion.kept)
        raise NotPossible(f"{implementation}: no layer can be fused ({reasons or 'there is none'})")
    carry_compilation(model, fused)
    return Rewritten(fused, author_variables)


def switch_layers(model: Any, *, use_cudnn: bool, unroll: bool) -> None:
    """Make all recurrent layers inside a model use cuDNN or not, and unroll their loop or not."""
    backend = load_framework_of_keras().backend
    for layer in keras_recurrent_layers(model):
        layer.unroll = unroll
    for layer in keras_gated_layers(model):
        layer.use_cudnn = use_cudnn
        # "auto", with which the layer was made, switched XLA off where it could use cuDNN.
        layer.supports_jit = not use_cudnn or backend.always_compiled


def carry_compilation(author: Any, copy: Any) -> None:
    """Compile a model as its author's is: optimizer, loss, metrics and the like.

    The optimizer has no state yet.
    """
    if not author.compiled:
        return
    # Keras' public way turns all into text and back, and fails for functions of the user's own.
    arguments = dict(author._compile_config.config)
    arguments["optimizer"] = _copied(arguments["optimizer"])
    for name in ("metrics", "weighted_metrics"):
        arguments[name] = keras.tree.map_structure(_copied, arguments[name])
    copy.compile(**arguments)


def _copied(part: Any) -> Any:
    """Return a new optimizer or metric like this one; other objects themselves."""
    if not isinstance(part, keras.optimizers.Optimizer | keras.metrics.Metric):
        return part
    try:
        return type(part).from_config(part.get_config())
    except Exception:  # noqa: BLE001 - a class of the user's own without a config
        return part


@dataclass(slots=True)
class _Fusion:
    """The replacement of chains in a model and in the models nested in it."""

    implementation: Implementation
    framework: Framework
    stacks: int = 0
    """Fused stacks that were made."""

    kept: list[KeptLayer] = field(default_factory=list)
    _rebuilt: dict[int, Any] = field(default_factory=dict)
    """The replacements of nested models by id, so that a shared model stays shared."""

    def rebuild(self, model: Any) -> Any:
        """Return the model with its chains replaced; the same object if it has none."""
        if id(model) not in self._rebuilt:
            self._rebuilt[id(model)] = self._rebuild(model)
        return self._rebuilt[id(model)]

    def _rebuild(self, model: Any) -> Any:
        graph = Graph(model)
        chains, kept = _find_chains(graph, self.implementation)
        self.kept += kept
        replacements = dict[int, Any]()
        for part in graph.layers:
            if isinstance(part, keras.Model) and (rebuilt := self.rebuild(part)) is not part:
                replacements[id(part)] = rebuilt
        stacks = [_make_stack(chain, self.framework) for chain in chains]
        absorbed = set[int]()
        for chain, stack in zip(chains, stacks, strict=True):
            replacements[id(chain.last.layer)] = stack
            absorbed |= {id(layer) for layer in chain.absorbed}
        if not replacements:
            return model
        for layer in graph.layers:  # the author's graph would keep the weights of replaced layers
            layer._inbound_nodes.clear()
            layer._outbound_nodes.clear()
        copy = _make_model(model, replacements, absorbed)
        for chain, stack in zip(chains, stacks, strict=True):
            cells = [cell for member in chain.members for cell in member.cells]
            stack.write([_canonical(cell) for cell in cells])
            stack.replaced_variables = tuple(
                variable.path for cell in cells for variable in _variables_of(cell)
            )
        self.stacks += len(stacks)
        return copy


def _find_chains(
    graph: Graph, implementation: Implementation
) -> tuple[list[Chain], list[KeptLayer]]:
    return find_chains(graph, lambda traits: layer_ineligibility_reason(implementation, traits))


def _find_all_chains(
    model: Any, implementation: Implementation
) -> tuple[list[Chain], tuple[KeptLayer, ...]]:
    """Return the chains and the other recurrent layers of a model and of all nested ones."""
    chains, kept = list[Chain](), list[KeptLayer]()
    for part in _models_inside(model).values():
        found, others = _find_chains(Graph(part), implementation)
        chains += found
        kept += others
    return chains, tuple(kept)


def _models_inside(model: Any) -> dict[int, Any]:
    """Return a model and the models nested in it, each once, by id."""
    models = {id(model): model}
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            models |= _models_inside(layer)
    return models


def _make_stack(chain: Chain, framework: Framework) -> FusedStack:
    first, last, traits = chain.members[0], chain.last, chain.traits
    seed = first.cells[0].seed
    return FusedStack(
        traits.cell,
        first.units,
        traits.layers,
        bidirectional=traits.bidirectional,
        dropout=traits.dropout,
        return_sequences=last.layer.return_sequences,
        return_state=last.layer.return_state,
        stateful=traits.stateful,
        zero_output_for_mask=last.sides[0].zero_output_for_mask,
        penalties=[penalties for member in chain.members for penalties in member.penalties()],
        seed=1 if seed is None else seed,
        framework=framework,
        name=last.layer.name,  # a model's losses and metrics go by the names of its last layers
        dtype=last.layer.dtype_policy,
        trainable=last.layer.trainable,
    )


def _make_model(author: Any, replacements: dict[int, Any], absorbed: set[int]) -> Any:
    """Return a model like the author's around its other layers."""
    if isinstance(author, keras.Sequential):
        inputs = author._functional.inputs[0]
        return keras.Sequential(
            [
                keras.Input(batch_shape=inputs.shape, dtype=inputs.dtype, name=inputs.name),
                *(
                    replacements.get(id(layer), layer)
                    for layer in author.layers
                    if id(layer) not in absorbed
                ),
            ],
            name=author.name,
        )

    def call(layer: Any, *arguments: Any, **named: Any) -> Any:
        return arguments[0] if id(layer) in absorbed else layer(*arguments, **named)

    with _uncompiled(author):
        return keras.models.clone_model(
            author,
            clone_function=lambda layer: replacements.get(id(layer), layer),
            call_function=call,
        )


@contextmanager
def _uncompiled(model: Any) -> Iterator[None]:
    """Keep Keras from compiling a clone: it fails for functions of the user's own."""
    was_compiled, model.compiled = model.compiled, False
    try:
        yield
    finally:
        model.compiled = was_compiled


def _canonical(cell: Any) -> CanonicalLayer:
    return CanonicalLayer(*map(keras.ops.convert_to_numpy, _variables_of(cell)))


def _variables_of(cell: Any) -> tuple[Any, ...]:
    return cell.kernel, cell.recurrent_kernel, cell.bias


def _unrolls(implementation: Implementation) -> bool:
    return "unroll" in implementation.options


def _structure_reason(model: Any) -> str | None:
    """Return why the layers of a model cannot be known, or the model not be made again."""
    kind = type(model)
    if isinstance(model, keras.Sequential):
        is_known = kind is keras.Sequential
    else:
        is_known = hasattr(model, "_nodes_by_depth") and (
            kind.__module__.startswith("keras.") or _takes_inputs_and_outputs(kind)
        )
    if is_known:
        return None
    return f"{kind.__name__} is a subclass, whose layers only its code knows: use the kernel auto"


def _replaced_method_reason(model: Any) -> str | None:
    """Return which method was replaced on the object, which a copy of the model would not have."""
    replaced = next((name for name in _METHODS_OF_TRAINING if name in vars(model)), None)
    if replaced is None:
        return None
    return (
        f"{replaced} is replaced on the model object: define it in a class, or use the kernel auto"
    )


def _takes_inputs_and_outputs(kind: Any) -> bool:
    """Return True if a class of models is made from inputs and outputs, as keras.Model is."""
    _self, *names = inspect.signature(kind.__init__).parameters
    return names[:2] == ["inputs", "outputs"] or {"args", "kwargs"} <= set(names)


def _operations(model: Any) -> Iterator[tuple[Graph, Any]]:
    """Yield the layers of a model and of all nested ones, each with its graph."""
    for part in _models_inside(model).values():
        graph = Graph(part)
        yield from ((graph, layer) for layer in graph.layers)


def _unroll_reason(model: Any) -> str | None:
    """Return which layer cannot be unrolled."""
    for graph, layer in _operations(model):
        if is_recurrent_operation(layer) and graph.steps(layer) is None:
            return (
                f"layer {layer.name}: the length of its sequences is unknown: give keras.Input"
                " the number of steps, or remove +unroll"
            )
    return None


def _cudnn_reason(model: Any, implementation: Implementation) -> str | None:
    """Return which recurrent layer Keras would refuse to run by cuDNN, and why."""
    for graph, layer in _operations(model):
        if not is_recurrent_operation(layer):
            continue
        traits = traits_for_cudnn(layer, has_mask=graph.has_mask(layer))
        if isinstance(traits, str):
            return f"layer {layer.name}: {traits}"
        reasons = (layer_ineligibility_reason(implementation, each) for each in traits)
        if reason := next(filter(None, reasons), None):
            return f"layer {layer.name}: {reason}"
    return None


def _runs_masks_in_cudnn(model: Any, implementation: Implementation) -> bool:
    """Return whether Keras runs a layer that has a mask by cuDNN, where it may use cuDNN."""
    if _structure_reason(model) is not None:  # its layers' calls are not known: any may be masked
        return any(_makes_mask(layer) for layer in model._flatten_layers())
    cudnn = Implementation(implementation.backend, "cudnn")
    for graph, layer in _operations(model):
        if is_recurrent_operation(layer) and graph.has_mask(layer):
            traits = traits_for_cudnn(layer, has_mask=True)
            if not isinstance(traits, str) and not any(
                layer_ineligibility_reason(cudnn, each) for each in traits
            ):
                return True
    return False


def _makes_mask(layer: Any) -> bool:
    return isinstance(layer, keras.layers.Masking) or bool(getattr(layer, "mask_zero", False))


def _unmet_demand(
    model: Any, implementation: Implementation, device: Device, names: Collection[str] | None = None
) -> str | None:
    """Return which layer with `use_cudnn=True` Keras refuses on the device; None if it runs all.

    Only layers with one of the `names` count, by default all. The layers of a model whose graph is
    not known count as layers without a mask.
    """
    if _structure_reason(model) is None:
        layers = [(layer, graph.has_mask(layer)) for graph, layer in _operations(model)]
        layers = [pair for pair in layers if is_recurrent_operation(pair[0])]
    else:
        layers = [(layer, False) for layer in keras_gated_layers(model)]
    for layer, has_mask in layers:
        if names is not None and layer.name not in names:
            continue
        for side in keras_gated_layers(layer):
            if side.use_cudnn is True and (
                reason := _demand_refusal(side, implementation.backend, device, has_mask=has_mask)
            ):
                return (
                    f"layer {layer.name} has use_cudnn=True, which Keras refuses here: {reason}."
                    ' use_cudnn="auto" runs everywhere'
                )
    return None


def _demand_refusal(side: Any, name: str, device: Device, *, has_mask: bool) -> str | None:
    """Return why Keras refuses a layer of one direction that demands cuDNN."""
    backend = find_backend(name)
    cell: Cell = "lstm" if isinstance(side, keras.layers.LSTM) else "gru"
    is_ignored = cell in backend.ignores_use_cudnn
    if device == "cpu" and not is_ignored:
        return NO_CUDNN_ON_CPU
    if type(side) not in GATED_LAYERS:
        return None  # its own code decides
    traits = traits_for_cudnn(side, has_mask=has_mask)
    if isinstance(traits, str):
        return traits
    (own,) = traits
    if side.unroll and not backend.always_eager:  # an eager loop is not unrolled
        return no_unrolling_reason(CUDNN)
    if not is_ignored:
        return layer_ineligibility_reason(Implementation(name, "cudnn"), own)
    if own.recurrent_dropout > 0:
        return no_recurrent_dropout_reason(CUDNN, own.recurrent_dropout)
    return backend.no_mask_reason if own.mask != "none" else None


def _optimizer_reason(model: Any) -> str | None:
    """Return why training a fused model would be other mathematics.

    A fused stack has one variable for all of its weights.
    """
    optimizer = getattr(model, "optimizer", None) if model.compiled else None
    if optimizer is None:
        return None
    name = type(optimizer).__name__
    if getattr(optimizer, "clipnorm", None):
        return (
            "clipnorm clips each variable's gradient separately, and a fused layer has one"
            " variable: use global_clipnorm or clipvalue, or the kernel portable"
        )
    if name in _MATRIX_OPTIMIZERS:
        return f"{name} treats each matrix separately, and a fused layer has one variable"
    if getattr(optimizer, "_exclude_from_weight_decay_names", None) or getattr(
        optimizer, "_exclude_from_weight_decay_references", None
    ):
        return (
            f"{name} leaves some variables out of its weight decay, and a fused layer has one"
            " variable: use another kernel"
        )
    return None
