"""Saving in one implementation and loading in another, in real trainers."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.orchestrator.cli.typed_commands import type_command
from tests.workloads.shared_trainer import Trainer, expect_package, failure, result, single_event
from workloads.diagnostics.parity import largest_difference
from workloads.diagnostics.parity_request import OUTPUT_COMPARISONS, OutputComparison
from workloads.models.checkpoint import load_checkpoint
from workloads.protocol import Artifact, Dataset, Event, KernelProof

full = pytest.mark.full
FLOAT32 = 1e-5
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
    def __init__(self, folder: Path, trainer_for: Callable[[str], Trainer]) -> None:
        self.folder, self.trainer_for, self.digest = folder, trainer_for, ""

    def files(self, name: str) -> tuple[Path, Path]:
        return self.folder / f"{name}.npz", self.folder / f"{name}.outputs.npy"

    def save(self, name: str, implementation: str, *, seed: int = 1, **settings: Any) -> None:
        events = self._ask("save", implementation, settings, seed, into=str(self.folder / name))
        result(events)
        self.digest = single_event(events, Dataset).digest

    def load(self, *names: str, by: str, **settings: Any) -> list[Event]:
        saved = [str(self.folder / name) for name in names]
        return self._ask("compare_outputs", by, settings, 2, digest=self.digest, saved=saved)

    def compare(self, *names: str, by: str, **settings: Any) -> tuple[OutputComparison, ...]:
        events = self.load(*names, by=by, **settings)
        result(events)
        proof = single_event(events, KernelProof)
        assert proof.ran == proof.asked
        return OUTPUT_COMPARISONS.validate_json(single_event(events, Artifact).text)

    def _ask(
        self, function: str, implementation: str, settings: Any, seed: int, **files: Any
    ) -> list[Event]:
        request = {"workload": "image_rows", "settings": {**SETTINGS, **settings}, **files}
        workload, trainer = (
            f"workloads.diagnostics.parity:{function}",
            self.trainer_for(implementation),
        )
        return trainer.ask(workload, implementation, settings=request, seed=seed)


@pytest.fixture
def room(tmp_path: Path, trainer_for: Callable[[str], Trainer]) -> Room:
    return Room(tmp_path, trainer_for)


@full
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
def test_weights_move_between_the_fused_and_the_portable_layers(room: Room, cell: str) -> None:
    room.save("portable", "torch/portable", cell=cell, seed=1)
    room.save("fused", "torch/fused", cell=cell, seed=2)
    arrays = [load_checkpoint(room.files(name)[0]).arrays for name in ("portable", "fused")]
    assert all(not np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0])
    for by in ("torch/portable", "torch/fused"):
        comparisons = room.compare("portable", "fused", "portable", by=by, cell=cell)
        expect_equal(*comparisons)
        assert comparisons[2] == comparisons[0]  # the weights in between have no effect
    fewer = room.compare("portable", by="torch/fused", cell=cell, validation_samples=24)
    expect_equal(*fewer)


@pytest.mark.parametrize(
    ("saver", "loader"),
    [
        ("tensorflow/portable", "torch/fused"),
        ("torch/fused", "jax/portable"),
    ],
)
def test_weights_move_between_backends(room: Room, saver: str, loader: str) -> None:
    room.trainer_for(loader)  # skips the test before anything is saved
    room.save("there", saver, cell="gru")
    saved = load_checkpoint(room.files("there")[0])
    assert {name for name in saved.arrays if name.startswith("recurrent")} == {
        f"recurrent_{number}/{direction}/{role}"
        for number in (0, 1)
        for direction in ("forward", "backward")
        for role in ("kernel", "recurrent_kernel", "bias")
    }
    expect_equal(*room.compare("there", by=loader, cell="gru"))


def expect_equal(*comparisons: OutputComparison) -> None:
    for comparison in comparisons:
        assert comparison.exact
        assert comparison.difference is not None
        assert comparison.difference < FLOAT32


@full
def test_what_cannot_be_compared_is_refused(room: Room) -> None:
    room.save("small", "torch/fused", cell="rnn_tanh")

    def refusal(**settings: Any) -> str:
        failed = failure(room.load("small", by="torch/fused", **{"cell": "rnn_tanh", **settings}))
        assert failed.kind == "data"
        return failed.message

    for settings, words in (
        ({"units": 6}, "expected weights of the shapes {'dense/kernel': (12, 32)"),
        ({"layers": 1}, "expected weights of the shapes {'recurrent_1/forward/kernel': None"),
        ({"cell": "rnn_relu"}, "expected weights of rnn_relu; received rnn_tanh"),
    ):
        message = refusal(**settings)
        assert str(room.files("small")[0]) in message and words in message
    words = "expected outputs of shape (41, 10), as on this machine; received (40, 10)"
    assert words in refusal(validation_samples=41)
    room.files("small")[1].write_text("no array")
    assert "expected saved outputs" in refusal()
    room.digest = "0" * 64
    assert "the data whose outputs were saved" in refusal()


def test_the_difference_is_relative_to_the_largest_output() -> None:
    expected = np.array([[0.001, -4.0], [2.0, 0.0]], np.float32)
    other = np.array([[0.001, -4.0], [1.5, 0.0]], np.float32)
    assert largest_difference(other, expected) == 0.125
    assert largest_difference(expected, expected) == 0
    assert largest_difference(np.full_like(expected, np.inf), expected) is None


@full
def test_the_command_compares_through_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    expect_package("torch")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / "weights"
    settings = ("cell=gru", "units=4", "samples=64", "validation_samples=32")
    small = [f"--set={setting}" for setting in settings]
    code, out, _ = type_command(
        capfd, "parity", "torch/fused", "torch/cudnn", *small, f"--save={folder}"
    )
    assert code == 0
    assert "cannot run here: torch/cudnn: cuDNN kernels need an NVIDIA GPU" in out
    assert list(tmp_path.iterdir()) == [folder]
    load = ("parity", "torch/portable", f"--load={folder}", "--format", "json")
    code, out, _ = type_command(capfd, *load)
    (pair,) = json.loads(out)["pairs"]
    assert (pair["saved_by"]["implementation"], pair["exact"]) == ("torch/fused", True)
    assert (code, pair["within"], pair["difference"] < 1e-5) == (0, True, True)
