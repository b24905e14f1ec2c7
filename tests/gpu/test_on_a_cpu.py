"""The checks with real trainers on the CPU, so that errors show before a GPU is used."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu import proofs, times
from tests.gpu.lab import Lab
from tests.workloads.shared_trainer import expect_package
from workloads.implementations import BACKENDS

pytestmark = pytest.mark.full

ON_A_CPU = [
    *((backend, check) for backend in BACKENDS for check in (proofs.numbers, times.speed)),
    *(("tensorflow", check) for check in (proofs.evidence, proofs.refusals, times.memory)),
    *(("torch", check) for check in (proofs.fall_backs, proofs.fit)),
    ("jax", times.predict),
    ("torch", times.roofline),
]


@pytest.mark.parametrize(
    ("backend", "check"), ON_A_CPU, ids=lambda value: getattr(value, "__name__", value)
)
def test_checks_run_on_a_cpu(cpu_lab: Lab, backend: str, check: Any) -> None:
    expect_package(backend)
    outcomes = list(check(cpu_lab, backend))
    assert [outcome for outcome in outcomes if outcome.status not in ("passed", "skipped")] == []
    assert any(outcome.status == "passed" for outcome in outcomes)


def test_a_gpu_hidden_from_jax_is_refused_like_a_missing_one(cpu_lab: Lab) -> None:
    expect_package("jax")
    answer = cpu_lab.ask(cpu_lab.request("probes:hidden", "jax/portable"))
    assert answer.why.startswith("not_possible: device gpu: expected a GPU that JAX can use; it")
    assert "sees none (Unable to initialize backend 'cuda': No visible GPU devices.)" in answer.why
