"""What a user's `load` may return, and what is refused with the shapes that were received."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from workloads.data.samples import Samples
from workloads.failures import DataError
from workloads.tasks.own_model import loaded
from workloads.tasks.own_model.loaded import digest_of, read_loaded, seed_loading

X, Y, WEIGHTS = np.arange(40.0).reshape(20, 2), np.arange(20), np.linspace(0, 1, 20)
PLACE = "data.py:3: load"


class PyDataset:
    """Batches of five samples; it is known by its name and module, as Keras' class is."""

    __module__ = "keras.utils"

    def __init__(self, *parts: Any, num_batches: int | None = 4) -> None:
        self.parts, self.num_batches = parts, num_batches

    def __getitem__(self, index: int) -> Any:
        rows = slice(5 * index, 5 * index + 5)
        return tuple(
            {name: array[rows] for name, array in part.items()}
            if isinstance(part, dict)
            else part[rows]
            for part in self.parts
        )


class DataLoader:
    """Batches in a list, as PyTorch collates them."""

    __module__ = "torch.utils.data"

    def __init__(self, *batches: Any) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)


class DatasetV2(DataLoader):
    """Batches of TensorFlow's data, which say how many they are: -1 if they never end."""

    __module__ = "tensorflow.data"

    def cardinality(self) -> int:
        return -1


def read(value: Any) -> tuple[Samples, Samples]:
    return read_loaded(value, PLACE)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param((X, Y, WEIGHTS), id="arrays"),
        pytest.param(((X, Y, WEIGHTS), None), id="a pair without validation"),
        pytest.param(PyDataset(X, Y, WEIGHTS), id="a data set"),
        pytest.param(
            DataLoader([X[:13], Y[:13], WEIGHTS[:13]], [X[13:], Y[13:], WEIGHTS[13:]]),
            id="a loader of unequal batches",
        ),
    ],
)
def test_the_last_tenth_is_for_validation(value: Any) -> None:
    training, validation = read(value)
    assert (len(training), len(validation)) == (18, 2)
    for part, array in zip(training.arrays, (X, Y, WEIGHTS), strict=True):
        assert (part == array[:18]).all()
    for part, array in zip(validation.arrays, (X, Y, WEIGHTS), strict=True):
        assert (part == array[18:]).all()


@pytest.mark.parametrize(
    ("training", "validation"),
    [
        pytest.param((X, Y), (X[:4], Y[:4]), id="arrays"),
        pytest.param(PyDataset(X, Y), DataLoader([X[:4], Y[:4]]), id="two data sets"),
    ],
)
def test_a_pair_is_training_and_validation(training: Any, validation: Any) -> None:
    parts = read((training, validation))
    assert [len(part) for part in parts] == [20, 4]
    assert (parts[0].inputs == X).all() and (parts[1].targets == Y[:4]).all()


def test_several_inputs_and_outputs_keep_their_names() -> None:
    inputs, targets = {"sequence": X, "facts": Y}, [Y, X]
    for value in ((inputs, targets, WEIGHTS), PyDataset(inputs, {"a": Y, "b": X})):
        training, _ = read(value)
        assert list(training.inputs) == ["sequence", "facts"]
        assert (training.inputs["facts"] == Y[:18]).all()
        assert len(training.targets) == 2
    assert len(read((inputs, targets, WEIGHTS))[0].weights) == 2


@pytest.mark.parametrize(
    "value", [pytest.param({"image": X, "label": Y}, id="dict"), pytest.param((X, None), id="none")]
)
def test_a_model_with_its_loss_inside_needs_no_targets(value: Any) -> None:
    assert read(value)[0].targets is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param(None, ["return (x, y)", "nothing (None)"], id="nothing"),
        pytest.param(
            (X, Y[1:]), ["the same number of samples", "x of shape (20, 2)", "(19,)"], id="lengths"
        ),
        pytest.param((X[:0], Y[:0]), ["at least one"], id="no sample"),
        pytest.param((X[:1], Y[:1]), ["at least 2 samples", "there are 1"], id="one sample"),
        pytest.param(([1, 2], Y), ["x[0]", "an array of numbers", "int 1"], id="numbers"),
        pytest.param((np.array(["a"]), Y), ["<U1", "turn texts"], id="texts"),
        pytest.param((X, np.float64(3)), ["y", "float64 of shape ()"], id="no axis"),
        pytest.param(
            (X, {"a": Y, "b": Y}, {"a": Y}), ["['a'], ['b']", "received ['a']"], id="weights"
        ),
        pytest.param(
            ((X, Y), (X[:, 0], Y)), ["inputs for validation", "(20, 2)", "(20,)"], id="validation"
        ),
        pytest.param(PyDataset(X, Y, num_batches=None), ["ends", "__len__"], id="endless"),
        pytest.param(DatasetV2([X, Y]), ["ends", "remove repeat()"], id="repeated for ever"),
        pytest.param(DataLoader(), ["is empty"], id="no batch"),
        pytest.param(
            DataLoader([X, Y], [X[:, :1], Y]), ["[0]", "(20, 2) and (20, 1)", "pad"], id="ragged"
        ),
        pytest.param(DataLoader([X, Y], [X]), ["different arrays"], id="forms"),
    ],
)
def test_anything_else_is_refused_with_what_was_received(value: Any, words: list[str]) -> None:
    with pytest.raises(DataError) as raised:
        read(value)
    message = str(raised.value)
    assert message.startswith(PLACE)
    assert [word for word in words if word not in message] == []


def test_samples_of_many_lengths_are_refused_in_a_few_words() -> None:
    ragged = [np.zeros((1 + index % 90, 3)) for index in range(3000)]
    for value in ((ragged, Y), (ragged, Y, ragged), ((ragged, Y), (ragged[:4], Y))):
        with pytest.raises(DataError) as raised:
            read(value)
        assert len(str(raised.value)) < 600
    with pytest.raises(DataError, match="pad samples of different lengths"):
        read((ragged, Y))


def test_a_data_set_is_read_up_to_the_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded, "MEMORY_LIMIT_BYTES", X.nbytes + Y.nbytes)
    read(PyDataset(X, Y))
    with pytest.raises(DataError, match=r"the first 4 batches exceed"):
        read(PyDataset(X, Y, WEIGHTS))
    read((X, Y, WEIGHTS))


def test_the_digest_is_that_of_all_bytes_types_shapes_and_places() -> None:
    def digest(*value: Any) -> str:
        return digest_of(*read(value))

    first = digest(X, Y)
    assert digest(X.copy(), Y.copy()) == first
    changed = X.copy()
    changed[19, 1] += 1
    others = [
        digest(changed, Y),
        digest(X.astype(np.float32), Y),
        digest(X.reshape(20, 1, 2), Y),
        digest(X, Y, WEIGHTS),
        digest({"x": X}, Y),
        digest((X, Y), (X[:2], Y[:2])),
    ]
    assert len({first, *others}) == 1 + len(others)


def test_the_digest_of_a_large_view_is_made_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(100.0), 8)
    samples = Samples(windows, np.zeros(len(windows)))
    whole = digest_of(samples)
    monkeypatch.setattr(loaded, "_BLOCK_BYTES", 200)
    assert digest_of(samples) == whole


def test_loading_draws_the_same_numbers_each_time() -> None:
    draws = []
    for _ in range(2):
        seed_loading()
        draws.append(np.random.random(3).tolist())
    assert draws[0] == draws[1]
