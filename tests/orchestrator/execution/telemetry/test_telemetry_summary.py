"""Telemetry from samples of a GPU at 100 W in timed epochs, and at 300 W anywhere else."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.core.trial import Telemetry
from orchestrator.execution.telemetry.readings import (
    GpuReading,
    NodeReading,
    Recording,
    Sample,
    SampleBuffer,
    TimeWindow,
)
from orchestrator.execution.telemetry.telemetry_summary import (
    POINTS,
    curves,
    energy_of,
    record,
    summarise_telemetry,
)
from orchestrator.hardware.gpu_readers import ClockState

GPU = GpuReading(
    utilization_pct=90.0,
    memory_used_mib=1000.0,
    memory_total_mib=4000.0,
    temperature_c=60.0,
    sm_clock_mhz=1500.0,
    clock_state=ClockState(),
    other_processes=0,
)
WINDOWS = (TimeWindow(10.0, 14.0), TimeWindow(16.0, 20.0), TimeWindow(22.0, 26.0))
"""Timed epochs of 4 s, with validation of 2 s between them."""

TRUTH_J = 3 * 4 * 100.0
EXPECTED = yaml.safe_load(Path(__file__).with_name("gpu_samples.yaml").read_text())
NOT_COVERED = "the samples do not cover all of the timed epochs"


def watts(at_s: float) -> float:
    return 100.0 if any(window.began_s <= at_s < window.ended_s for window in WINDOWS) else 300.0


_COUNTED_J = tuple(accumulate((watts(step / 10 + 0.05) / 10 for step in range(5_000)), initial=0.0))


def joules(at_s: float) -> float:
    """Return the reading of a counter that moves every 0.1 s."""
    return _COUNTED_J[int(at_s * 10 + 1e-6)]


def gpu_samples(
    changes: Callable[[float], Mapping[str, Any]] = lambda at_s: {},
    *,
    has_counter: bool = True,
    until_s: float = 30.0,
) -> list[Sample]:
    samples, each_s = [], 5 if has_counter else 10
    for index in range(round(until_s * each_s) + 1):
        at_s = index / each_s
        reading = GpuReading(power_w=None if has_counter else watts(at_s))
        is_whole = index % each_s == 0
        if is_whole:
            reading = replace(GPU, power_w=watts(at_s), **changes(at_s))
        reading = replace(reading, energy_j=1e6 + joules(at_s) if has_counter else None)
        samples.append(Sample(at_s, (reading,), node(at_s) if is_whole else None))
    return samples


def node_samples(until_s: int = 30, **changes: Any) -> list[Sample]:
    return [Sample(float(at_s), node=node(at_s, **changes)) for at_s in range(until_s + 1)]


def node(at_s: float, **changes: Any) -> NodeReading:
    """Four CPUs: the trainer keeps two busy, others half of one, and the host takes a fifth."""
    cpu_s = (100 + 2.5 * at_s, 1000 + 4 * at_s, 0.2 * at_s, 2 * at_s)
    return replace(NodeReading(*cpu_s, 8000.0, 16000.0, 1500.0, 50.0, 0), **changes)


def recording(
    samples: Sequence[Sample],
    windows: Sequence[TimeWindow] = WINDOWS,
    limit: int = 8_192,
    **changes: Any,
) -> Recording:
    store = SampleBuffer(limit)
    for window in windows:
        store.edge(window.began_s)
        store.edge(window.ended_s)
    for sample in samples:
        store.add(sample)
    return replace(Recording("gpu", store.all(), windows, gpu_reader="nvml"), **changes)


def energy(of: Recording) -> tuple[float | None, Telemetry]:
    parts, telemetry = energy_of(of)
    return None if telemetry.energy_absent else sum(parts.values()), telemetry


def changed(samples: list[Sample], **changes: Any) -> list[Sample]:
    return [replace(s, gpus=(replace(s.gpus[0], **changes),)) for s in samples]


@pytest.mark.parametrize("has_counter", [True, False])
def test_energy_covers_the_timed_epochs_and_stays_when_samples_are_thinned(
    has_counter: bool,
) -> None:
    samples = gpu_samples(has_counter=has_counter, until_s=400.0)
    total_j, telemetry = energy(recording(samples))
    # The counter moves every 0.1 s: each of six edges may be that much off, of 300 W.
    assert total_j == pytest.approx(TRUTH_J, abs=6 * 0.1 * 300 / 2)
    method = "nvml_counter" if has_counter else "nvml_power"
    assert telemetry == Telemetry(energy_method=method, energy_scope="gpu")
    few = recording(samples, limit=300)
    assert 300 < len(few.samples) < 600  # of thousands
    assert energy(few)[0] == pytest.approx(total_j, rel=1e-9)


def test_a_counter_that_does_not_move_is_no_energy_of_0() -> None:
    stuck = changed(gpu_samples(), energy_j=0.0)
    assert energy(recording(stuck))[1].energy_method == "nvml_power"
    silent = recording(changed(stuck, power_w=0.0))
    assert energy(silent) == (None, Telemetry(energy_absent=f"GPU 0: {NOT_COVERED}"))


@pytest.mark.parametrize(("gap", "is_known"), [((11.0, 14.5), False), ((2.0, 9.0), True)])
def test_a_gap_in_the_samples_ends_integration_but_not_counting(
    gap: tuple[float, float], is_known: bool
) -> None:
    by_counter, by_power = (
        energy(recording([s for s in gpu_samples(has_counter=has) if not gap[0] < s.at_s < gap[1]]))
        for has in (True, False)
    )
    assert by_counter[1].energy_method == "nvml_counter"
    assert by_power[0] == (pytest.approx(TRUTH_J, rel=0.1) if is_known else None)


@pytest.mark.parametrize(("each_s", "is_dense"), [(0.098, True), (0.08, False)])
def test_short_epochs_suffice_if_next_to_nothing_is_between_them(
    each_s: float, is_dense: bool
) -> None:
    windows = tuple(TimeWindow(5 + step / 10, 5 + step / 10 + each_s) for step in range(200))
    expected_j = pytest.approx(0.98 * (joules(25.0) - joules(5.0)), rel=0.02)
    assert energy(recording(gpu_samples(), windows))[0] == (expected_j if is_dense else None)


@pytest.mark.parametrize(("ended_s", "is_known"), [(30.4, True), (30.6, False)])
def test_an_edge_may_be_half_a_second_beyond_the_last_sample(
    ended_s: float, is_known: bool
) -> None:
    windows = [TimeWindow(10.0, ended_s)]
    assert (energy(recording(gpu_samples(), windows))[0] is not None) == is_known


@pytest.mark.parametrize(("every_s", "is_known"), [(2.4, True), (2.6, False)])
def test_power_is_integrated_over_short_gaps_only(every_s: float, is_known: bool) -> None:
    samples = [
        Sample(number * every_s, (GpuReading(power_w=100.0),), node(number * every_s))
        for number in range(20)
    ]
    total_j, _ = energy(recording(samples, [TimeWindow(10.0, 30.0)]))
    assert total_j == (pytest.approx(2_000.0) if is_known else None)


@pytest.mark.parametrize(
    ("windows", "words"),
    [
        ([], "no training phase"),
        ([TimeWindow(10.0, 19.5)], "took 9.5 s; energy needs at least 10 s"),
        ([TimeWindow(at_s, at_s + 0.5) for at_s in range(25)], "took 0.50 s each; energy needs"),
        ([TimeWindow(10.0, 40.0)], NOT_COVERED),
        ([TimeWindow(-10.0, 20.0)], NOT_COVERED),
    ],
)
def test_windows_that_cannot_be_measured_have_no_energy(
    windows: list[TimeWindow], words: str
) -> None:
    assert words in (energy(recording(gpu_samples(), windows))[1].energy_absent or "")


@pytest.mark.parametrize(("at_s", "shared"), [(12.0, True), (15.0, False)])
def test_the_packages_count_where_no_other_trainer_shares_them(at_s: float, shared: bool) -> None:
    def with_with_other_trainer(samples: list[Sample], **changes: Any) -> Recording:
        with_other_trainer = node(at_s, other_trainers=1)
        packages = [replace(s, package_j=40.0 * s.at_s) for s in samples]
        return recording(
            [replace(s, node=with_other_trainer) if s.at_s == at_s else s for s in packages],
            **changes,
        )

    parts, telemetry = energy_of(with_with_other_trainer(gpu_samples()))
    assert telemetry.energy_scope == "+".join(parts)
    assert parts.get("cpu_package") == (None if shared else pytest.approx(12 * 40.0))
    total_j, on_cpu = energy(with_with_other_trainer(node_samples(), device="cpu"))
    if shared:
        assert "another trainer" in (on_cpu.energy_absent or "")
    else:
        assert total_j == pytest.approx(12 * 40.0)
        assert on_cpu == Telemetry(energy_method="rapl", energy_scope="cpu_package")


def test_a_summary_is_of_the_timed_epochs() -> None:
    hot = {**EXPECTED["between"], "clock_state": ClockState(frozenset({"hw_slowdown"}))}
    samples = gpu_samples(lambda at_s: {} if watts(at_s) == 100.0 else hot)
    metrics, telemetry = summarise_telemetry(recording(samples, cost_pct=0.4))
    energy_j = metrics["energy_j"]
    energies = {"mean_power_w": energy_j / 12, "energy_j": energy_j, "energy_gpu_j": energy_j}
    assert metrics == pytest.approx({**EXPECTED["metrics"], **energies})
    assert telemetry == Telemetry(**EXPECTED["telemetry"])


def test_of_trials_that_took_turns_the_cpus_has_no_gpu() -> None:
    both = recording(gpu_samples())
    on_cpu, on_gpu = (
        summarise_telemetry(both.of(device, both.windows)) for device in ("cpu", "gpu")
    )
    assert on_gpu == summarise_telemetry(both)
    of_gpus = {"mean_gpu_utilization_pct", "sm_clock_mhz", "throttled_pct", "peak_gpu_used_mib"}
    assert of_gpus < set(on_gpu[0])
    assert not of_gpus & set(on_cpu[0])
    assert on_cpu[1].throttle_reasons is None
    assert on_cpu[0]["others_cpu_pct"] == on_gpu[0]["others_cpu_pct"]


def test_what_slowed_a_gpu_down_has_its_share_and_its_own_load_drops_no_clock() -> None:
    at_its_power_limit = ClockState(frozenset({"sw_power_cap"}), is_intended=True)
    too_hot = ClockState(frozenset({"hw_slowdown"}))
    idle = ClockState(is_intended=True)
    samples = gpu_samples(
        lambda at_s: {
            "clock_state": at_its_power_limit if at_s < 15 else too_hot if at_s < 21 else idle,
            "sm_clock_mhz": 1000.0 if at_s < 21 else 2000.0,
            "highest_sm_clock_mhz": 2000.0,
        }
    )
    metrics, telemetry = summarise_telemetry(recording(samples))
    assert metrics["throttled_pct"] == pytest.approx(100 * 8 / 12)
    shares = {"sw_power_cap": 100 / 3, "hw_slowdown": 100 / 3}
    assert telemetry.throttle_reasons == pytest.approx(shares)
    assert metrics["clock_drop_pct"] == pytest.approx(50 * 4 / 12)


def test_cpus_are_slow_and_hot_in_a_cpu_s_trial_only() -> None:
    samples = [
        Sample(at_s, node=node(at_s, clock_share=share, throttled_s=at_s / 10))
        for at_s, share in ((float(at_s), 0.8 if at_s < 15 else 1.2) for at_s in range(31))
    ]
    metrics, _ = summarise_telemetry(recording(samples, device="cpu"))
    assert metrics["clock_drop_pct"] == pytest.approx(20 * 4 / 12)
    assert metrics["throttled_pct"] == pytest.approx(10.0)
    assert not {"clock_drop_pct", "throttled_pct"} & set(summarise_telemetry(recording(samples))[0])


def hogged(at_s: float) -> NodeReading:
    """Four CPUs: the trainer keeps two busy until 8 s, others two of them from 6 to 10 s."""
    trainer_s, others_s = 2 * min(at_s, 8.0), 2 * min(max(at_s - 6.0, 0.0), 4.0)
    return node(at_s, busy_s=trainer_s + others_s, steal_s=0.0, trainer_s=trainer_s)


@pytest.mark.parametrize(
    ("windows", "sampled_s", "others_pct"),
    [
        ([(7.0, 7.1)], (0.0, 20.0), 50.0),  # 6.05 to 8.05
        ([(5.0, 5.5), (7.5, 8.0)], (0.0, 20.0), 100 * 4 / 12),  # 5 to 8
        ([(9.5, 9.7)], (9.0, 9.8), 50.0),  # the whole trial
        ([(8.0, 8.2)], (8.0, 20.0), 50.0),  # 8 to 10
        ([(9.5, 9.7)], (9.4, 9.8), None),  # too short
    ],
)
def test_the_work_of_others_is_observed_around_a_short_training(
    windows: Sequence[tuple[float, float]],
    sampled_s: tuple[float, float],
    others_pct: float | None,
) -> None:
    at_s = [index / 10 for index in range(201)]
    samples = [Sample(s, node=hogged(s)) for s in at_s if sampled_s[0] <= s <= sampled_s[1]]
    metrics, _ = summarise_telemetry(recording(samples, [TimeWindow(*ends) for ends in windows]))
    if others_pct is None:
        assert not {"others_cpu_pct", "steal_pct"} & metrics.keys()
    else:
        assert metrics["others_cpu_pct"] == pytest.approx(others_pct, abs=0.5)
    assert "trainer_cpu_pct" in metrics


def test_what_was_not_measured_is_absent_and_never_0() -> None:
    blind = [Sample(sample.at_s, (GpuReading(),)) for sample in gpu_samples()]
    metrics, telemetry = summarise_telemetry(recording(blind))
    assert metrics == {}
    reason = "GPU 0: the samples do not cover all of the timed epochs"
    assert telemetry == Telemetry(energy_absent=reason)
    assert curves(blind) == ([], {})
    assert set(summarise_telemetry(recording(node_samples(trainer_s=None)))[0]) == {"steal_pct"}


def test_curves_have_mlflows_names_and_truth_between_the_points() -> None:
    samples = [replace(sample, package_j=40.0 * sample.at_s) for sample in gpu_samples()]
    at_s, values_by_name = curves(samples)
    assert at_s == pytest.approx(list(range(1, 31)))
    first = {name: values[0] for name, values in values_by_name.items()}
    assert first == pytest.approx(EXPECTED["curves"])


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
    reported = {"samples_per_s": 80.0, "train_s": 12.0, "train_samples": 600.0, "steal_pct": 1.5}
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
