"""Trees of arrays: what a model with several inputs or outputs takes. NumPy only.

A tree is one array, or a tuple or dict of trees. A list counts as a tuple, as in Keras. None is an
empty tree: a model whose loss is inside it has no targets.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

ArrayTree: TypeAlias = Any
"""One array, a tuple or dict of array trees, or None."""

_SHOWN = 6
"""The most arrays whose shapes a message has."""


def map_arrays(function: Callable[[Any], Any], tree: ArrayTree) -> ArrayTree:
    """Return a tree of the same form, with the function's result instead of each array."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {name: map_arrays(function, branch) for name, branch in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(map_arrays(function, branch) for branch in tree)
    return function(tree)


def lists_to_tuples(tree: ArrayTree) -> ArrayTree:
    """Return the same tree with tuples instead of lists, which `tf.data` would stack."""
    return map_arrays(lambda array: array, tree)


def arrays_of(tree: ArrayTree) -> list[Any]:
    """Return the arrays of a tree, in its order."""
    return [array for _, array in named_arrays(tree)]


def named_arrays(tree: ArrayTree, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a tree with their paths in it: `name`, `name[0]`, `name['image']`."""
    if tree is None:
        return
    if isinstance(tree, dict):
        for key, branch in tree.items():
            yield from named_arrays(branch, f"{name}[{key!r}]")
    elif isinstance(tree, list | tuple):
        for index, branch in enumerate(tree):
            yield from named_arrays(branch, f"{name}[{index}]")
    else:
        yield name, tree


def shapes_text(named: Iterable[tuple[str, Any]]) -> str:
    """Write the shapes of arrays with their names; the number of the rest if there are many."""
    every = [*named]
    texts = [f"{name} of shape {tuple(array.shape)}".strip() for name, array in every[:_SHOWN]]
    hidden = len(every) - _SHOWN
    return ", ".join([*texts, *([f"and {hidden} more"] if hidden > 0 else [])])


def is_single_array(tree: ArrayTree) -> bool:
    """Return True for one array alone."""
    return tree is not None and not isinstance(tree, dict | list | tuple)
