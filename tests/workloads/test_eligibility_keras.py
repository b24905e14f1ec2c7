"""The rules of eligibility compared with Keras and the libraries, in both directions.

For `cudnn` and `fused` a GPU is simulated (`tests/workloads/stand_in_gpus`): every case that the
rules allow becomes the library's call, and no other case does. PyTorch's fused layers really run.
"""

from __future__ import annotations

import pytest

from tests.workloads.eligibility_probes import REFUSED
from tests.workloads.shared_trainer import Trainer, result
from tests.workloads.stand_in_gpus import CUDNN, OTHER_KERNEL

pytestmark = pytest.mark.full
PROBES = "tests.workloads.eligibility_probes"
EACH_BACKEND = pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])


def ask(trainer: Trainer, probe: str, implementation: str, **settings: int) -> dict[str, float]:
    """Return the counts of a probe."""
    counts = result(trainer.ask(f"{PROBES}:{probe}", implementation, settings=settings))
    return {name: count for name, count in counts.items() if not name.endswith(("_s", "_mib"))}


@EACH_BACKEND
def test_our_rules_on_cudnn_are_those_of_keras(trainer_of: Trainer, backend: str) -> None:
    counts = ask(trainer_of, "cudnn_rules", f"{backend}/portable", stride=61)
    other_outcomes = {
        "tensorflow": {"a failed assertion", "without XLA, silently"},
        "jax": {"a program that JAX cannot make", OTHER_KERNEL},
        "torch": {"a failed backward pass", OTHER_KERNEL},
    }
    assert set(counts) == {CUDNN, REFUSED} | other_outcomes[backend]


@EACH_BACKEND
def test_our_rules_on_the_fused_layer_are_its_own(trainer_of: Trainer, backend: str) -> None:
    counts = ask(trainer_of, "fused_rules", f"{backend}/portable", stride=5)
    other_outcomes = {
        "tensorflow": {"a failed assertion"},
        "jax": {"a program that JAX cannot make"},
    }
    assert set(counts) == {CUDNN, REFUSED} | other_outcomes.get(backend, set())


def test_xla_compiles_portable_layers_and_never_cudnn(trainer: Trainer) -> None:
    assert ask(trainer, "xla", "tensorflow/portable") == {
        "MatMul": 1.0, "CudnnRNNV3": 0.0, "portable": 1.0, "bidirectional": 1.0
    }  # fmt: skip
