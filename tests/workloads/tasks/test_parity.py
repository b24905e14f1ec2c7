"""Saving in one implementation and loading in another, in real trainers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.workloads.models.test_checkpoint import Arrays, rewrite
from tests.workloads.shared_trainer import Trainer, failure, result, single_event
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
    """A folder with the trainers that save and load checkpoints in it."""

    def __init__(self, folder: Path, trainers: Callable[[str], Trainer]) -> None:
        self.folder, self.trainers, self.digest = folder, trainers, ""

    def files(self, name: str) -> dict[str, str]:
        return {
            "weights": str(self.folder / f"{name}.npz"),
            "outputs": str(self.folder / f"{name}.npy"),
        }

    def save(self, name: str, implementation: str, *, seed: int = 1, **settings: Any) -> None:
        trial_settings = {"settings": {**SETTINGS, **settings}, "into": self.files(name)}
        events = self._ask("save", implementation, trial_settings, seed)
        result(events)
        proof = single_event(events, KernelProof)
        assert proof.ran == proof.asked
        self.digest = single_event(events, Dataset).digest

    def load(self, *names: str, by: str, **settings: Any) -> list[Event]:
        trial_settings = {
            "settings": {**SETTINGS, **settings},
            "digest": self.digest,
            "saved": [self.files(name) for name in names],
        }
        return self._ask("compare", by, trial_settings, 2)

    def compare(self, *names: str, by: str, **settings: Any) -> tuple[OutputComparison, ...]:
        events = self.load(*names, by=by, **settings)
        result(events)
        proof = single_event(events, KernelProof)
        assert proof.ran == proof.asked
        return OUTPUT_COMPARISONS.validate_json(single_event(events, Artifact).text)

    def change(self, name: str, into: str, change: Callable[[Arrays], None]) -> None:
        """Copy a checkpoint with changed weights and the same outputs."""
        for old, new in zip(self.files(name).values(), self.files(into).values(), strict=True):
            Path(new).write_bytes(Path(old).read_bytes())
        rewrite(Path(self.files(into)["weights"]), change)

    def _ask(
        self, function: str, implementation: str, trial_settings: Any, seed: int
    ) -> list[Event]:
        trainer = self.trainers(parse_implementation(implementation).backend)
        return trainer.ask(
            f"workloads.tasks.parity:{function}", implementation, settings=trial_settings, seed=seed
        )


@pytest.fixture
def room(tmp_path: Path, request: pytest.FixtureRequest) -> Room:
    def trainer(backend: str) -> Trainer:
        trainer_process = request.getfixturevalue(
            "trainer" if backend == "tensorflow" else f"{backend}_trainer"
        )
        assert isinstance(trainer_process, Trainer)
        return trainer_process

    return Room(tmp_path, trainer)


@pytest.mark.parametrize("cell", CELLS)
def test_weights_move_between_the_fused_and_the_portable_layers(room: Room, cell: str) -> None:
    room.save("portable", "torch/portable", cell=cell, seed=1)
    room.save("fused", "torch/fused", cell=cell, seed=2)
    for by in ("torch/portable", "torch/fused"):
        comparisons = room.compare("portable", "fused", "portable", by=by, cell=cell)
        assert all(comparison.exact for comparison in comparisons)
        assert all(comparison.difference is not None for comparison in comparisons)
        assert max(comparison.difference or 0.0 for comparison in comparisons) < FLOAT32
        assert comparisons[2] == comparisons[0]  # the weights in between have no effect


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
    (comparison,) = room.compare("there", by=loader, cell="gru")
    assert comparison.exact
    assert comparison.difference is not None
    assert 0 < comparison.difference < FLOAT32


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


def test_a_wrong_conversion_exceeds_the_tolerance(room: Room) -> None:
    room.save("right", "torch/fused")
    for fault in FAULTS:
        room.change("right", fault.__name__, fault)
    right, *wrong = room.compare("right", *(fault.__name__ for fault in FAULTS), by="torch/fused")
    assert right == OutputComparison(difference=0.0, exact=True)
    differences = {
        fault.__name__: comparison.difference or 0.0
        for fault, comparison in zip(FAULTS, wrong, strict=True)
    }
    assert min(differences.values()) > 100 * FLOAT32, differences


def test_both_sides_have_different_weights(room: Room) -> None:
    room.save("one", "torch/fused", seed=1)
    room.save("two", "torch/fused", seed=2)
    one, two = (
        load_checkpoint(Path(room.files(name)["weights"])).arrays() for name in ("one", "two")
    )
    assert all(not np.array_equal(one[name], two[name]) for name in one)


def test_fewer_samples_are_compared_with_the_first_saved_ones(room: Room) -> None:
    room.save("forty", "torch/fused")
    (comparison,) = room.compare("forty", by="torch/fused", validation_samples=24)
    assert comparison.difference is not None
    assert comparison.difference < FLOAT32
    message = failure(room.load("forty", by="torch/fused", validation_samples=41)).message
    assert "expected outputs of shape (41, 10), as on this machine; received (40, 10)" in message


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
    failed = failure(room.load("small", by="torch/fused", **{"cell": "rnn_tanh", **settings}))
    assert failed.kind == "data"
    assert room.files("small")["weights"] in failed.message
    assert words in failed.message


def test_other_data_is_refused(room: Room) -> None:
    room.save("small", "torch/fused")
    room.digest = "0" * 64
    failed = failure(room.load("small", by="torch/fused"))
    assert failed.kind == "data"
    assert f"expected the data whose outputs were saved, of digest {'0' * 64}" in failed.message


def test_missing_outputs_are_refused(room: Room) -> None:
    room.save("small", "torch/fused")
    outputs = Path(room.files("small")["outputs"])
    outputs.write_text("no array")
    assert "expected saved outputs" in failure(room.load("small", by="torch/fused")).message
    outputs.unlink()
    assert str(outputs) in failure(room.load("small", by="torch/fused")).message


def test_weights_that_are_not_finite_are_reported(room: Room) -> None:
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
