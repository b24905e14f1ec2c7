"""The fingerprint of a trial of a PyTorch module: equal for all implementations of it."""

import pytest

from orchestrator.analysis.arms.mathematics import fingerprint_difference
from tests.workloads.modules.test_module_trials import ask
from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.protocol import Fingerprint


def fingerprint_of(trainer: Trainer, build: str, implementation: str) -> Fingerprint:
    events = ask(trainer, f"own_modules:{build}", implementation, seed=3, fingerprint=True)
    assert result(events)["check_s"] > 0
    return single_event(events, Fingerprint)


@pytest.mark.parametrize("build", ["build", "build_cells", "build_float64"])
def test_two_trials_of_a_module_compute_the_same(torch_trainer: Trainer, build: str) -> None:
    first, second = (fingerprint_of(torch_trainer, build, "torch/auto") for _ in range(2))
    assert first == second
    assert first.output_rms > 0
    assert all(norm > 0 for norm in first.gradient_norms)


def test_a_lower_precision_rounds(torch_trainer: Trainer) -> None:
    expected = fingerprint_of(torch_trainer, "build_cells", "torch/auto")
    rounded = fingerprint_of(torch_trainer, "build_cells", "torch/auto+bf16")
    assert 1e-5 < fingerprint_difference(rounded, expected).outputs_share < 1e-1


@pytest.mark.parametrize("build", ["build", "build_cells"])
def test_the_check_leaves_what_training_computes(torch_trainer: Trainer, build: str) -> None:
    losses = [
        result(ask(torch_trainer, f"own_modules:{build}", seed=3, fingerprint=asked))["loss"]
        for asked in (False, True)
    ]
    assert losses[0] == losses[1]


def test_predictions_have_one_of_their_mean_output(torch_trainer: Trainer) -> None:
    events = ask(
        torch_trainer, "bare_modules:build", slices=2, timed_work="predict", fingerprint=True
    )
    assert single_event(events, Fingerprint).gradient_norms
