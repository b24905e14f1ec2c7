"""Real trainers that measure their device's rates, without a framework."""

from __future__ import annotations

import pytest

from orchestrator.diagnostics.peaks import worker
from orchestrator.diagnostics.peaks.worker import PeakRequest, Reading, measure_rates
from orchestrator.hardware.peak import Rate

PRETENDED = "tests.orchestrator.diagnostics.peaks.stand_in_workloads"


def rate(value: float) -> Rate:
    return Rate(value, value, value)


def test_a_trainer_answers_for_each_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "WORKLOAD", f"{PRETENDED}:rates")
    begun: list[str] = []
    request = PeakRequest("gpu", ("torch", "jax"), ("float32", "tf32", "bf16"), gpu="GPU-aaaa")
    answers = measure_rates(request, begun.append)
    assert list(answers) == begun == ["torch", "jax"]
    for answer in answers.values():
        assert answer.reason is None
        assert answer.readings == [
            Reading("float32", rate(1.0), rate(10.0)),
            Reading("tf32", rate(2.0), None),
            Reading("bf16", rate(4.0), rate(40.0)),
        ]
        assert answer.facts == {"devices": "GPU-aaaa"}  # absent facts are left out


def test_a_cpu_is_measured_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "WORKLOAD", f"{PRETENDED}:rates")
    (answer,) = measure_rates(PeakRequest("cpu", ("torch",), ("float32",))).values()
    assert answer.facts == {"devices": "-1"}


def test_a_precision_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "WORKLOAD", f"{PRETENDED}:rates")
    (answer,) = measure_rates(PeakRequest("cpu", ("torch",), ("fp16", "bf16"))).values()
    assert [reading.precision for reading in answer.readings] == ["bf16"]
    assert answer.reason == "fp16: ValueError: no such precision here"


def test_a_trainer_that_ends_is_reported_with_its_last_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "WORKLOAD", f"{PRETENDED}:ended")
    (answer,) = measure_rates(PeakRequest("cpu", ("torch",), ("float32", "bf16"))).values()
    assert [reading.precision for reading in answer.readings] == ["float32"]
    assert answer.reason == (
        "bf16: the trainer process was ended by SIGKILL; its last output: out of memory, for one"
    )


def test_a_trainer_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "WORKLOAD", "tests.workloads.examples.hostile:sleeps")
    monkeypatch.setattr(worker, "_PATIENCE_S", 0.0)
    (answer,) = measure_rates(PeakRequest("cpu", ("torch",), ("float32",))).values()
    assert answer.readings == []
    assert answer.reason is not None
    assert answer.reason.startswith("float32: no answer in ")
