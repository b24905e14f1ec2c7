"""`rnnsweep parity` as a user runs it: on one machine, through a folder, stopped, refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.integration.sweeping import Home
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
