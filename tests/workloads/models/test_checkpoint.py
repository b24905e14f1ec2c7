"""Weights in a file: named as documented, exact, and refused if they are incomplete."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.failures import DataError
from workloads.models.checkpoint import (
    FORMAT,
    VERSION,
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
        about = {"format": FORMAT, "version": VERSION, "cell": "lstm"}
        assert json.loads(str(file["about"])) == about


def rewrite(path: Path, change: Callable[[Arrays], None]) -> None:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    change(arrays)
    np.savez(path, allow_pickle=False, **arrays)


def damage(path: Path) -> None:
    """Write a compressed file with a complete list of arrays and a damaged first array."""
    np.savez_compressed(path, x_train=np.arange(1000), y_train=0, x_test=0, y_test=0)
    content = bytearray(path.read_bytes())
    content[100:400] = b"\xff" * 300
    path.write_bytes(content)


def flip_a_bit(arrays: Arrays) -> None:
    arrays["recurrent_0/forward/kernel"].view(np.uint32)[0] ^= 1


def change_the_sign_of_zero(arrays: Arrays) -> None:
    arrays["dense/kernel"][0, 0] = -0.0


def rename(arrays: Arrays) -> None:
    arrays["other/kernel"] = arrays.pop("dense/kernel")


@pytest.mark.parametrize("change", [flip_a_bit, change_the_sign_of_zero, rename])
def test_the_smallest_change_is_seen(change: Callable[[Arrays], None]) -> None:
    first, second = checkpoint(), checkpoint()
    first.arrays["dense/kernel"][0, 0] = second.arrays["dense/kernel"][0, 0] = 0.0
    assert first.equals(second)
    change(second.arrays)
    assert not first.equals(second)


def about(**changes: Any) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays["about"] = np.array(json.dumps({**json.loads(str(arrays["about"])), **changes}))

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (about(version=2), "received ('rnnsweep-weights', 2)"),
        (about(format="other"), "expected ('rnnsweep-weights', 1)"),
        (lambda arrays: arrays.pop("about"), "expected weights that rnnsweep saved"),
    ],
)
def test_other_files_are_refused(
    tmp_path: Path, change: Callable[[Arrays], None], words: str
) -> None:
    path = tmp_path / "weights.npz"
    save_checkpoint(path, checkpoint())
    rewrite(path, change)
    with pytest.raises(DataError) as refused:
        load_checkpoint(path)
    assert str(path) in str(refused.value)
    assert words in str(refused.value)
