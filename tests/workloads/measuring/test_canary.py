"""The canary: before and after the timed epochs, never in them, and also on a GPU."""

from __future__ import annotations

import pytest

from tests.workloads.measuring.test_full_training import SMALL
from tests.workloads.shared_trainer import Trainer, result
from workloads.implementations import BACKENDS
from workloads.protocol import PhaseBegan

PROBES = "tests.workloads.measuring.canary_probes"


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_runs_before_the_first_and_after_the_last_timed_epoch(
    backend: str, request: pytest.FixtureRequest
) -> None:
    process = trainer_of(backend, request)
    settings = {**SMALL, "timed_steps": 0}
    events = process.ask(f"{PROBES}:phases", f"{backend}/portable", settings=settings, seed=3)
    began = [event.phase for event in events if isinstance(event, PhaseBegan)]
    timed = ["canary", *["train", "validate"] * 2, "canary"]
    assert [phase for phase in began if phase != "import"] == [
        *("load", "compile"), *timed, *("evaluate", "predict", "latency")
    ]  # fmt: skip
    assert result(events)["canary_ms"] == 3.0, "the slower of both is reported"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gpu_canary_waits_for_the_device_in_every_round(
    backend: str, request: pytest.FixtureRequest
) -> None:
    process = trainer_of(backend, request)
    metrics = result(process.ask(f"{PROBES}:on_a_device", f"{backend}/portable"))
    assert metrics["waits"] == 1 + 5, "once to compile, and once per round"
    assert metrics["canary_ms"] > 0


def trainer_of(backend: str, request: pytest.FixtureRequest) -> Trainer:
    name = "trainer" if backend == "tensorflow" else f"{backend}_trainer"
    return request.getfixturevalue(name)
