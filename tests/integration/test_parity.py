"""`rnnsweep parity` with real trainers: on one machine, and through a folder."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.integration.sweeping import Home
from tests.workloads.models.test_checkpoint import Arrays, rewrite
from tests.workloads.shared_trainer import expect_package

pytestmark = pytest.mark.full

SMALL = ("--set", "cell=gru", "--set", "units=4", "--set", "samples=64", "--samples", "32")


def test_weights_move_between_implementations(bare: Home, tmp_path: Path) -> None:
    expect_package("torch")
    folder, names = tmp_path / "weights", ("torch/fused", "torch/cudnn")
    done = bare.run("parity", *names, *SMALL, "--save", folder, TMPDIR=str(tmp_path)).expect(0)
    assert "cannot run here: torch/cudnn: cuDNN kernels need an NVIDIA GPU" in done.out
    assert list(tmp_path.glob("rnnsweep-*")) == []
    load = ("parity", "torch/portable", "--load", folder, "--format", "json")
    (pair,) = json.loads(bare.run(*load).expect(0).out)["pairs"]
    assert (pair["saved_by"]["implementation"], pair["exact"]) == ("torch/fused", True)
    assert pair["difference"] < 1e-5

    (weights,) = folder.glob("*.npz")
    rewrite(weights, exchange_directions)
    (pair,) = json.loads(bare.run(*load).expect(1).out)["pairs"]
    assert pair["difference"] > 1e-3 and not pair["within"]
    bare.expect_nothing_running()
    assert not bare.path.exists()


def exchange_directions(arrays: Arrays) -> None:
    one, other = "recurrent_0/forward/kernel", "recurrent_0/backward/kernel"
    arrays[one], arrays[other] = arrays[other], np.array(arrays[one])
