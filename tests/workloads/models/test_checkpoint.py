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
BOTH = ("forward", "backward")


def layer(cell: Cell, inputs: int, units: int, *, bias: bool = True, seed: int = 0) -> Any:
    draw, width = np.random.default_rng(seed), GATES[cell] * units
    shape = (2, width) if cell == "gru" else (width,)
    return CanonicalLayer(
        draw.standard_normal((inputs, width), np.float32),
        draw.standard_normal((units, width), np.float32),
        draw.standard_normal(shape, np.float32) if bias else None,
    )


def checkpoint(cell: Cell = "lstm", directions: int = 2, *, bias: bool = True) -> Checkpoint:
    width = 3 * directions
    stack = [layer(cell, inputs, 3, bias=bias, seed=n) for n, inputs in enumerate((2, 2, width))]
    stack.append(layer(cell, width, 3, bias=bias, seed=9))
    dense = np.random.default_rng(4).standard_normal((6, 5), np.float32)
    return Checkpoint(cell, directions, tuple(stack), {"dense/kernel": dense})


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("cell", GATES)
def test_a_saved_checkpoint_is_loaded_bit_by_bit(
    tmp_path: Path, cell: Cell, directions: int, bias: bool
) -> None:
    saved = checkpoint(cell, directions, bias=bias)
    save_checkpoint(tmp_path / "new" / "weights.npz", saved)
    loaded = load_checkpoint(tmp_path / "new" / "weights.npz")
    assert loaded.equals(saved)
    assert (loaded.cell, loaded.directions) == (cell, directions)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["weights.npz"]


def test_numpy_alone_reads_the_file_as_documented(tmp_path: Path) -> None:
    saved = checkpoint()
    save_checkpoint(tmp_path / "weights.npz", saved)
    with np.load(tmp_path / "weights.npz", allow_pickle=False) as file:
        assert set(file.files) == {
            "about",
            "dense/kernel",
            *(
                f"recurrent_{number}/{direction}/{role}"
                for number in (0, 1)
                for direction in BOTH
                for role in ("kernel", "recurrent_kernel", "bias")
            ),
        }
        assert json.loads(str(file["about"])) == {
            "format": FORMAT,
            "version": VERSION,
            "cell": "lstm",
        }
        assert np.array_equal(file["recurrent_1/backward/kernel"], saved.stack[3].kernel)


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


def about(**changes: Any) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays["about"] = np.array(json.dumps({**json.loads(str(arrays["about"])), **changes}))

    return change


def without(name: str) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        del arrays[name]

    return change


def of_another_shape(arrays: Arrays) -> None:
    arrays["recurrent_0/forward/bias"] = np.zeros(5, np.float32)


def without_units(arrays: Arrays) -> None:
    arrays["recurrent_0/forward/recurrent_kernel"] = np.zeros((0, 0), np.float32)


def without_an_axis(arrays: Arrays) -> None:
    arrays["recurrent_0/forward/recurrent_kernel"] = np.zeros(12, np.float32)


def without_a_stack(arrays: Arrays) -> None:
    for name in [name for name in arrays if name.startswith("recurrent_")]:
        del arrays[name]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (about(version=2), "received ('rnnsweep-weights', 2)"),
        (about(format="other"), "expected ('rnnsweep-weights', 1)"),
        (without("about"), "expected weights that rnnsweep saved"),
        (without("recurrent_0/forward/recurrent_kernel"), "recurrent_kernel is missing"),
        (of_another_shape, "expected kernel (inputs, g·units)"),
        (without_units, "expected kernel (inputs, g·units)"),
        (without_an_axis, "expected kernel (inputs, g·units)"),
        (without_a_stack, "expected recurrent_0/forward/kernel; received dense/kernel"),
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


def test_files_that_are_no_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no weights")
    np.savez(tmp_path / "pickle.npz", about=np.array([{"a": 1}], object))
    complete_file = tmp_path / "whole.npz"
    save_checkpoint(complete_file, checkpoint())
    (tmp_path / "cut.npz").write_bytes(complete_file.read_bytes()[:-100])
    np.save(tmp_path / "array.npy", np.zeros(3))
    damage(tmp_path / "damaged.npz")
    names = ("none.npz", "text.npz", "pickle.npz", "cut.npz", "array.npy", "damaged.npz", ".")
    for name in names:
        with pytest.raises(DataError, match=r"expected weights in an \.npz file") as refused:
            load_checkpoint(tmp_path / name)
        assert "you trust" not in str(refused.value)  # NumPy's message about an unknown file
