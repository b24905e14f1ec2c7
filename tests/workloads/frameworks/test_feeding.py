"""Feeds for `fit`; the tests of training cover their use by the backends."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.data.samples import Samples
from workloads.frameworks import feeding

ORDER = np.array([3, 0, 4, 2, 1])


def samples(folder: Path | None = None) -> Samples:
    arrays = np.arange(10, dtype=np.int32).reshape(5, 2), np.arange(5, dtype=np.int32)
    if folder is None:
        return Samples(*arrays)
    for number, array in enumerate(arrays):
        np.save(folder / f"{number}.npy", array)
    return Samples(*(np.load(folder / f"{number}.npy", mmap_mode="r") for number in (0, 1)))


def test_arrays_mapped_from_a_file_are_gathered_batch_by_batch(tmp_path: Path) -> None:
    mapped = samples(tmp_path)
    assert not feeding.is_in_memory(mapped)
    reordered, copied = feeding.reorder(mapped, ORDER), samples().take(ORDER)
    assert isinstance(reordered.inputs, feeding.ReorderedArray)
    assert (len(reordered), reordered.nbytes) == (5, copied.nbytes)
    assert (reordered.inputs.shape, reordered.inputs.dtype) == ((5, 2), np.int32)
    for index in range(3):
        batch, expected_batch = (
            feeding.Batches(samples_of, 2)[index] for samples_of in (reordered, copied)
        )
        assert all(
            (array == expected).all() for array, expected in zip(batch, expected_batch, strict=True)
        )
    assert reordered.first(3).inputs.tolist() == copied.first(3).inputs.tolist()


def views(array: Any) -> Any:
    return np.lib.stride_tricks.sliding_window_view(array, 3)


def test_views_of_mapped_arrays_are_mapped(tmp_path: Path) -> None:
    mapped = samples(tmp_path)
    of_views = Samples(views(np.asarray(mapped.targets)), np.zeros(3))
    assert not feeding.is_in_memory(of_views)


@pytest.mark.parametrize(("length", "in_memory"), [(1_000, True), (2**26, False)])
def test_views_that_would_be_large_are_not_copied(length: int, in_memory: bool) -> None:
    windows = views(np.zeros(length, np.int16))
    assert feeding.is_in_memory(Samples(windows, np.zeros(len(windows), np.int8))) == in_memory
