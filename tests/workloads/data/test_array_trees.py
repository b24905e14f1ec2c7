"""Trees of arrays, samples made of them, and weights of classes."""

from typing import Any

import numpy as np
import pytest

from workloads.data.array_trees import arrays_of, map_arrays, named_arrays
from workloads.data.class_weights import with_class_weights
from workloads.data.samples import Samples
from workloads.failures import BadRequest

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


@pytest.mark.parametrize(
    "targets",
    [
        pytest.param([2, 0, 1, 0], id="numbers"),
        pytest.param([[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]], id="one of several"),
    ],
)
def test_weights_of_classes_become_weights_of_samples(targets: Any) -> None:
    weighted = with_class_weights(Samples(NUMBERS, np.array(targets)), {0: 0.5, 2: 3})
    assert weighted.weights.tolist() == [3, 0.5, 1, 0.5]
    assert weighted.weights.dtype == np.float32


@pytest.mark.parametrize(
    ("samples", "received"),
    [
        pytest.param(Samples(NUMBERS, [NUMBERS, NUMBERS]), "2 targets", id="two targets"),
        pytest.param(Samples(NUMBERS, None), "no targets", id="no targets"),
        pytest.param(
            Samples(NUMBERS, NUMBERS, NUMBERS), "sample weights exclude", id="sample weights"
        ),
        pytest.param(
            Samples(NUMBERS, np.zeros((4, 5, 3))), r"shape \(4, 5, 3\)", id="classes at steps"
        ),
    ],
)
def test_weights_of_classes_are_refused_as_keras_refuses_them(
    samples: Samples, received: str
) -> None:
    with pytest.raises(BadRequest, match=received):
        with_class_weights(samples, {0: 2.0})
