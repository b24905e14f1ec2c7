"""The canary and the roofline: before and after the timed epochs, by the documented method."""

from __future__ import annotations

import pytest

from tests.workloads.measuring.test_full_training import SMALL
from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.implementations import BACKENDS
from workloads.protocol import Environment, PhaseBegan

full = pytest.mark.full
PROBES = "tests.workloads.probes"
MEASURE = "workloads.tasks.peak_rates:measure"
PASSES = {"features": 8, "sequence_length": 4, "units": 8, "batch_size": 4, "timed_steps": 2}


def test_the_canary_runs_before_the_first_and_after_the_last_timed_epoch(
    trainer: Trainer,
) -> None:
    settings = {**SMALL, "timed_steps": 0}
    events = trainer.ask(f"{PROBES}:phases", "tensorflow/portable", settings=settings, seed=3)
    began = [event.phase for event in events if isinstance(event, PhaseBegan)]
    timed = ["canary", *["train", "validate"] * 2, "canary"]
    assert [phase for phase in began if phase != "import"] == [
        *("load", "compile"), *timed, *("evaluate", "predict", "latency")
    ]  # fmt: skip
    assert result(events)["canary_ms"] == 3.0, "the slower of both is reported"


@full
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gpu_canary_waits_for_the_device_in_every_round(
    trainer_of: Trainer, backend: str
) -> None:
    metrics = result(trainer_of.ask(f"{PROBES}:on_a_device", f"{backend}/portable"))
    assert metrics["waits"] == 1 + 5, "once to compile, and once per round"
    assert metrics["canary_ms"] > 0


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


def test_the_median_round_of_the_best_product_and_of_the_largest_copy_count(
    trainer: Trainer,
) -> None:
    metrics = result(trainer.ask(f"{PROBES}:method", "tensorflow/portable"))
    # The compiling round is left out; of the others, two are slower and one is faster than three.
    assert (metrics["rounds"], metrics["largest_side"]) == (7, 1024)
    assert metrics["product"] == pytest.approx(8e10)
    assert (metrics["product_low"], metrics["product_high"]) == pytest.approx((4e10, 16e10))
    # The rate of a copy that fits into the cache does not count.
    assert metrics["copy"] == pytest.approx(12e9)
    assert metrics["largest_copy_mib"] == 256
    assert metrics["little"] == pytest.approx(64e9)
