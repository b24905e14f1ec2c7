"""Peak rates of real devices; `test_windows` has the method."""

from __future__ import annotations

import pytest

from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.implementations import BACKENDS
from workloads.protocol import Environment

full = pytest.mark.full
MEASURE = "workloads.tasks.peak_rates:measure"
PASSES = {"features": 8, "sequence_length": 4, "units": 8, "batch_size": 4, "timed_steps": 2}


@full
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trial_reports_its_share_of_the_devices_measured_peak(
    trainer_of: Trainer, backend: str
) -> None:
    metrics = result(trainer_of.ask("synthetic", f"{backend}/portable", settings=PASSES))
    share = metrics["model_flops_per_s"] / metrics["peak_flops_per_s"]
    assert metrics["model_flops_utilization_pct"] == pytest.approx(100 * share)
    assert 0 < share < 1
    events = trainer_of.ask(MEASURE, f"{backend}/portable")
    rates = result(events)
    assert rates["product_flops_per_s"] == metrics["peak_flops_per_s"]  # measured once a process
    for name in ("product_flops_per_s", "copy_bytes_per_s"):
        assert 1e6 < rates[f"{name}_low"] <= rates[name] <= rates[f"{name}_high"]
    assert single_event(events, Environment).facts["devices"] == "CPU"


@full
def test_tf32_has_a_product_rate_only(trainer: Trainer) -> None:
    metrics = result(trainer.ask(MEASURE, "tensorflow/portable+tf32"))
    assert metrics["product_flops_per_s"] > 0
    assert "copy_bytes_per_s" not in metrics
