"""Chains of recurrent layers in a model's graph that one library call can replace. Imports Keras.

A chain is a row of recurrent layers that feed only one another, of equal cell, units and
directions, with dropout of one rate between them or with none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import keras

from workloads.layer_traits import LayerTraits
from workloads.models.recurrent_layers import LibraryLayer, contains_recurrence, describe_layer

LibraryLimit: TypeAlias = Callable[[LayerTraits], str | None]
"""Returns why a library's call cannot run layers of these traits; None if it can."""


@dataclass(frozen=True, slots=True)
class KeptLayer:
    """A recurrent layer that no library's call replaces, by its name, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Recurrent layers that feed only one another, and the dropout layers between them."""

    members: tuple[LibraryLayer, ...]
    dropouts: tuple[Any, ...] = ()

    @property
    def traits(self) -> LayerTraits:
        """The traits of the whole chain."""
        rate = self.dropouts[0].rate if self.dropouts else 0.0
        return replace(self.members[0].traits, layers=len(self.members), dropout=rate)

    @property
    def absorbed(self) -> tuple[Any, ...]:
        """The layers that are gone after the last one is replaced: all others."""
        return (*(member.layer for member in self.members[:-1]), *self.dropouts)

    @property
    def last(self) -> LibraryLayer:
        """The layer whose outputs leave the chain."""
        return self.members[-1]


class Graph:
    """The calls of layers in one model, nested models not included."""

    def __init__(self, model: Any) -> None:
        functional = model._functional if isinstance(model, keras.Sequential) else model
        self.calls: dict[int, list[Any]] = defaultdict(list)
        self._readers: dict[int, list[Any]] = defaultdict(list)
        self._outputs = {id(tensor) for tensor in functional.outputs}
        self.layers: list[Any] = []
        for depth in sorted(functional._nodes_by_depth, reverse=True):
            for node in functional._nodes_by_depth[depth]:
                if not self.calls[id(node.operation)]:
                    self.layers.append(node.operation)
                self.calls[id(node.operation)].append(node)
                for tensor in node.input_tensors:
                    self._readers[id(tensor)].append(node)

    def call(self, layer: Any) -> Any | None:
        """Return the call of a layer that is called once; None for a shared layer."""
        calls = self.calls[id(layer)]
        return calls[0] if len(calls) == 1 else None

    def next_layer(self, layer: Any) -> Any | None:
        """Return the layer that alone reads a layer's one output, as its first argument."""
        call = self.call(layer)
        if call is None or len(call.outputs) != 1 or id(call.outputs[0]) in self._outputs:
            return None
        readers = self._readers[id(call.outputs[0])]
        if len(readers) != 1 or not readers[0].arguments.args:
            return None
        is_first = readers[0].arguments.args[0] is call.outputs[0]
        return readers[0].operation if is_first and self.call(readers[0].operation) else None

    def mask(self, layer: Any) -> Any | None:
        """Return the mask of a layer's first call."""
        return self.calls[id(layer)][0].arguments.kwargs.get("mask")

    def steps(self, layer: Any) -> int | None:
        """Return the length of the sequences of a layer's first call; None if it is open."""
        shape = self.calls[id(layer)][0].input_tensors[0].shape
        return shape[1] if len(shape) > 1 else None

    def has_mask(self, layer: Any) -> bool:
        """Return True if any call of a layer has a mask."""
        return any(call.arguments.kwargs.get("mask") is not None for call in self.calls[id(layer)])

    def has_initial_state(self, layer: Any) -> bool:
        """Return True if a call of a layer has more inputs than the sequences and their mask."""
        return any(
            len(call.arguments.args) > 1 or call.arguments.kwargs.get("initial_state") is not None
            for call in self.calls[id(layer)]
        )


def find_chains(graph: Graph, limit: LibraryLimit) -> tuple[list[Chain], list[KeptLayer]]:
    """Return the longest chains that a library can run, and the other recurrent layers."""
    able: dict[int, LibraryLayer] = {}
    kept: list[KeptLayer] = []
    recurrent = [layer for layer in graph.layers if is_recurrent_operation(layer)]
    for layer in recurrent:
        described = describe_layer(layer, has_mask=graph.has_mask(layer))
        if isinstance(described, str):
            kept.append(KeptLayer(layer.name, reason=described))
        elif reason := limit(described.traits):
            kept.append(KeptLayer(layer.name, reason))
        else:
            able[id(layer)] = described
    chains, chained = list[Chain](), set[int]()
    for layer in recurrent:
        if id(layer) in able and id(layer) not in chained:
            chain = _longest_chain(graph, able, able[id(layer)], limit)
            chains.append(chain)
            chained |= {id(member.layer) for member in chain.members}
    return chains, kept


def is_recurrent_operation(layer: Any) -> bool:
    """Return True for a layer that has recurrence in it, and is no nested model."""
    return (
        isinstance(layer, keras.Layer)
        and not isinstance(layer, keras.Model)
        and contains_recurrence(layer)
    )


def _longest_chain(
    graph: Graph, able: dict[int, LibraryLayer], first: LibraryLayer, limit: LibraryLimit
) -> Chain:
    chain = Chain((first,))
    while (longer := _extended(graph, able, chain)) and limit(longer.traits) is None:
        chain = longer
    return chain


def _extended(graph: Graph, able: dict[int, LibraryLayer], chain: Chain) -> Chain | None:
    """Return the chain with the next recurrent layer; None if it ends before that layer."""
    last = chain.last
    if not last.layer.return_sequences:
        return None
    between = graph.next_layer(last.layer)
    dropouts = chain.dropouts
    follower = between
    if between is not None and _is_plain_dropout(graph, between):
        follower = graph.next_layer(between)
        if len(dropouts) != len(chain.members) - 1 or any(d.rate != between.rate for d in dropouts):
            return None
        dropouts = (*dropouts, between)
    elif dropouts:
        return None
    member = able.get(id(follower))
    if member is None or not _may_follow(graph, last, member):
        return None
    return Chain((*chain.members, member), dropouts)


def _is_plain_dropout(graph: Graph, layer: Any) -> bool:
    """Return True for a dropout of single values, in training only."""
    return (
        type(layer) is keras.layers.Dropout
        and layer.noise_shape is None
        and not graph.calls[id(layer)][0].arguments.kwargs.get("training")
    )


def _may_follow(graph: Graph, before: LibraryLayer, after: LibraryLayer) -> bool:
    return (
        before.traits == after.traits
        and before.units == after.units
        and before.layer.dtype_policy.name == after.layer.dtype_policy.name
        and before.layer.trainable == after.layer.trainable
        and graph.mask(before.layer) is graph.mask(after.layer)
        and not graph.has_initial_state(before.layer)
        and not graph.has_initial_state(after.layer)
    )
