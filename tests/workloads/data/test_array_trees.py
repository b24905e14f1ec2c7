"""Trees of arrays, and samples made of them."""

import numpy as np

from workloads.data.array_trees import arrays_of, map_arrays, named_arrays
from workloads.data.samples import Samples

NUMBERS = np.arange(4)


def test_a_tree_keeps_its_form_and_its_order() -> None:
    tree = {"b": [1, (2,)], "a": 3, "none": None}
    assert map_arrays(lambda number: 10 * number, tree) == {"b": (10, (20,)), "a": 30, "none": None}
    assert arrays_of(tree) == [1, 2, 3]
    assert dict(named_arrays(tree, "x")) == {"x['b'][0]": 1, "x['b'][1][0]": 2, "x['a']": 3}


def test_samples_are_taken_from_every_array() -> None:
    samples = Samples([NUMBERS, NUMBERS[:, None]], {"out": -NUMBERS}, {"out": NUMBERS / 2})
    taken = samples.take(np.array([2, 0])).first(1)
    assert [array.ravel().tolist() for array in taken.arrays] == [[2], [2], [-2], [1.0]]
    assert isinstance(taken.inputs, tuple) and list(taken.targets) == ["out"]
    assert (len(samples), len(taken)) == (4, 1)


def test_one_array_of_weights_counts_for_every_target() -> None:
    samples = Samples(NUMBERS, [NUMBERS, NUMBERS], NUMBERS / 2)
    assert [weights.tolist() for weights in samples.weights] == [[0, 0.5, 1, 1.5]] * 2
    assert Samples(NUMBERS, None, None).arrays == [NUMBERS]
