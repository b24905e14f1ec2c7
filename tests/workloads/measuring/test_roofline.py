from __future__ import annotations

import pytest

from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.protocol import Environment

MEASURE = "workloads.tasks.peak_rates:measure"


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_trial_reports_its_share_of_the_devices_measured_peak(
    trainer_of: Trainer, backend: str
) -> None:
    settings = {"features": 8, "sequence_length": 4, "units": 8, "batch_size": 4, "timed_steps": 2}
    metrics = result(trainer_of.ask("synthetic", f"{backend}/portable", settings=settings))
    assert metrics["peak_flops_per_s"] > metrics["model_flops_per_s"] > 0
    share = metrics["model_flops_per_s"] / metrics["peak_flops_per_s"]
    assert metrics["model_flops_utilization_pct"] == pytest.approx(100 * share)
    repeated = result(trainer_of.ask("synthetic", f"{backend}/portable", settings=settings))
    assert repeated["peak_flops_per_s"] == metrics["peak_flops_per_s"]  # measured once a process
    measured = result(trainer_of.ask(MEASURE, f"{backend}/portable"))
    assert measured["product_flops_per_s"] == metrics["peak_flops_per_s"]  # by the same method


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_trainer_reports_its_device_and_its_rates(
    trainer_of: Trainer, backend: str, precision: str
) -> None:
    option = "" if precision == "float32" else f"+{precision}"
    events = trainer_of.ask(MEASURE, f"{backend}/portable{option}")
    metrics = result(events)
    for name in ("product_flops_per_s", "copy_bytes_per_s"):
        assert 1e6 < metrics[f"{name}_low"] <= metrics[name] <= metrics[f"{name}_high"]
    facts = single_event(events, Environment).facts
    assert facts["devices"] == "CPU"
    assert facts[backend]


def test_tf32_has_a_product_rate_only(trainer: Trainer) -> None:
    metrics = result(trainer.ask(MEASURE, "tensorflow/portable+tf32"))
    assert metrics["product_flops_per_s"] > 0
    assert "copy_bytes_per_s" not in metrics


def test_the_median_round_of_the_best_product_and_of_the_largest_copy_count(
    trainer: Trainer,
) -> None:
    metrics = result(
        trainer.ask("tests.workloads.measuring.roofline_probes:method", "tensorflow/portable")
    )
    # The compiling round is left out; of the others, two are slower and one is faster than three.
    assert (metrics["rounds"], metrics["largest_side"]) == (7, 1024)
    assert metrics["product"] == pytest.approx(8e10)
    assert (metrics["product_low"], metrics["product_high"]) == pytest.approx((4e10, 16e10))
    # The rate of a copy that fits into the cache does not count.
    assert metrics["copy"] == pytest.approx(12e9)
    assert metrics["largest_copy_mib"] == 256
    assert metrics["little"] == pytest.approx(64e9)


def test_a_cpu_copies_with_all_its_threads_at_once(trainer: Trainer) -> None:
    metrics = result(
        trainer.ask("tests.workloads.measuring.roofline_probes:host_copy", "tensorflow/portable")
    )
    assert (metrics["bytes"], metrics["threads"]) == (2**20, 2)
