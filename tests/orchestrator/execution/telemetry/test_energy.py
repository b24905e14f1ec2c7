"""The energy of the timed epochs alone, from samples with a known result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from orchestrator.execution.telemetry.energy import energy_of
from orchestrator.execution.telemetry.readings import (
    GpuReading,
    Sample,
    TimeWindow,
)
from orchestrator.execution.telemetry.samples import SampleBuffer
from tests.orchestrator.execution.telemetry.sample_recordings import (
    WINDOWS,
    gpu_samples,
    joules,
    node,
    recording,
    watts,
)

TRUTH_J = 3 * 4 * 100.0


def without_counter(at_s: float, reading: GpuReading) -> GpuReading:
    return replace(reading, energy_j=None, power_w=watts(at_s))


@pytest.mark.parametrize(
    ("change", "every_s", "method"),
    [
        (lambda at_s, reading: reading, 0.2, "nvml_counter"),
        (without_counter, 0.1, "nvml_power"),
    ],
)
def test_energy_covers_the_timed_epochs_and_nothing_else(
    change: Callable[[float, GpuReading], GpuReading], every_s: float, method: str
) -> None:
    energy = energy_of(recording(gpu_samples(change, every_s=every_s)))
    # The counter moves every 0.1 s: each of six edges may be that much off, of 300 W.
    assert energy.joules == pytest.approx(TRUTH_J, abs=6 * 0.1 * 300 / 2)
    assert (energy.method, energy.scope) == (method, "gpu")


def test_a_counter_that_does_not_move_is_no_energy_of_0() -> None:
    stuck = gpu_samples(lambda at_s, reading: replace(reading, energy_j=0.0))
    assert energy_of(recording(stuck)).method == "nvml_power"
    silent = gpu_samples(
        lambda at_s, reading: replace(reading, energy_j=0.0, power_w=0.0 * (reading.power_w or 0))
    )
    energy = energy_of(recording(silent))
    assert (energy.joules, energy.reason) == (
        None,
        "GPU 0: the samples do not cover all of the timed epochs",
    )


@pytest.mark.parametrize(("gap", "is_known"), [((11.0, 14.5), False), ((2.0, 9.0), True)])
def test_a_gap_in_the_samples_ends_integration_but_not_counting(
    gap: tuple[float, float], is_known: bool
) -> None:
    def seen(samples: list[Sample]) -> list[Sample]:
        return [sample for sample in samples if not gap[0] < sample.at_s < gap[1]]

    assert energy_of(recording(seen(gpu_samples()))).method == "nvml_counter"
    by_power = energy_of(recording(seen(gpu_samples(without_counter, every_s=0.1))))
    assert by_power.joules == (pytest.approx(TRUTH_J, rel=0.1) if is_known else None)


def test_short_epochs_suffice_if_next_to_nothing_is_between_them() -> None:
    """As of a user's workload of many small epochs, without validation between them."""
    dense = tuple(TimeWindow(5 + step / 10, 5 + step / 10 + 0.098) for step in range(200))
    energy = energy_of(recording(gpu_samples(), dense))
    assert energy.joules == pytest.approx(0.98 * (joules(25.0) - joules(5.0)), rel=0.02)
    thin = tuple(TimeWindow(5 + step / 10, 5 + step / 10 + 0.08) for step in range(200))
    assert energy_of(recording(gpu_samples(), thin)).joules is None


@pytest.mark.parametrize("at_s", [12.0, 15.0])
def test_a_window_in_which_the_machine_was_suspended_has_no_energy(at_s: float) -> None:
    """The clock stopped; the counter may have continued or not."""
    asleep = [replace(sample, slept=abs(sample.at_s - at_s) < 0.01) for sample in gpu_samples()]
    energy = energy_of(recording(asleep))
    if at_s == 15.0:  # between two windows
        assert energy.joules == energy_of(recording(gpu_samples())).joules
    else:
        assert (energy.joules, energy.reason) == (
            None,
            "GPU 0: the machine was suspended during the trial",
        )


@pytest.mark.parametrize(
    ("windows", "words"),
    [
        ((), "no training phase"),
        ((TimeWindow(10.0, 19.5),), "took 9.5 s; energy needs at least 10 s"),
        (
            tuple(TimeWindow(at_s, at_s + 0.5) for at_s in range(25)),
            "took 0.50 s each; energy needs at least 1 s",
        ),
        ((TimeWindow(10.0, 40.0),), "do not cover all of the timed epochs"),
        ((TimeWindow(-10.0, 20.0),), "do not cover all of the timed epochs"),
    ],
)
def test_windows_that_cannot_be_measured_have_no_energy(
    windows: tuple[TimeWindow, ...], words: str
) -> None:
    energy = energy_of(recording(gpu_samples(), windows))
    assert energy.joules is None
    assert words in (energy.reason or "")


def package(samples: list[Sample], power_w: float = 40.0) -> list[Sample]:
    return [replace(sample, package_j=power_w * sample.at_s) for sample in samples]


def test_a_cpus_trial_has_the_energy_of_the_packages() -> None:
    samples = package([Sample(float(at_s), node=node(at_s)) for at_s in range(31)])
    energy = energy_of(recording(samples, device="cpu"))
    assert energy.joules == pytest.approx(12 * 40.0)
    assert (energy.method, energy.scope) == ("rapl", "cpu_package")
    nothing = energy_of(recording(samples, device="cpu", windows=()))
    assert nothing.joules is None
    unreadable = [replace(sample, package_j=None) for sample in samples]
    reason = "only root may read …/energy_uj"
    energy = energy_of(recording(unreadable, device="cpu", package_reason=reason))
    assert (energy.joules, energy.reason) == (None, reason)


@pytest.mark.parametrize(("at_s", "shared"), [(12.0, True), (15.0, False)])
def test_the_packages_are_of_no_trial_where_two_trainers_share_them(
    at_s: float, shared: bool
) -> None:
    """A node's energy would be counted once for each of them."""

    def shared_at(sample: Sample) -> Sample:
        at_work = replace(node(sample.at_s), other_trainers=1 if sample.at_s == at_s else 0)
        return replace(sample, node=at_work if sample.node else None)

    on_gpu = energy_of(recording([shared_at(sample) for sample in package(gpu_samples())]))
    assert on_gpu.scope == ("gpu" if shared else "gpu+cpu_package")
    assert on_gpu.joules == sum(on_gpu.parts.values())
    assert on_gpu.parts.get("cpu_package") == (None if shared else pytest.approx(12 * 40.0))
    whole = [Sample(float(sample), node=node(sample)) for sample in range(31)]
    on_cpu = energy_of(recording([shared_at(sample) for sample in package(whole)], device="cpu"))
    assert (on_cpu.joules is None) == shared
    assert ("another trainer was at work" in (on_cpu.reason or "")) == shared


@pytest.mark.parametrize("counter", [True, False])
def test_a_long_trial_is_thinned_and_its_energy_stays(counter: bool) -> None:
    samples = gpu_samples(
        (lambda at_s, reading: reading) if counter else without_counter,
        until_s=400.0,
        every_s=0.1,
    )
    buffer = SampleBuffer(limit=300)
    for window in WINDOWS:
        buffer.edge(window.began_s)
        buffer.edge(window.ended_s)
    for sample in samples:
        buffer.add(sample)
    kept = buffer.all()
    assert 300 < len(kept) < 600  # of 4,000
    few = replace(recording([]), samples=kept, windows=WINDOWS)
    assert energy_of(few).joules == pytest.approx(energy_of(recording(samples)).joules, rel=1e-9)
