from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from tests.workloads.models.test_checkpoint import damage
from workloads.data.images import load_images, scale_columns, stratified_split
from workloads.data.sources import digits_file
from workloads.failures import DataError


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


def test_digits_are_those_of_scikit_learn() -> None:
    data = load_images("digits")
    assert data.train.inputs.shape == (1438, 8, 8)
    assert data.validation.inputs.shape == (359, 8, 8)
    assert data.classes == 10
    with gzip.open(digits_file(), "rt") as file:
        rows = np.loadtxt(file, delimiter=",")
    labels = np.concatenate([data.train.targets, data.validation.targets])
    assert (np.bincount(labels) == np.bincount(rows[:, -1].astype(int))).all()
    assert data.train.inputs.dtype == np.float32


def test_the_split_is_stratified_disjoint_and_always_the_same() -> None:
    labels = np.repeat(np.arange(4, dtype=np.int32), [10, 20, 30, 5])
    train, validation = stratified_split(labels)
    assert sorted([*train, *validation]) == list(range(65))
    assert list(np.bincount(labels[validation])) == [2, 4, 6, 1]
    second_split, _ = stratified_split(labels)
    assert (train == second_split).all()
    assert len(np.unique(labels[train][:20])) > 1  # not sorted by class


def test_limits_take_the_first_samples() -> None:
    images = load_images("digits")
    few = load_images("digits", samples=50, validation_samples=7)
    assert (len(few.train), len(few.validation)) == (50, 7)
    assert (few.train.inputs == images.train.inputs[:50]).all()


@pytest.mark.parametrize(
    ("arrays_", "message"),
    [
        ({"x_train": np.zeros((2, 3, 3))}, "missing y_train, x_test, y_test; received x_train"),
        (
            {"x_train": np.zeros((2, 9)), "y_train": np.zeros(2, int)},
            r"expected x_train of shape \(samples, rows, columns\).*received \(2, 9\) and \(2,\)",
        ),
        (
            {"x_train": np.zeros((2, 3, 3)), "y_train": np.zeros(2)},
            "expected y_train of integers from 0; received float64",
        ),
    ],
)
def test_a_file_of_other_arrays_is_refused(
    tmp_path: Path,
    arrays_: dict[str, Any],
    message: str,
) -> None:
    path = tmp_path / "images.npz"
    good = {"x_test": np.zeros((2, 3, 3)), "y_test": np.zeros(2, int)}
    content: dict[str, Any] = {**arrays_, **(good if "y_train" in arrays_ else {})}
    np.savez(path, **content)
    with pytest.raises(DataError, match=message):
        load_images("mnist", str(path))


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 broken"])
def test_a_file_that_is_no_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "images.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"images\.npz: expected an \.npz file of arrays"):
        load_images("mnist", str(path))


def test_one_bare_array_and_a_damaged_file_are_refused(tmp_path: Path) -> None:
    bare, damaged = tmp_path / "bare.npy", tmp_path / "damaged.npz"
    np.save(bare, np.zeros((2, 3)))
    with pytest.raises(DataError, match=r"arrays; received one array of shape \(2, 3\)"):
        load_images("mnist", str(bare))
    damage(damaged)
    with pytest.raises(DataError, match=r"damaged\.npz: expected an \.npz file of arrays"):
        load_images("mnist", str(damaged))
