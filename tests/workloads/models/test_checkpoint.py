"""Weights in a file: named as documented, exact, and refused if they are incomplete."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.eligibility import Cell
from workloads.failures import DataError
from workloads.models.canonical_weights import GATES, CanonicalLayer
from workloads.models.checkpoint import (
    FORMAT,
    VERSION,
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)

Arrays = dict[str, np.ndarray[Any, Any]]


def checkpoint(cell: Cell = "lstm", directions: int = 2, *, bias: bool = True) -> Checkpoint:
    draw, width = np.random.default_rng(4), 3 * directions
    rows = GATES[cell] * 3
    shape = (2, rows) if cell == "gru" else (rows,)
    stack = [
        CanonicalLayer(
            draw.standard_normal((inputs, rows), np.float32),
            draw.standard_normal((3, rows), np.float32),
            draw.standard_normal(shape, np.float32) if bias else None,
        )
        for inputs in (2, 2, width, width)
    ]
    dense = draw.standard_normal((6, 5), np.float32)
    return Checkpoint(cell, directions, tuple(stack), {"dense/kernel": dense})


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("cell", GATES)
def test_a_saved_checkpoint_is_loaded_bit_by_bit(
    tmp_path: Path, cell: Cell, directions: int, bias: bool
) -> None:
    saved, path = checkpoint(cell, directions, bias=bias), tmp_path / "new" / "weights.npz"
    save_checkpoint(path, saved)
    loaded = load_checkpoint(path)
    assert loaded.equals(saved)
    assert (loaded.cell, loaded.directions) == (cell, directions)
    assert list(path.parent.iterdir()) == [path]


def test_numpy_alone_reads_the_file_as_documented(tmp_path: Path) -> None:
    saved = checkpoint()
    save_checkpoint(tmp_path / "weights.npz", saved)
    with np.load(tmp_path / "weights.npz", allow_pickle=False) as file:
        assert set(file.files) == {"about", "dense/kernel"} | {
            f"recurrent_{number}/{direction}/{role}"
            for number in (0, 1)
            for direction in ("forward", "backward")
            for role in ("kernel", "recurrent_kernel", "bias")
        }
        about = {"format": FORMAT, "version": VERSION, "cell": "lstm"}
        assert json.loads(str(file["about"])) == about
        assert np.array_equal(file["recurrent_1/backward/kernel"], saved.stack[3].kernel)


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
    arrays["recurrent_0/forward/bias"].view(np.uint32)[0] ^= 1


def change_the_sign_of_zero(arrays: Arrays) -> None:
    arrays["dense/kernel"][0, 0] = -0.0


def rename(arrays: Arrays) -> None:
    arrays["other/kernel"] = arrays.pop("dense/kernel")


@pytest.mark.parametrize("change", [flip_a_bit, change_the_sign_of_zero, rename])
def test_the_smallest_change_is_seen(tmp_path: Path, change: Callable[[Arrays], None]) -> None:
    first = checkpoint()
    first.others["dense/kernel"][0, 0] = 0.0
    save_checkpoint(tmp_path / "weights.npz", first)
    rewrite(tmp_path / "weights.npz", change)
    assert not load_checkpoint(tmp_path / "weights.npz").equals(first)


def about(**changes: Any) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays["about"] = np.array(json.dumps({**json.loads(str(arrays["about"])), **changes}))

    return change


def replaced(name: str, *shape: int) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[f"recurrent_0/forward/{name}"] = np.zeros(shape, np.float32)

    return change


def without(prefix: str) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        for name in [name for name in arrays if name.startswith(prefix)]:
            del arrays[name]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (about(version=2), "received ('rnnsweep-weights', 2)"),
        (about(format="other"), "expected ('rnnsweep-weights', 1)"),
        (without("about"), "expected weights that rnnsweep saved"),
        (without("recurrent_0/forward/recurrent_kernel"), "recurrent_kernel is missing"),
        (replaced("bias", 5), "expected kernel (inputs, g·units)"),
        (replaced("recurrent_kernel", 0, 0), "expected kernel (inputs, g·units)"),
        (replaced("recurrent_kernel", 12), "expected kernel (inputs, g·units)"),
        (without("recurrent_"), "expected recurrent_0/forward/kernel; received dense/kernel"),
        (about(cell="gru"), "recurrent_0/forward: expected the 3 gates of gru; received 4"),
        (about(cell="lsm"), "expected one of lstm, gru, rnn_tanh, rnn_relu; received 'lsm'"),
        (about(cell=["lstm"]), "expected weights that rnnsweep saved"),
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


def test_a_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    save_checkpoint(path, checkpoint())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"expected weights in an \.npz file") as refused:
        load_checkpoint(path)
    assert "you trust" not in str(refused.value)  # NumPy's message about an unknown file
