"""Weights in a file: named as documented, exact, and refused if they are incomplete."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.failures import DataError
from workloads.models.checkpoint import (
    CHECKPOINT_FORMAT,
    CHECKPOINT_VERSION,
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)

Arrays = dict[str, np.ndarray[Any, Any]]


def checkpoint() -> Checkpoint:
    draw = np.random.default_rng(4)
    shapes = {"recurrent_0/forward/kernel": (2, 12), "dense/kernel": (6, 5)}
    arrays = {name: draw.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    return Checkpoint("lstm", arrays)


def test_numpy_alone_reads_a_saved_checkpoint_bit_by_bit(tmp_path: Path) -> None:
    saved, path = checkpoint(), tmp_path / "new" / "weights.npz"
    save_checkpoint(path, saved)
    assert load_checkpoint(path).equals(saved)
    assert load_checkpoint(path).cell == "lstm"
    assert list(path.parent.iterdir()) == [path]
    with np.load(path, allow_pickle=False) as file:
        assert set(file.files) == {"about", *saved.arrays}
        about = {"format": CHECKPOINT_FORMAT, "version": CHECKPOINT_VERSION, "cell": "lstm"}
        assert json.loads(str(file["about"])) == about


def rewrite(path: Path, change: Callable[[Arrays], None]) -> None:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    change(arrays)
    np.savez(path, allow_pickle=False, **arrays)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dense/kernel", -0.0),
        ("other/kernel", 0.0),
    ],
)
def test_the_smallest_change_is_seen(name: str, value: float) -> None:
    first, second = checkpoint(), checkpoint()
    first.arrays["dense/kernel"][0, 0] = second.arrays["dense/kernel"][0, 0] = 0.0
    assert first.equals(second)
    second.arrays[name] = second.arrays.pop("dense/kernel")
    second.arrays[name][0, 0] = value
    assert not first.equals(second)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "received ('rnnsweep-weights', 2)"),
        ({"format": "other"}, "expected ('rnnsweep-weights', 1)"),
        (None, "expected weights that rnnsweep saved"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, change: dict[str, Any] | None, words: str) -> None:
    def change_about(arrays: Arrays) -> None:
        about = json.loads(str(arrays.pop("about")))
        if change is not None:
            arrays["about"] = np.array(json.dumps({**about, **change}))

    path = tmp_path / "weights.npz"
    save_checkpoint(path, checkpoint())
    rewrite(path, change_about)
    with pytest.raises(DataError) as refused:
        load_checkpoint(path)
    assert str(path) in str(refused.value)
    assert words in str(refused.value)
