"""`rnnsweep parity` as a user runs it: on one machine, through a folder, stopped, refused."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.integration.sweeping import Home, wait_for
from tests.workloads.models.test_checkpoint import Arrays, rewrite
from tests.workloads.shared_trainer import expect_package

pytestmark = pytest.mark.full

SMALL = ("--set", "cell=gru", "--set", "units=4", "--set", "samples=64", "--samples", "32")


def test_weights_move_between_implementations_of_this_machine(bare: Home, tmp_path: Path) -> None:
    expect_package("torch")
    names = ("torch/fused", "torch/portable", "torch/cudnn")
    done = bare.run("parity", *names, *SMALL, TMPDIR=str(tmp_path)).expect(0)
    assert "all 4 pairs ✓" in done.out
    assert "cannot run here: torch/cudnn: cuDNN kernels need an NVIDIA GPU" in done.out
    assert "1/2  torch/fused on cpu  gru  saved" in done.err
    assert "2/2  torch/portable on cpu  gru  loaded" in done.err
    assert list(tmp_path.glob("rnnsweep-*")) == []
    bare.expect_nothing_running()
    assert not bare.path.exists()


def test_weights_move_between_backends_through_a_folder(bare: Home, tmp_path: Path) -> None:
    expect_package("torch")
    folder = tmp_path / "weights"
    done = bare.run("parity", "torch/fused", *SMALL, "--save", folder).expect(0)
    assert f"rnnsweep parity --load {folder}" in done.err
    load = ("parity", "tensorflow/portable", "--load", folder, "--format", "json")
    body = json.loads(bare.run(*load).expect(0).out)
    (pair,) = body["pairs"]
    assert (pair["saved_by"]["implementation"], pair["exact"]) == ("torch/fused", True)
    assert 0 < pair["difference"] < 1e-5
    assert body["settings"]["units"] == 4

    assert bare.run(*load, "--tolerance", "1e-12").expect(1)
    (weights,) = folder.glob("*.npz")
    rewrite(weights, exchange_directions)
    body = json.loads(bare.run(*load).expect(1).out)
    assert (body["passed"], body["pairs"][0]["within"]) == (False, False)
    assert body["pairs"][0]["difference"] > 1e-3
    bare.expect_nothing_running()


def exchange_directions(arrays: Arrays) -> None:
    one, other = "recurrent_0/forward/kernel", "recurrent_0/backward/kernel"
    arrays[one], arrays[other] = arrays[other], np.array(arrays[one])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_its_trainers(
    bare: Home, tmp_path: Path, number: signal.Signals
) -> None:
    names = ("tensorflow/portable", "tensorflow/portable+xla")
    with bare.running("parity", *names, TMPDIR=str(tmp_path)) as command:
        wait_for(lambda: len(bare.processes()) > 1 or not command.running, 60)
        command.send(number)
        done = command.wait(30).expect(3)
    assert (done.out, done.err) == ("", "Stopped.\n")
    bare.expect_nothing_running()
    assert list(tmp_path.glob("rnnsweep-*")) == []


def test_wrong_arguments_are_refused(bare: Home, tmp_path: Path) -> None:
    bare.run("parity", "torch/fuse").refused("did you mean 'fused'?")
    bare.run("parity", "--set", "unit=3").refused("did you mean 'units'?")
    bare.run("parity", "tensorflow/cudnn").refused(
        "expected at least 2", "tensorflow/cudnn: cuDNN kernels need an NVIDIA GPU"
    )
    bare.run("parity", "--load", tmp_path).refused(str(tmp_path), "--save")
    bare.run("parity", "--load", tmp_path, "--save", tmp_path).refused("received both")
    bare.run("parity", "--tolerance", "0").refused("--tolerance")
