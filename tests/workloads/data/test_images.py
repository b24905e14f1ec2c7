from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from tests.workloads.models.test_checkpoint import damage
from workloads.data.images import load_images, scale_columns
from workloads.data.samples import stratified_split
from workloads.failures import DataError

IMAGES: dict[str, Any] = {
    "x_train": np.arange(18).reshape(2, 3, 3),
    "y_train": np.array([0, 2]),
    "x_test": np.zeros((2, 3, 3)),
    "y_test": np.array([1, 1]),
}


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


def test_the_split_is_stratified_disjoint_and_always_the_same() -> None:
    labels = np.repeat(np.arange(4, dtype=np.int32), [10, 20, 30, 5])
    train, validation = stratified_split(labels)
    assert sorted([*train, *validation]) == list(range(65))
    assert list(np.bincount(labels[validation])) == [2, 4, 6, 1]
    assert (train == stratified_split(labels)[0]).all()
    assert len(np.unique(labels[train][:20])) > 1  # not sorted by class


def test_limits_take_the_first_samples() -> None:
    images = load_images("digits")
    few = load_images("digits", samples=50, validation_samples=7)
    assert (len(few.train), len(few.validation), few.classes) == (50, 7, 10)
    assert (few.train.inputs == images.train.inputs[:50]).all()


def test_mnist_comes_from_a_file_or_from_keras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "images.npz"
    np.savez(path, **IMAGES)
    of_file = load_images("mnist", str(path))
    parts = ((IMAGES["x_train"], IMAGES["y_train"]), (IMAGES["x_test"], IMAGES["y_test"]))
    install_keras(monkeypatch, mnist=lambda: parts)
    of_keras = load_images("mnist")
    assert (of_file.train.inputs == of_keras.train.inputs).all()
    assert of_file.classes == of_keras.classes == 3
    install_keras(monkeypatch)
    with pytest.raises(DataError, match=r"mnist: .*no network.* set settings\.data_path to an"):
        load_images("mnist")


def install_keras(monkeypatch: pytest.MonkeyPatch, **loaders: Any) -> None:
    """Replace the vendor's downloaders: those not given fail. The framework is not imported."""

    def fail(*_: Any, **__: Any) -> Any:
        raise Exception("there is no network")

    datasets = {
        name: SimpleNamespace(load_data=loaders.get(name, fail)) for name in ("mnist", "imdb")
    }
    utils = SimpleNamespace(get_file=loaders.get("get_file", fail))
    fake = SimpleNamespace(datasets=SimpleNamespace(**datasets), utils=utils)
    monkeypatch.setitem(sys.modules, "keras", fake)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_test": None}, "expected arrays x_train, .*; received x_train, y_train, x_test$"),
        ({"x_train": np.zeros((2, 9))}, r"x_train in 3 dimensions.*received \(2, 9\) and \(2,\)"),
        ({"y_train": np.zeros(3, int)}, r"a label in y_train.*received \(2, 3, 3\) and \(3,\)"),
        ({"y_train": np.zeros(2)}, "expected y_train of integers from 0; received float64"),
        ({"y_test": np.array([-1, 0])}, "expected y_test of integers from 0; received int64 from"),
        ({"x_test": np.full((2, 3, 3), np.nan)}, "expected finite pixels in x_test"),
        ({"x_test": np.zeros((2, 3, 3), object)}, "expected arrays in an .npz file; Object arrays"),
    ],
)
def test_a_file_of_other_arrays_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path, content = tmp_path / "images.npz", {**IMAGES, **change}
    np.savez(path, **{name: value for name, value in content.items() if value is not None})
    with pytest.raises(DataError, match=rf"images\.npz: {message}|{message}"):
        load_images("mnist", str(path))


def test_a_file_that_is_no_npz_is_refused(tmp_path: Path) -> None:
    for number, content in enumerate((b"", b"not a zip file", b"PK\x03\x04 broken")):
        (tmp_path / f"{number}.npz").write_bytes(content)
    np.save(tmp_path / "bare.npy", np.zeros((2, 3)))
    damage(tmp_path / "damaged.npz")
    assert len(list(tmp_path.iterdir())) == 5
    for path in tmp_path.iterdir():
        with pytest.raises(DataError, match=rf"{path.name}: expected arrays in an \.npz file"):
            load_images("mnist", str(path))
    with pytest.raises(DataError, match=r"absent\.npz.*No such file.*settings\.data_path"):
        load_images("mnist", str(tmp_path / "absent.npz"))
