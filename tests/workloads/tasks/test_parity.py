"""Saving in one implementation and loading in another, in real trainers; and that it can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.workloads.models.test_checkpoint import Arrays, rewrite
from tests.workloads.shared_trainer import Trainer, failure, only, result
from workloads.implementations import parse_implementation
from workloads.models.checkpoint import load_checkpoint
from workloads.protocol import Artifact, Dataset, Event, KernelProof
from workloads.settings.parity import OUTPUT_COMPARISONS, OutputComparison
from workloads.tasks.parity import largest_difference

FLOAT32 = 1e-5
CELLS = ["lstm", "gru", "rnn_tanh", "rnn_relu"]
SETTINGS = {
    "units": 5,
    "layers": 2,
    "bidirectional": True,
    "dropout": 0.0,
    "epochs": 1,
    "batch_size": 16,
    "samples": 48,
    "validation_samples": 40,
    "learning_rate": 0.01,
}


class Room:
    """A folder, and who saves and loads in it."""

    def __init__(self, folder: Path, trainers: Callable[[str], Trainer]) -> None:
        self.folder, self.trainers, self.digest = folder, trainers, ""

    def files(self, name: str) -> dict[str, str]:
        return {
            "weights": str(self.folder / f"{name}.npz"),
            "outputs": str(self.folder / f"{name}.npy"),
        }

    def save(self, name: str, implementation: str, *, seed: int = 1, **settings: Any) -> None:
        asked = {"settings": {**SETTINGS, **settings}, "into": self.files(name)}
        events = self._ask("save", implementation, asked, seed)
        result(events)
        proof = only(events, KernelProof)
        assert proof.ran == proof.asked
        self.digest = only(events, Dataset).digest

    def load(self, *names: str, by: str, **settings: Any) -> list[Event]:
        asked = {
            "settings": {**SETTINGS, **settings},
            "digest": self.digest,
            "saved": [self.files(name) for name in names],
        }
        return self._ask("compare", by, asked, 2)

    def compare(self, *names: str, by: str, **settings: Any) -> tuple[OutputComparison, ...]:
        events = self.load(*names, by=by, **settings)
        result(events)
        proof = only(events, KernelProof)
        assert proof.ran == proof.asked
        return OUTPUT_COMPARISONS.validate_json(only(events, Artifact).text)

    def change(self, name: str, into: str, change: Callable[[Arrays], None]) -> None:
        """A copy of what was saved, with other weights and the same outputs."""
        for old, new in zip(self.files(name).values(), self.files(into).values(), strict=True):
            Path(new).write_bytes(Path(old).read_bytes())
        rewrite(Path(self.files(into)["weights"]), change)

    def _ask(self, function: str, implementation: str, asked: Any, seed: int) -> list[Event]:
        trainer = self.trainers(parse_implementation(implementation).backend)
        return trainer.ask(
            f"workloads.tasks.parity:{function}", implementation, settings=asked, seed=seed
        )


@pytest.fixture
def room(tmp_path: Path, request: pytest.FixtureRequest) -> Room:
    def trainer(backend: str) -> Trainer:
        found = request.getfixturevalue(
            "trainer" if backend == "tensorflow" else f"{backend}_trainer"
        )
        assert isinstance(found, Trainer)
        return found

    return Room(tmp_path, trainer)


@pytest.mark.parametrize("cell", CELLS)
def test_weights_move_between_the_fused_and_the_portable_layers(room: Room, cell: str) -> None:
    room.save("portable", "torch/portable", cell=cell, seed=1)
    room.save("fused", "torch/fused", cell=cell, seed=2)
    for by in ("torch/portable", "torch/fused"):
        found = room.compare("portable", "fused", "portable", by=by, cell=cell)
        assert all(each.exact for each in found)
        assert all(each.difference is not None for each in found)
        assert max(each.difference or 0.0 for each in found) < FLOAT32
        assert found[2] == found[0]  # nothing is left of the weights in between


@pytest.mark.parametrize(
    ("saver", "loader"),
    [
        ("tensorflow/portable", "torch/fused"),
        ("torch/fused", "tensorflow/portable"),
        ("jax/portable", "torch/fused"),
        ("torch/fused", "jax/portable"),
    ],
)
def test_weights_move_between_backends(room: Room, saver: str, loader: str) -> None:
    room.save("there", saver, cell="gru")
    (found,) = room.compare("there", by=loader, cell="gru")
    assert found.exact
    assert found.difference is not None
    assert 0 < found.difference < FLOAT32


def gates_in_another_order(arrays: Arrays) -> None:
    for name in [name for name in arrays if name.startswith("recurrent_")]:
        first, second, *others = np.split(arrays[name], 4, axis=-1)
        arrays[name] = np.concatenate([second, first, *others], axis=-1)


def the_recurrent_kernel_transposed(arrays: Arrays) -> None:
    gates = np.split(arrays["recurrent_0/forward/recurrent_kernel"], 4, axis=-1)
    arrays["recurrent_0/forward/recurrent_kernel"] = np.concatenate([g.T for g in gates], axis=-1)


def the_directions_exchanged(arrays: Arrays) -> None:
    for name in [name for name in arrays if "/forward/" in name]:
        other = name.replace("forward", "backward")
        arrays[name], arrays[other] = arrays[other], arrays[name]


def one_bias_lost(arrays: Arrays) -> None:
    arrays["recurrent_1/backward/bias"][:] = 0


FAULTS = (
    gates_in_another_order,
    the_recurrent_kernel_transposed,
    the_directions_exchanged,
    one_bias_lost,
)


def test_what_a_wrong_conversion_does_is_beyond_the_tolerance(room: Room) -> None:
    room.save("right", "torch/fused")
    for fault in FAULTS:
        room.change("right", fault.__name__, fault)
    right, *wrong = room.compare("right", *(each.__name__ for each in FAULTS), by="torch/fused")
    assert right == OutputComparison(difference=0.0, exact=True)
    seen = {
        fault.__name__: each.difference or 0.0 for fault, each in zip(FAULTS, wrong, strict=True)
    }
    assert min(seen.values()) > 100 * FLOAT32, seen


def test_each_side_has_weights_of_its_own(room: Room) -> None:
    room.save("one", "torch/fused", seed=1)
    room.save("two", "torch/fused", seed=2)
    one, two = (
        load_checkpoint(Path(room.files(name)["weights"])).arrays() for name in ("one", "two")
    )
    assert all(not np.array_equal(one[name], two[name]) for name in one)


def test_fewer_samples_than_were_saved_are_the_first_ones(room: Room) -> None:
    room.save("forty", "torch/fused")
    (found,) = room.compare("forty", by="torch/fused", validation_samples=24)
    assert found.difference is not None
    assert found.difference < FLOAT32
    message = failure(room.load("forty", by="torch/fused", validation_samples=41)).message
    assert "expected outputs of shape (41, 10), as they are here; received (40, 10)" in message


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"units": 6}, "expected variables {'dense/kernel': (12, 32)"),
        ({"dense_units": 7}, "expected variables {'dense/kernel': (10, 7)"),
        ({"layers": 1}, "expected layers of the shapes"),
        ({"cell": "rnn_relu"}, "expected weights of rnn_relu; received rnn_tanh"),
    ],
)
def test_weights_of_another_model_are_refused(
    room: Room, settings: dict[str, Any], words: str
) -> None:
    room.save("small", "torch/fused", cell="rnn_tanh")
    told = failure(room.load("small", by="torch/fused", **{"cell": "rnn_tanh", **settings}))
    assert told.kind == "data"
    assert room.files("small")["weights"] in told.message
    assert words in told.message


def test_other_data_is_refused(room: Room) -> None:
    room.save("small", "torch/fused")
    room.digest = "0" * 64
    told = failure(room.load("small", by="torch/fused"))
    assert told.kind == "data"
    assert f"expected the data whose outputs were saved, of digest {'0' * 64}" in told.message


def test_outputs_that_are_not_there_are_refused(room: Room) -> None:
    room.save("small", "torch/fused")
    outputs = Path(room.files("small")["outputs"])
    outputs.write_text("no array")
    assert "expected saved outputs" in failure(room.load("small", by="torch/fused")).message
    outputs.unlink()
    assert str(outputs) in failure(room.load("small", by="torch/fused")).message


def test_weights_that_are_not_finite_are_told(room: Room) -> None:
    def poison(arrays: Arrays) -> None:
        arrays["classes/bias"][0] = np.nan

    room.save("good", "torch/fused")
    room.change("good", "bad", poison)
    good, bad = room.compare("good", "bad", by="torch/fused")
    assert good.difference == 0
    assert bad == OutputComparison(difference=None, exact=True)


def test_the_difference_is_relative_to_the_largest_output() -> None:
    expected = np.array([[0.001, -4.0], [2.0, 0.0]], np.float32)
    other = np.array([[0.001, -4.0], [1.5, 0.0]], np.float32)
    assert largest_difference(other, expected) == 0.125
    assert largest_difference(expected, expected) == 0
    assert largest_difference(np.full_like(expected, np.inf), expected) is None
