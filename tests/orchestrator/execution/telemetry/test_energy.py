"""The energy of the timed epochs alone, from samples with a known result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from orchestrator.core.trial import Telemetry
from orchestrator.execution.telemetry.energy import energy_of
from orchestrator.execution.telemetry.readings import GpuReading, Recording, Sample, TimeWindow
from tests.orchestrator.execution.telemetry.sample_recordings import (
    gpu_samples,
    joules,
    node,
    recording,
    watts,
)

TRUTH_J = 3 * 4 * 100.0
NOT_COVERED = "the samples do not cover all of the timed epochs"


def total_j(of: Recording) -> float | None:
    parts, telemetry = energy_of(of)
    return None if telemetry.energy_absent else sum(parts.values())


def qualifiers(of: Recording) -> Telemetry:
    return energy_of(of)[1]


def without_counter(at_s: float, reading: GpuReading) -> GpuReading:
    return replace(reading, energy_j=None, power_w=watts(at_s))


@pytest.mark.parametrize(
    ("change", "every_s", "method"),
    [
        (lambda at_s, reading: reading, 0.2, "nvml_counter"),
        (without_counter, 0.1, "nvml_power"),
        (lambda at_s, reading: replace(reading, energy_j=0.0), 0.2, "nvml_power"),
    ],
)
def test_energy_covers_the_timed_epochs_and_nothing_else(
    change: Callable[[float, GpuReading], GpuReading], every_s: float, method: str
) -> None:
    of = recording(gpu_samples(change, every_s=every_s))
    # The counter moves every 0.1 s: each of six edges may be that much off, of 300 W.
    error_j = 6 * 0.1 * 300 / 2 if every_s * 10 == 1 or method == "nvml_counter" else 600.0
    assert total_j(of) == pytest.approx(TRUTH_J, abs=error_j)
    assert qualifiers(of) == Telemetry(energy_method=method, energy_scope="gpu")


def test_a_counter_that_does_not_move_is_no_energy_of_0() -> None:
    silent = gpu_samples(
        lambda at_s, reading: replace(reading, energy_j=0.0, power_w=0.0 * (reading.power_w or 0))
    )
    assert qualifiers(recording(silent)) == Telemetry(energy_absent=f"GPU 0: {NOT_COVERED}")


@pytest.mark.parametrize(("gap", "is_known"), [((11.0, 14.5), False), ((2.0, 9.0), True)])
def test_a_gap_in_the_samples_ends_integration_but_not_counting(
    gap: tuple[float, float], is_known: bool
) -> None:
    def seen(samples: list[Sample]) -> Recording:
        return recording([one for one in samples if not gap[0] < one.at_s < gap[1]])

    assert qualifiers(seen(gpu_samples())).energy_method == "nvml_counter"
    by_power = total_j(seen(gpu_samples(without_counter, every_s=0.1)))
    assert by_power == (pytest.approx(TRUTH_J, rel=0.1) if is_known else None)


def test_short_epochs_suffice_if_next_to_nothing_is_between_them() -> None:
    """As of a user's workload of many small epochs, without validation between them."""
    dense = tuple(TimeWindow(5 + step / 10, 5 + step / 10 + 0.098) for step in range(200))
    expected_j = 0.98 * (joules(25.0) - joules(5.0))
    assert total_j(recording(gpu_samples(), dense)) == pytest.approx(expected_j, rel=0.02)
    thin = tuple(TimeWindow(5 + step / 10, 5 + step / 10 + 0.08) for step in range(200))
    assert total_j(recording(gpu_samples(), thin)) is None


@pytest.mark.parametrize("at_s", [12.0, 15.0])
def test_a_window_in_which_the_machine_was_suspended_has_no_energy(at_s: float) -> None:
    """The clock stopped; the counter may have continued or not."""
    asleep = recording([replace(s, slept=abs(s.at_s - at_s) < 0.01) for s in gpu_samples()])
    if at_s == 15.0:  # between two windows
        assert total_j(asleep) == total_j(recording(gpu_samples()))
    else:
        reason = "GPU 0: the machine was suspended during the trial"
        assert qualifiers(asleep) == Telemetry(energy_absent=reason)


@pytest.mark.parametrize(
    ("windows", "words"),
    [
        ((), "no training phase"),
        ((TimeWindow(10.0, 19.5),), "took 9.5 s; energy needs at least 10 s"),
        (
            tuple(TimeWindow(at_s, at_s + 0.5) for at_s in range(25)),
            "took 0.50 s each; energy needs at least 1 s",
        ),
        ((TimeWindow(10.0, 40.0),), NOT_COVERED),
        ((TimeWindow(-10.0, 20.0),), NOT_COVERED),
    ],
)
def test_windows_that_cannot_be_measured_have_no_energy(
    windows: tuple[TimeWindow, ...], words: str
) -> None:
    assert words in (qualifiers(recording(gpu_samples(), windows)).energy_absent or "")


def with_packages(samples: list[Sample], power_w: float | None = 40.0) -> list[Sample]:
    return [replace(sample, package_j=power_w and power_w * sample.at_s) for sample in samples]


CPU_SAMPLES = [Sample(float(at_s), node=node(at_s)) for at_s in range(31)]


def test_a_cpus_trial_has_the_energy_of_the_packages() -> None:
    of = recording(with_packages(CPU_SAMPLES), device="cpu")
    assert total_j(of) == pytest.approx(12 * 40.0)
    assert qualifiers(of) == Telemetry(energy_method="rapl", energy_scope="cpu_package")
    reason = "only root may read …/energy_uj"
    unreadable = recording(CPU_SAMPLES, device="cpu", package_reason=reason)
    assert qualifiers(unreadable) == Telemetry(energy_absent=reason)


@pytest.mark.parametrize(("at_s", "shared"), [(12.0, True), (15.0, False)])
def test_the_packages_are_of_no_trial_where_two_trainers_share_them(
    at_s: float, shared: bool
) -> None:
    """A node's energy would be counted once for each of them."""

    def shared_at(sample: Sample) -> Sample:
        at_work = replace(node(sample.at_s), other_trainers=1 if sample.at_s == at_s else 0)
        return replace(sample, node=at_work if sample.node else None)

    on_gpu = recording([shared_at(sample) for sample in with_packages(gpu_samples())])
    parts, telemetry = energy_of(on_gpu)
    assert telemetry.energy_scope == "+".join(parts)
    assert parts.get("cpu_package") == (None if shared else pytest.approx(12 * 40.0))
    on_cpu = recording([shared_at(sample) for sample in with_packages(CPU_SAMPLES)], device="cpu")
    assert ("another trainer" in (qualifiers(on_cpu).energy_absent or "")) == shared


@pytest.mark.parametrize("change", [lambda at_s, reading: reading, without_counter])
def test_a_long_trial_is_thinned_and_its_energy_stays(
    change: Callable[[float, GpuReading], GpuReading],
) -> None:
    samples = gpu_samples(change, until_s=400.0, every_s=0.1)
    few = recording(samples, limit=300)
    assert 300 < len(few.samples) < 600  # of 4,000
    assert total_j(few) == pytest.approx(total_j(recording(samples)), rel=1e-9)
