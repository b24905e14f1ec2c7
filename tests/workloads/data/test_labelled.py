"""Images and reviews, from files and from Keras' loaders, and the digests of all arrays."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from tests.building.tasks import find_task
from workloads.data.labelled import LabelledData
from workloads.data.samples import Samples
from workloads.data.sources import DOWNLOADS, data_digest
from workloads.failures import DataError
from workloads.registry import find_workload
from workloads.tasks.image_rows.data import load_image_rows, scale_columns
from workloads.tasks.image_rows.settings import ImageRowsSettings
from workloads.tasks.sentiment.data import load_sentiment
from workloads.tasks.sentiment.settings import SentimentSettings

Install = Callable[..., None]
IMAGES: dict[str, Any] = {
    "x_train": np.arange(18).reshape(2, 3, 3),
    "y_train": np.array([0, 2]),
    "x_test": np.zeros((2, 3, 3)),
    "y_test": np.array([1, 1]),
}
TRAIN = [[1, 5, 9], [1, 7], [1, 5, 5, 8, 6]]
TEST = [[1, 9], [1, 4, 6]]
LABELS = {"y_train": np.array([0, 1, 1]), "y_test": np.array([1, 0])}
REVIEWS: dict[str, Any] = {
    "x_train": np.array([[1, 5, 9, 0, 0], [0, 0, 0, 1, 7], [1, 5, 5, 8, 6]]),
    "x_test": np.array([[1, 9, 0], [1, 4, 6]], np.uint16),
    **LABELS,
}


def mnist(path: Path | None = None) -> LabelledData:
    where = None if path is None else str(path)
    return load_image_rows(ImageRowsSettings(dataset="mnist", data_path=where))


def imdb(path: Path | None = None, **own: Any) -> LabelledData:
    where = None if path is None else str(path)
    sizes = {"vocabulary": 9, "sequence_length": 4, **own}
    return load_sentiment(SentimentSettings(dataset="imdb", data_path=where, **sizes))


def rows(samples: Samples) -> list[tuple[list[int], int]]:
    return sorted(zip(samples.inputs.tolist(), samples.targets.tolist(), strict=True))


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5))))
def test_every_column_of_every_image_is_scaled_separately(pixels: NDArray[np.uint8]) -> None:
    scaled = scale_columns(pixels)
    assert scaled.dtype == np.float32
    for image, original in zip(scaled, pixels, strict=True):
        for column, before in zip(image.T, original.T, strict=True):
            if before.max() == before.min():
                assert (column == 0).all()
            else:
                assert (column.min(), column.max()) == (0.0, 1.0)
                assert (np.argsort(column, stable=True) == np.argsort(before, stable=True)).all()


def test_mnist_comes_from_a_file_or_from_keras(tmp_path: Path, install_keras: Install) -> None:
    path = tmp_path / "images.npz"
    np.savez(path, **IMAGES)
    of_file = mnist(path)
    parts = ((IMAGES["x_train"], IMAGES["y_train"]), (IMAGES["x_test"], IMAGES["y_test"]))
    install_keras(mnist=lambda: parts)
    of_keras = mnist()
    assert (of_file.train.inputs == of_keras.train.inputs).all()
    assert of_file.classes == of_keras.classes == 3


def test_reviews_of_a_file_are_padded_and_limited_to_the_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "reviews.npz"
    np.savez_compressed(path, **REVIEWS)
    reviews = imdb(path)
    assert rows(reviews.train) == [
        ([1, 5, 2, 0], 0),  # word 9 is outside the vocabulary
        ([1, 7, 0, 0], 1),
        ([5, 5, 8, 6], 1),  # the end remains
    ]
    assert rows(reviews.validation) == [([1, 2, 0, 0], 1), ([1, 4, 6, 0], 0)]
    assert (reviews.classes, reviews.source) == (2, str(path))
    assert reviews.digest == data_digest("imdb", str(path))
    few = imdb(path, samples=2, validation_samples=1)
    assert (few.train.inputs == reviews.train.inputs[:2]).all()
    assert len(few.validation) == 1


def test_imdb_is_loaded_from_keras_once(install_keras: Install) -> None:
    asked: list[Any] = []

    def load_data(num_words: int) -> Any:
        asked.append(num_words)
        limited = (
            [[word if word < num_words else 2 for word in row] for row in lists]
            for lists in (TRAIN, TEST)
        )
        return tuple(
            (np.array(lists, dtype=object), labels)
            for lists, labels in zip(limited, LABELS.values(), strict=True)
        )

    install_keras(imdb=load_data)
    first, second = imdb(), imdb()
    assert asked == [9]
    assert rows(first.train) == rows(second.train)
    assert rows(first.train)[0] == ([1, 5, 2, 0], 0)
    assert rows(imdb(padding="left").train)[0] == ([0, 0, 1, 7], 1)
    assert first.digest == DOWNLOADS["imdb"]


@pytest.mark.parametrize("load", [mnist, imdb])
def test_a_failed_download_is_explained(load: Callable[[], Any], install_keras: Install) -> None:
    install_keras()
    with pytest.raises(DataError, match=rf"{load.__name__}: .*no network.* settings\.data_path to"):
        load()


@pytest.mark.parametrize(
    ("load", "change", "message"),
    [
        (mnist, {"y_test": None}, "it has x_train, y_train, x_test$"),
        (mnist, {"x_train": np.zeros((2, 9))}, r"3 dimensions.* \(2, 9\) and \(2,\)"),
        (mnist, {"y_train": np.zeros(3, int)}, r"a label for each.* \(2, 3, 3\) and \(3,\)"),
        (mnist, {"y_train": np.zeros(2)}, "y_train needs integers .* float64"),
        (mnist, {"x_test": np.full((2, 3, 3), np.nan)}, "x_test has NaN or infinite"),
        (mnist, {"x_test": np.zeros((2, 3, 3), object)}, "not an .npz file of arrays: Object"),
        (imdb, {"x_test": REVIEWS["x_test"] / 2}, "x_test needs integers from 0 to"),
        (imdb, {"x_train": np.array([[1, 2], [1, 2], [0, 0]])}, "none, the first at index 2"),
        (imdb, {"y_train": np.array([0, 1, 2])}, "the labels 0 and 1 in .* labels up to 2"),
        (
            imdb,
            {"x_train": np.array([[1], [1, 2]], dtype=object)},
            r"For Keras' own imdb\.npz, put",
        ),
    ],
)
def test_a_file_of_other_arrays_is_refused(
    tmp_path: Path, load: Callable[[Path], Any], change: dict[str, Any], message: str
) -> None:
    path, content = tmp_path / "own.npz", {**(IMAGES if load is mnist else REVIEWS), **change}
    np.savez(path, **{name: value for name, value in content.items() if value is not None})
    with pytest.raises(DataError, match=rf"own\.npz: .*{message}"):
        load(path)


def test_a_file_that_is_no_npz_is_refused(tmp_path: Path) -> None:
    for number, content in enumerate((b"", b"not a zip file", b"PK\x03\x04 broken")):
        (tmp_path / f"{number}.npz").write_bytes(content)
    np.save(tmp_path / "bare.npy", np.zeros((2, 3)))
    damaged = tmp_path / "damaged.npz"  # with a complete list of arrays
    np.savez_compressed(damaged, x_train=np.arange(1000), y_train=0, x_test=0, y_test=0)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:100] + b"\xff" * 300 + content[400:])
    assert len(list(tmp_path.iterdir())) == 5
    for path in tmp_path.iterdir():
        with pytest.raises(DataError, match=rf"{path.name}: not an \.npz file"):
            mnist(path)
    with pytest.raises(DataError, match=r"absent\.npz.*No such file.*settings\.data_path"):
        mnist(tmp_path / "absent.npz")


class PublishedData(NamedTuple):
    """A workload's settings, the beginning of its data's digest, and digests of both parts' arrays.

    The text of python-docs is of one version of Python: other versions have another.
    """

    name: str
    workload: str
    digest: str
    train: str
    validation: str
    settings: Mapping[str, Any] = {}


PUBLISHED_DATA = [
    PublishedData(
        name="images",
        workload="image_rows",
        digest="09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22",
        train="4bfd907a7b2b2263",
        validation="0adcb28d35b8e5f9",
    ),
    PublishedData(
        name="zipf words",
        workload="next_token",
        settings={"dataset": "zipf", "vocabulary": 50},
        digest="f79401ac4701352545d559155be8bd326ac1abb0d897080fbfbf08a70073c7c6",
        train="b743a6dff5d2c978",
        validation="108d011a7c2300eb",
    ),
    PublishedData(
        name="documents",
        workload="sentiment",
        settings={"dataset": "python-docs"},
        digest="f784d6fb39bd",
        train="bf0cd364513c9ba6",
        validation="523ea07798463cd7",
    ),
    PublishedData(
        name="left padding and few words",
        workload="sentiment",
        settings={"dataset": "python-docs", "padding": "left", "vocabulary": 500, "samples": 77},
        digest="f784d6fb39bd",
        train="240c12de75ce5c2a",
        validation="fb5f6775b9f3c7c5",
    ),
    PublishedData(
        name="tokens",
        workload="next_token",
        digest="f784d6fb39bd",
        train="3b78d8c5a877836e",
        validation="5aafc1132fbcd23d",
    ),
    PublishedData(
        name="characters",
        workload="char_rnn",
        digest="f784d6fb39bd",
        train="52a770a005c39584",
        validation="957371dce686e505",
    ),
]


@pytest.mark.parametrize("case", PUBLISHED_DATA, ids=lambda case: case.name)
def test_the_arrays_are_the_published_ones(case: PublishedData) -> None:
    settings = dict(case.settings)
    definition = find_workload(case.workload)
    assert definition.settings_model is not None
    task = find_task(case.workload)
    data = task.load(task.check_settings(settings), 0)
    assert data.digest == definition.data_digest(settings)
    if data.name == "python-docs" and not data.digest.startswith(case.digest):
        pytest.skip("this Python has another documentation")
    assert data.digest.startswith(case.digest)
    assert (_digest(data.train), _digest(data.validation)) == (case.train, case.validation)


def _digest(samples: Samples) -> str:
    state = hashlib.sha256()
    for array in (samples.inputs, samples.targets):
        state.update(str((array.dtype, array.shape)).encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()[:16]
