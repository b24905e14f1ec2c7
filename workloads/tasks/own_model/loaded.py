"""What a user's `load(settings)` may return, read into arrays.

- `(x, y)`, `(x, y, sample_weight)`, `(x,)` or `x` alone for a model that computes its loss itself;
  each is one array, or a list or dict of arrays for several inputs or outputs
- a `keras.utils.PyDataset` of such batches, or a backend's own data set of them (`Backend`)
- a pair of these, for training and validation; a part that is not a data set is a tuple there

No framework is imported for this: an object of one is known by its class.
"""

from __future__ import annotations

import hashlib
import operator
import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from workloads.backends.registry import backends
from workloads.data.array_trees import (
    ArrayTree,
    arrays_of,
    is_single_array,
    map_arrays,
    named_arrays,
    shapes_text,
)
from workloads.data.samples import Samples
from workloads.failures import DataError
from workloads.own_code import describe_error

MEMORY_LIMIT_BYTES = 2 * 2**30
"""A data set of batches is read into memory up to this size."""

_VALIDATION_SHARE = 0.1
"""The share of the data, at its end, that is for validation where `load` returns none for it."""

_LOADING_SEED = 0
_BLOCK_BYTES = 2**26
_PARTS = ("x", "y", "sample_weight")
_MOST_NAMES = 6
_RAGGED = (
    "each array of a list is a separate input; pad samples of different lengths to one length, and"
    " return them as one array"
)
_KERAS_DATA_SET = "PyDataset"


def read_loaded(loaded: Any, location: str) -> tuple[Samples, Samples]:
    """Return the samples for training and validation of what `load` returned.

    `location` names the function in messages. Without data for validation, the last tenth is split
    off. Raise `DataError` for anything else than the forms above, for arrays that do not have the
    same number of samples, and for a data set that is larger than `MEMORY_LIMIT_BYTES`.
    """
    if isinstance(loaded, list | tuple) and len(loaded) == 2 and all(map(_is_part, loaded)):
        training, validation = loaded
        if validation is not None:
            both = _read_part(training, location), _read_part(validation, f"{location}: validation")
            _expect_like(*both, location)
            return both
        loaded = training
    return _split(_read_part(loaded, location), location)


def digest_of(*parts: Samples) -> str:
    """Return the SHA-256 of samples: the paths, types, shapes and bytes of all arrays."""
    digest = hashlib.sha256()
    for number, part in enumerate(parts):
        trees = (part.inputs, part.targets, part.weights)
        for kind, tree in zip(_PARTS, trees, strict=True):
            for name, array in named_arrays(tree, kind):
                digest.update(f"{number} {name} {array.dtype} {array.shape}\n".encode())
                for block in _blocks(array):
                    digest.update(block)
    return digest.hexdigest()


def types_of(samples: Samples) -> tuple[str, ...]:
    """Return the arrays of samples with their types, such as `x[0] float32`."""
    trees = zip(_PARTS, (samples.inputs, samples.targets, samples.weights), strict=True)
    named = (pair for kind, tree in trees for pair in named_arrays(tree, kind))
    return tuple(f"{name} {array.dtype}" for name, array in named)


def seed_loading() -> None:
    """Seed the generators that a user's `load` may draw from: all arms must read the same data.

    These are the generators of Python, NumPy and the imported frameworks. The caller seeds them
    anew after the data are read.
    """
    random.seed(_LOADING_SEED)
    np.random.seed(_LOADING_SEED)
    for backend in backends().values():
        package = sys.modules.get(backend.package)
        if package is not None and backend.global_seed:
            operator.attrgetter(backend.global_seed)(package)(_LOADING_SEED)


def _is_part(value: Any) -> bool:
    """Return True for a whole part: a tuple `(x, y)` or the like, a data set, or None."""
    return value is None or _dataset_class(value) is not None or isinstance(value, tuple)


def _read_part(part: Any, location: str) -> Samples:
    name = _dataset_class(part)
    trees = _unpacked(part, location) if name is None else _read_batches(part, name, location)
    trees = [
        _as_arrays(tree, f"{location}: {kind}") for kind, tree in zip(_PARTS, trees, strict=True)
    ]
    _expect_equal_lengths(trees, location)
    _expect_weights_of_targets(trees, location)
    return Samples(*trees)


def _unpacked(value: Any, location: str) -> list[ArrayTree]:
    """Return inputs, targets and weights of `(x, y, sample_weight)` or a part of it."""
    items = list(value) if isinstance(value, tuple | list) else [value]
    if not 1 <= len(items) <= len(_PARTS) or items[0] is None:
        raise DataError(
            f"{location} returns {_described(value)}: return (x, y), (x, y, sample_weight), a data"
            " set, or a pair of these for training and validation; several inputs or outputs are a"
            " list or dict"
        )
    return items + [None] * (len(_PARTS) - len(items))


def _dataset_class(value: Any) -> str | None:
    """Return the name of the class of data sets that a value is of; None for another value."""
    package_of = {_KERAS_DATA_SET: "keras"} | {
        name: backend.package
        for backend in backends().values()
        for name in backend.data_set_classes
    }
    for kind in type(value).__mro__:
        package = package_of.get(kind.__name__)
        if package is not None and kind.__module__.startswith(f"{package}."):
            return kind.__name__
    return None


def _read_batches(dataset: Any, kind: str, location: str) -> list[ArrayTree]:
    """Read all batches of a data set into memory, and join them."""
    batches, size = list[tuple[ArrayTree, ...]](), 0
    for batch in _batches_of(dataset, kind, location):
        arrays = tuple(
            _as_arrays(tree, f"{location}: {name} of a batch")
            for name, tree in zip(_PARTS, _unpacked(batch, location), strict=True)
        )
        size += sum(array.nbytes for array in arrays_of(arrays))
        if size > MEMORY_LIMIT_BYTES:
            raise DataError(
                f"{location}: the first {len(batches) + 1:,} batches exceed"
                f" {MEMORY_LIMIT_BYTES / 2**30:g} GiB, and a data set is read into memory: return"
                " fewer samples, or arrays that numpy.load maps from a file (mmap_mode='r')"
            )
        batches.append(arrays)
    if not batches:
        raise DataError(f"{location}: the data set is empty")
    return _joined(batches, location)


def _batches_of(dataset: Any, kind: str, location: str) -> Iterable[Any]:
    """Return the batches of a data set, or raise `DataError` for one without an end."""
    endless = f"{location}: the data set never ends"
    if kind == _KERAS_DATA_SET:
        if dataset.num_batches is None:
            raise DataError(f"{endless}: return the number of batches from its __len__")
        return (dataset[index] for index in range(dataset.num_batches))
    if hasattr(dataset, "cardinality") and int(dataset.cardinality()) == -1:
        raise DataError(f"{endless}: remove repeat(), and set epochs in settings")
    batches: Iterable[Any] = dataset
    return batches


def _joined(batches: list[tuple[ArrayTree, ...]], location: str) -> list[ArrayTree]:
    """Return the arrays of all batches, one after the other."""
    forms = {tuple(name for name, _ in named_arrays(batch)) for batch in batches}
    if len(forms) > 1:
        raise DataError(f"{location}: the batches have different arrays")
    arrays_by_batch = [arrays_of(batch) for batch in batches]
    joined = []
    for index, (name, _) in enumerate(named_arrays(batches[0])):
        arrays = [batch[index] for batch in arrays_by_batch]
        shapes = {array.shape[1:]: array.shape for array in arrays}
        if len(shapes) > 1:
            first, second, *_ = shapes.values()
            raise DataError(
                f"{location}: array {name} of a batch: the batches have shapes {first} and"
                f" {second}: pad all samples to one length"
            )
        joined.append(np.concatenate(arrays))
    arrays_left = iter(joined)
    return list(map_arrays(lambda _: next(arrays_left), batches[0]))


def _as_arrays(tree: Any, location: str) -> ArrayTree:
    """Return a tree with NumPy's arrays instead of any library's arrays."""
    if isinstance(tree, dict):
        return {name: _as_arrays(branch, f"{location}[{name!r}]") for name, branch in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(
            _as_arrays(branch, f"{location}[{index}]") for index, branch in enumerate(tree)
        )
    return None if tree is None else _as_array(tree, location)


def _as_array(value: Any, location: str) -> Any:
    """Return a NumPy array, or raise `DataError` for anything that is none, or not of numbers."""
    expected = f"{location}: expected an array of numbers whose first axis counts samples"
    if not (hasattr(value, "__array__") or hasattr(value, "shape")):
        raise DataError(f"{expected}; received {_described(value)}: call numpy.asarray")
    try:
        tensor = value.detach().cpu() if hasattr(value, "detach") else value
        array = np.asarray(tensor)
    except Exception as error:  # a ragged or sparse tensor
        reason = describe_error(error, None).splitlines()[0]
        raise DataError(f"{expected}; received {_described(value)}: {reason}") from error
    if array.dtype.kind in "OUS":
        raise DataError(
            f"{expected}; received {array.dtype} of shape {array.shape}: turn texts and objects"
            " into numbers in load"
        )
    if not array.ndim or array.dtype.kind not in "biuf":
        raise DataError(
            f"{expected}; received {array.dtype} of shape {array.shape}"
            + ("" if array.ndim else ": return batches, as batch() makes them")
        )
    return array


def _expect_equal_lengths(trees: list[ArrayTree], location: str) -> None:
    """Raise `DataError` if arrays have different numbers of samples, or none."""
    named = [
        pair for kind, tree in zip(_PARTS, trees, strict=True) for pair in named_arrays(tree, kind)
    ]
    lengths = {len(array) for _, array in named}
    if len(lengths) != 1 or lengths == {0} or not arrays_of(trees[0]):
        inputs = trees[0]
        is_ragged = isinstance(inputs, tuple) and len(inputs) > len(_PARTS) and len(lengths) > 1
        raise DataError(
            f"{location}: all arrays need the same number of samples, at least one; received"
            f" {shapes_text(named) or 'no array'}" + (f": {_RAGGED}" if is_ragged else "")
        )


def _expect_weights_of_targets(trees: list[ArrayTree], location: str) -> None:
    """Raise `DataError` if sample weights are neither one array nor of the form of the targets."""
    _, targets, weights = trees
    if weights is None or is_single_array(weights):
        return
    forms = [[name for name, _ in named_arrays(tree)] for tree in (targets, weights)]
    if forms[0] != forms[1]:
        raise DataError(
            f"{location}: expected one array of sample weights, or one for each target"
            f" ({_listed(forms[0]) or 'none'}); received {_listed(forms[1])}"
        )


def _expect_like(training: Samples, validation: Samples, location: str) -> None:
    """Raise `DataError` if samples for validation have other shapes than samples for training.

    Sequences may have other lengths.
    """
    for kind in ("inputs", "targets"):
        shapes = [
            {name: array.ndim for name, array in named_arrays(getattr(part, kind))}
            for part in (training, validation)
        ]
        if shapes[0] != shapes[1]:
            received = [
                shapes_text(named_arrays(getattr(part, kind))) for part in (training, validation)
            ]
            raise DataError(
                f"{location}: the {kind} for validation ({received[1] or 'none'}) have another form"
                f" than for training ({received[0]}). Two tuples are a pair for training and"
                " validation: return several inputs or outputs as a list or dict"
            )


def _listed(names: list[str]) -> str:
    return ", ".join([*names[:_MOST_NAMES], *(["…"] if len(names) > _MOST_NAMES else [])])


def _split(samples: Samples, location: str) -> tuple[Samples, Samples]:
    """Split the last tenth off, for validation."""
    count = len(samples) - max(1, round(len(samples) * _VALIDATION_SHARE))
    if count < 1:
        raise DataError(
            f"{location}: at least 2 samples are needed, because the last tenth is for validation,"
            f" and there are {len(samples)}: return more, or a pair for training and validation"
        )
    return samples.first(count), samples.map(lambda array: array[count:])


def _blocks(array: Any) -> Iterator[Any]:
    """Yield the bytes of an array in blocks of rows: it may be mapped, or a view of overlaps."""
    row_bytes = max(1, array[:1].nbytes)
    rows = max(1, _BLOCK_BYTES // row_bytes)
    for first in range(0, len(array), rows):
        yield np.ascontiguousarray(array[first : first + rows]).tobytes()


def _described(value: Any) -> str:
    """Return the type of a value, and the shapes or the text of it."""
    if value is None:
        return "nothing (None)"
    if isinstance(value, tuple | list):
        more = ", …" if len(value) > 4 else ""
        items = ", ".join(_described(item) for item in value[:4])
        return f"{type(value).__name__} of {len(value)} ({items}{more})"
    shape = getattr(value, "shape", None)
    text = f"of shape {tuple(shape)}" if isinstance(shape, tuple) else f"{value!r:.60}"
    return f"{type(value).__name__} {text}"
