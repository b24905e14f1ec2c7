"""Feeds for `fit`; the tests of training cover their use by the backends."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.backends import feeding
from workloads.data.array_trees import arrays_of
from workloads.data.samples import Samples

ORDER = np.array([3, 0, 4, 2, 1])


def views(array: Any) -> Any:
    return np.lib.stride_tricks.sliding_window_view(array, 3)


def test_arrays_mapped_from_a_file_are_gathered_batch_by_batch(tmp_path: Path) -> None:
    np.save(tmp_path / "mapped.npy", np.arange(10).reshape(5, 2))
    mapped = np.load(tmp_path / "mapped.npy", mmap_mode="r")
    reordered = feeding.reorder(Samples(mapped, mapped[:, 0]), ORDER)
    assert isinstance(reordered.inputs, feeding.ReorderedArray)
    assert len(reordered) == 5
    batches = [feeding.Batches(reordered, 2)[index] for index in range(3)]
    inputs, targets = (np.concatenate(part) for part in zip(*batches, strict=True))
    assert (inputs == mapped[ORDER]).all() and (targets == mapped[ORDER, 0]).all()
    assert not feeding.is_in_memory(Samples(views(np.asarray(mapped[:, 0])), np.zeros(3)))


@pytest.mark.parametrize(("length", "in_memory"), [(1_000, True), (2**26, False)])
def test_views_that_would_be_large_are_not_copied(length: int, in_memory: bool) -> None:
    windows = views(np.zeros(length, np.int16))
    assert feeding.is_in_memory(Samples(windows, np.zeros(len(windows), np.int8))) == in_memory


def test_batches_have_the_form_of_the_samples() -> None:
    inputs, targets = {"a": ORDER, "b": views(np.arange(7))}, ORDER
    samples = Samples(inputs, targets, ORDER / 2)
    batch = feeding.Batches(samples, 2)[2]
    assert [array.tolist() for array in arrays_of(batch)] == [[1], [[4, 5, 6]], [1], [0.5]]
    assert len(feeding.Batches(Samples(inputs, targets), 2)[0]) == 2
    assert len(feeding.Batches(Samples(inputs, None), 2)[0]) == 1


def test_floating_point_numbers_get_one_format_also_on_reading(tmp_path: Path) -> None:
    np.save(tmp_path / "mapped.npy", ORDER / 3)
    mapped = np.load(tmp_path / "mapped.npy", mmap_mode="r")
    single = ORDER.astype(np.float32)
    converted = feeding.with_float_type(Samples([mapped, ORDER / 3, single], ORDER), "float32")
    lazy, copied, kept = converted.inputs
    assert isinstance(lazy, feeding.ReorderedArray)
    assert lazy.dtype == lazy[1:3].dtype == copied.dtype == np.float32
    assert (lazy[1:3] == copied[1:3]).all() and (copied == single / np.float32(3)).all()
    assert kept is single and converted.targets is ORDER
    reordered = feeding.reorder(converted, ORDER)
    assert (reordered.inputs[0][:] == copied[ORDER]).all()
