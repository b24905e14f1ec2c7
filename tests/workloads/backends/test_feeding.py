"""Feeds for `fit`; the tests of training cover their use by the backends."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.backends import feeding
from workloads.data.samples import Samples

ORDER = np.array([3, 0, 4, 2, 1])


def views(array: Any) -> Any:
    return np.lib.stride_tricks.sliding_window_view(array, 3)


def test_arrays_mapped_from_a_file_are_gathered_batch_by_batch(tmp_path: Path) -> None:
    np.save(tmp_path / "mapped.npy", np.arange(10).reshape(5, 2))
    mapped = np.load(tmp_path / "mapped.npy", mmap_mode="r")
    reordered = feeding.reorder(Samples(mapped, mapped[:, 0]), ORDER)
    assert isinstance(reordered.inputs, feeding.ReorderedArray)
    assert (len(reordered), reordered.nbytes) == (5, mapped.nbytes + mapped[:, 0].nbytes)
    batches = [feeding.Batches(reordered, 2)[index] for index in range(3)]
    inputs, targets = (np.concatenate(part) for part in zip(*batches, strict=True))
    assert (inputs == mapped[ORDER]).all() and (targets == mapped[ORDER, 0]).all()
    assert not feeding.is_in_memory(Samples(views(np.asarray(mapped[:, 0])), np.zeros(3)))


@pytest.mark.parametrize(("length", "in_memory"), [(1_000, True), (2**26, False)])
def test_views_that_would_be_large_are_not_copied(length: int, in_memory: bool) -> None:
    windows = views(np.zeros(length, np.int16))
    assert feeding.is_in_memory(Samples(windows, np.zeros(len(windows), np.int8))) == in_memory
