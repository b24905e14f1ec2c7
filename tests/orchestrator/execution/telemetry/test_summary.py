"""A trial's telemetry in numbers, qualifiers and curves, from samples with known results."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.core.trial import Telemetry
from orchestrator.execution.telemetry.readings import GpuReading, Sample
from orchestrator.execution.telemetry.summary import POINTS, curves, record, summarise
from tests.orchestrator.execution.telemetry.sample_recordings import (
    GPU,
    gpu_samples,
    node,
    node_samples,
    recording,
    watts,
)


def test_a_summary_is_of_the_timed_epochs() -> None:
    hot = {
        "temperature_c": 99.0,
        "utilization_pct": 5.0,
        "sm_clock_mhz": 300.0,
        "clock_reasons": frozenset({"hw_slowdown"}),
        "memory_used_mib": 3000.0,
    }
    samples = gpu_samples(lambda at_s: {} if watts(at_s) == 100.0 else hot)
    metrics, telemetry = summarise(recording(samples, cost_pct=0.4))
    expected = {
        "mean_gpu_utilization_pct": 90.0,
        "max_temperature_c": 60.0,
        "sm_clock_mhz": 1500.0,
        "throttled_pct": 0.0,
        "peak_gpu_used_mib": 3000.0,  # at any time
        "telemetry_cpu_pct": 0.4,
        "trainer_cpu_pct": 50.0,
        "others_cpu_pct": 12.5,
        "steal_pct": 5.0,
        "mean_power_w": metrics["energy_j"] / 12,
        "energy_j": metrics["energy_gpu_j"],
        "energy_gpu_j": metrics["energy_j"],
    }
    assert metrics == pytest.approx(expected)
    assert telemetry == Telemetry(
        energy_method="nvml_counter",
        energy_scope="gpu",
        throttle_reasons={},
        other_trainers=0,
        other_gpu_processes=0,
    )


def test_of_trials_that_took_turns_the_cpus_has_no_gpu() -> None:
    both = recording(gpu_samples())
    on_cpu, on_gpu = (summarise(both.of(device, both.windows)) for device in ("cpu", "gpu"))
    assert on_gpu == summarise(both)
    of_gpus = {"mean_gpu_utilization_pct", "sm_clock_mhz", "throttled_pct", "peak_gpu_used_mib"}
    assert of_gpus < set(on_gpu[0])
    assert not of_gpus & set(on_cpu[0])
    assert on_cpu[1].throttle_reasons is None
    assert on_cpu[0]["others_cpu_pct"] == on_gpu[0]["others_cpu_pct"]


def test_what_slowed_a_gpu_down_is_noted_with_its_share() -> None:
    reasons = {True: frozenset({"gpu_idle", "sw_power_cap"}), False: frozenset({"gpu_idle"})}
    samples = gpu_samples(lambda at_s: {"clock_reasons": reasons[at_s < 21]})
    metrics, telemetry = summarise(recording(samples))
    assert metrics["throttled_pct"] == pytest.approx(100 * 8 / 12)
    assert telemetry.throttle_reasons == pytest.approx({"sw_power_cap": 100 * 2 / 3})


def test_a_gpu_s_clock_is_set_against_the_highest_seen_unless_its_own_load_is_why() -> None:
    samples = gpu_samples(
        lambda at_s: {
            "clock_reasons": frozenset({"sw_power_cap" if at_s < 15 else "hw_slowdown"}),
            "sm_clock_mhz": 1000.0 if at_s < 21 else 2000.0,
            "highest_sm_clock_mhz": 2000.0,
        }
    )
    metrics, _ = summarise(recording(samples))
    assert metrics["clock_drop_pct"] == pytest.approx(50 * 4 / 12)


def test_cpus_are_slow_and_hot_in_a_cpu_s_trial_only() -> None:
    samples = [
        Sample(at_s, node=node(at_s, clock_share=share, throttled_s=at_s / 10))
        for at_s, share in ((float(at_s), 0.8 if at_s < 15 else 1.2) for at_s in range(31))
    ]
    metrics, _ = summarise(recording(samples, device="cpu"))
    assert metrics["clock_drop_pct"] == pytest.approx(20 * 4 / 12)
    assert metrics["throttled_pct"] == pytest.approx(10.0)
    assert not {"clock_drop_pct", "throttled_pct"} & set(summarise(recording(samples))[0])


@pytest.mark.parametrize(("trainers", "processes"), [(None, None), (None, 0), (2, 1)])
def test_neighbours_are_counted(trainers: int | None, processes: int | None) -> None:
    samples = [
        Sample(at_s, (replace(GPU, other_processes=others),), node(at_s, other_trainers=at_work))
        for at_s, others, at_work in ((0.0, None, None), (1.0, processes, trainers))
    ]
    _, telemetry = summarise(recording(samples))
    assert (telemetry.other_trainers, telemetry.other_gpu_processes) == (trainers, processes)


def test_what_was_not_measured_is_absent_and_never_0() -> None:
    blind = [Sample(sample.at_s, (GpuReading(),)) for sample in gpu_samples()]
    metrics, telemetry = summarise(recording(blind))
    assert metrics == {}
    reason = "GPU 0: the samples do not cover all of the timed epochs"
    assert telemetry == Telemetry(energy_absent=reason)
    assert curves(blind) == ([], {})
    assert set(summarise(recording(node_samples(trainer_s=None)))[0]) == {"steal_pct"}


def test_curves_have_mlflows_names_and_truth_between_the_points() -> None:
    samples = [replace(sample, package_j=40.0 * sample.at_s) for sample in gpu_samples()]
    at_s, values_by_name = curves(samples)
    assert at_s == pytest.approx(list(range(1, 31)))
    assert {name: values[0] for name, values in values_by_name.items()} == pytest.approx(
        {
            "system/cpu_utilization_percentage": 62.5,
            "system/cpu_trainer_percentage": 50.0,
            "system/cpu_others_percentage": 12.5,
            "system/cpu_steal_percentage": 5.0,
            "system/cpu_package_power_watts": 40.0,
            "system/system_memory_usage_megabytes": 8388.608,
            "system/system_memory_usage_percentage": 50.0,
            "system/trainer_memory_usage_megabytes": 1572.864,
            "system/cpu_temperature_celsius": 50.0,
            "system/gpu_0_utilization_percentage": 90.0,
            "system/gpu_0_memory_usage_megabytes": 1048.576,
            "system/gpu_0_memory_usage_percentage": 25.0,
            "system/gpu_0_power_usage_watts": 300.0,
            "system/gpu_0_temperature_celsius": 60.0,
            "system/gpu_0_sm_clock_megahertz": 1500.0,
            "system/gpu_0_memory_clock_megahertz": 5000.0,
            "system/gpu_0_throttled_percentage": 0.0,
            "system/gpu_0_pcie_receive_megabytes_per_second": 2.097152,
            "system/gpu_0_pcie_transmit_megabytes_per_second": 1.048576,
        }
    )


def test_a_long_curve_has_few_points_and_keeps_its_mean() -> None:
    samples = [
        replace(sample, gpus=(GpuReading(power_w=sample.at_s % 2),))
        for sample in node_samples(10 * POINTS)
    ]
    at_s, values_by_name = curves(samples)
    assert at_s == list(range(10, 10 * POINTS + 1, 10))
    assert values_by_name["system/gpu_0_power_usage_watts"] == [0.5] * POINTS


def test_a_trials_outcome_keeps_metrics_notes_and_short_curves() -> None:
    began_s = time.time() - time.monotonic() - 5.0  # on the samples' clock: 5 s before their 0
    reported = {"samples_per_s": 50.0, "train_s": 12.0, "steal_pct": 1.5}
    metrics, seen = record(recording(gpu_samples()), began_s, reported)
    assert metrics["energy_per_sample_j"] == pytest.approx(metrics["energy_j"] / 600)
    assert "steal_pct" not in metrics  # the workload has reported it
    assert seen.at_s[:2] == pytest.approx((6.0, 7.0), abs=0.02)
    assert seen.curves["system/gpu_0_power_usage_watts"][:12:11] == (300.0, 100.0)
    own, seen = record(recording(gpu_samples()), began_s, {"energy_j": 3.0})
    assert "energy_j" not in own
    assert (seen.energy_method, seen.energy_scope) == ("workload", None)


def test_samples_that_make_no_sense_are_reported_and_nothing_is_raised() -> None:
    nonsense: Any = "now"
    samples = [replace(sample, at_s=nonsense) for sample in gpu_samples()]
    metrics, seen = record(replace(recording([]), samples=samples), 0.0, {"step_ms": 1.0})
    assert metrics == {}
    assert (seen.energy_absent or "").startswith("telemetry failed: TypeError: ")
