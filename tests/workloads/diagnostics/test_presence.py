"""What a framework without a GPU says, and what the check of masks finds."""

from collections.abc import Callable

import pytest

from tests.workloads.shared_trainer import Trainer, expect_package, failure, result, single_event
from workloads.backends.registry import backends
from workloads.backends.stderr_capture import captured_stderr
from workloads.protocol import KernelProof

PRESENCE = "workloads.diagnostics.devices:report_devices"
OWN_WORDS = {
    "tensorflow": "cu",  # "… failed call to cuInit …", or "Cannot dlopen some GPU libraries …"
    "jax": "gpu",  # "Unknown backend: 'gpu' requested, but no platforms …"
    "torch": "NVIDIA|CUDA",  # "Torch not compiled with CUDA enabled", "Found no NVIDIA driver …"
}
PROBES = "tests.workloads.diagnostics.presence_probes"


@pytest.mark.full
@pytest.mark.parametrize("backend", OWN_WORDS)
def test_a_blind_framework_gives_its_own_reason_and_the_cure(backend: str) -> None:
    expect_package(backend)
    with Trainer(environment={"CUDA_VISIBLE_DEVICES": "-1"}) as trainer:
        refused = failure(trainer.ask(PRESENCE, f"{backend}/portable", device="gpu"))
    assert refused.kind == "not_possible"
    own, _, advice = refused.message.partition("). Check")
    reason = own.partition("sees no GPU (")[2]
    assert any(word in reason for word in OWN_WORDS[backend].split("|")), refused.message
    assert "pip install" in advice
    assert backends()[backend].gpu_advice in advice


def test_what_a_library_writes_past_python_is_captured_and_still_shown(
    capfd: pytest.CaptureFixture[str],
) -> None:
    import os  # noqa: PLC0415

    with captured_stderr() as captured:
        os.write(2, b"W0000 gpu_device.cc:2342] Cannot dlopen some GPU libraries.\n")
    assert captured == ["W0000 gpu_device.cc:2342] Cannot dlopen some GPU libraries.\n"]
    assert capfd.readouterr().err == captured[0]


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_masks_that_are_wrong_without_a_wait_are_found(
    trainer_for: Callable[[str], Trainer], backend: str
) -> None:
    trainer, settings = trainer_for(backend), {"batches": 12}
    asked = f"{backend}/portable"
    right = trainer.ask(f"{PROBES}:right_masks", asked, settings=settings, seed=3)
    assert result(right)["largest_difference"] == 0
    assert single_event(right, KernelProof).ran == "portable"
    wrong = failure(trainer.ask(f"{PROBES}:late_lengths", asked, settings=settings, seed=3))
    assert wrong.kind == "not_possible"
    assert "masked layers give wrong results here" in wrong.message


def test_an_error_of_cudnn_that_keras_keeps_to_itself_shows_in_the_proof(
    torch_trainer: Trainer,
) -> None:
    events = torch_trainer.ask(f"{PROBES}:swallowed_error", "torch/cudnn", seed=3)
    assert result(events)["errors"] == 1
    proof = single_event(events, KernelProof)
    assert proof.ran == "mixed"
    assert "CUDNN_STATUS_NOT_SUPPORTED" in proof.evidence
    clean = torch_trainer.ask(f"{PROBES}:swallowed_error", "torch/cudnn", settings={"fails": False})
    assert single_event(clean, KernelProof).ran == "cudnn", "errors of an earlier trial are gone"
