from __future__ import annotations

import pytest

from tests.workloads.shared_trainer import Trainer, only, result
from workloads.protocol import Environment

MEASURE = "workloads.tasks.peak_rates:measure"


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_trial_is_set_against_the_devices_measured_peak(
    trainer_of: Trainer, backend: str
) -> None:
    settings = {"features": 8, "sequence_length": 4, "units": 8, "batch_size": 4, "timed_steps": 2}
    metrics = result(trainer_of.ask("synthetic", f"{backend}/portable", settings=settings))
    assert metrics["peak_flops_per_s"] > metrics["model_flops_per_s"] > 0
    share = metrics["model_flops_per_s"] / metrics["peak_flops_per_s"]
    assert metrics["model_flops_utilization_pct"] == pytest.approx(100 * share)
    again = result(trainer_of.ask("synthetic", f"{backend}/portable", settings=settings))
    assert again["peak_flops_per_s"] == metrics["peak_flops_per_s"]  # measured once a process
    measured = result(trainer_of.ask(MEASURE, f"{backend}/portable"))
    assert measured["product_flops_per_s"] == metrics["peak_flops_per_s"]  # by the same method


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_trainer_tells_the_rates_of_its_device_and_what_it_is(
    trainer_of: Trainer, backend: str, precision: str
) -> None:
    option = "" if precision == "float32" else f"+{precision}"
    events = trainer_of.ask(MEASURE, f"{backend}/portable{option}")
    metrics = result(events)
    for name in ("product_flops_per_s", "copy_bytes_per_s"):
        assert 1e6 < metrics[f"{name}_low"] <= metrics[name] <= metrics[f"{name}_high"]
    facts = only(events, Environment).facts
    assert facts["devices"] == "CPU"
    assert facts[backend]


def test_tf32_is_one_of_products(trainer: Trainer) -> None:
    metrics = result(trainer.ask(MEASURE, "tensorflow/portable+tf32"))
    assert metrics["product_flops_per_s"] > 0
    assert "copy_bytes_per_s" not in metrics


def test_the_median_round_of_the_best_product_and_of_the_largest_copy_count(
    trainer: Trainer,
) -> None:
    told = result(
        trainer.ask("tests.workloads.measuring.roofline_probes:method", "tensorflow/portable")
    )
    # The compiling round is left out; of the others, two are slower and one is faster than three.
    assert (told["rounds"], told["largest_side"]) == (7, 1024)
    assert told["product"] == pytest.approx(8e10)
    assert (told["product_low"], told["product_high"]) == pytest.approx((4e10, 16e10))
    # What fits into the cache is not what is told of.
    assert told["copy"] == pytest.approx(12e9)
    assert told["largest_copy_mib"] == 256
    assert told["little"] == pytest.approx(64e9)


def test_a_cpu_copies_with_all_its_threads_at_once(trainer: Trainer) -> None:
    told = result(
        trainer.ask("tests.workloads.measuring.roofline_probes:host_copy", "tensorflow/portable")
    )
    assert (told["bytes"], told["threads"]) == (2**20, 2)
