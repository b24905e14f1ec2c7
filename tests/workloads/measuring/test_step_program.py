"""An arm trains by the same program as a bare Keras script: measuring adds nothing."""

from __future__ import annotations

import pytest

from tests.workloads.shared_trainer import Trainer, result

SETTINGS = {
    "batches": "windows",
    "sequence_length": 6,
    "embedding_units": 4,
    "units": 4,
    "layers": 1,
    "dropout": 0.0,
    "batch_size": 8,
    "samples": 8,
}
PROBE = "tests.workloads.measuring.step_probes:compared_with_bare_keras"


@pytest.mark.parametrize("kernel", ["portable", "portable+unroll"])
def test_a_step_has_the_operations_of_bare_keras(trainer: Trainer, kernel: str) -> None:
    counts = result(trainer.ask(PROBE, f"tensorflow/{kernel}", settings=SETTINGS))
    assert counts["common"] > 100
    assert (counts["more"], counts["fewer"]) == (0, 0)
