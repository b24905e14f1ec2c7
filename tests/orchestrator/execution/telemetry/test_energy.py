"""The energy of the timed epochs alone, from samples with a known result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.core.trial import Telemetry
from orchestrator.execution.telemetry.energy import energy_of
from orchestrator.execution.telemetry.readings import Recording, Sample, TimeWindow
from tests.orchestrator.execution.telemetry.sample_recordings import (
    gpu_samples,
    joules,
    node,
    node_samples,
    recording,
)

TRUTH_J = 3 * 4 * 100.0
NOT_COVERED = "the samples do not cover all of the timed epochs"


def total_j(of: Recording) -> float | None:
    parts, telemetry = energy_of(of)
    return None if telemetry.energy_absent else sum(parts.values())


def qualifiers(of: Recording) -> Telemetry:
    return energy_of(of)[1]


def changed(samples: list[Sample], **changes: Any) -> list[Sample]:
    """Return samples with changes of their GPU."""
    return [replace(s, gpus=(replace(s.gpus[0], **changes),)) for s in samples]


@pytest.mark.parametrize("has_counter", [True, False])
def test_energy_covers_the_timed_epochs_and_nothing_else(has_counter: bool) -> None:
    of = recording(gpu_samples(has_counter=has_counter))
    # The counter moves every 0.1 s: each of six edges may be that much off, of 300 W.
    assert total_j(of) == pytest.approx(TRUTH_J, abs=6 * 0.1 * 300 / 2)
    method = "nvml_counter" if has_counter else "nvml_power"
    assert qualifiers(of) == Telemetry(energy_method=method, energy_scope="gpu")


def test_a_counter_that_does_not_move_is_no_energy_of_0() -> None:
    stuck = changed(gpu_samples(), energy_j=0.0)
    assert qualifiers(recording(stuck)).energy_method == "nvml_power"
    silent = recording(changed(stuck, power_w=0.0))
    assert qualifiers(silent) == Telemetry(energy_absent=f"GPU 0: {NOT_COVERED}")


@pytest.mark.parametrize(("gap", "is_known"), [((11.0, 14.5), False), ((2.0, 9.0), True)])
def test_a_gap_in_the_samples_ends_integration_but_not_counting(
    gap: tuple[float, float], is_known: bool
) -> None:
    by_counter, by_power = (
        recording([s for s in gpu_samples(has_counter=has) if not gap[0] < s.at_s < gap[1]])
        for has in (True, False)
    )
    assert qualifiers(by_counter).energy_method == "nvml_counter"
    assert total_j(by_power) == (pytest.approx(TRUTH_J, rel=0.1) if is_known else None)


def test_short_epochs_suffice_if_next_to_nothing_is_between_them() -> None:
    """As of a user's workload of many small epochs, without validation between them."""
    dense = tuple(TimeWindow(5 + step / 10, 5 + step / 10 + 0.098) for step in range(200))
    expected_j = 0.98 * (joules(25.0) - joules(5.0))
    assert total_j(recording(gpu_samples(), dense)) == pytest.approx(expected_j, rel=0.02)
    thin = tuple(TimeWindow(5 + step / 10, 5 + step / 10 + 0.08) for step in range(200))
    assert total_j(recording(gpu_samples(), thin)) is None


def test_a_window_in_which_the_machine_was_suspended_has_no_energy() -> None:
    """The clock stopped; the counter may have continued or not."""
    inside, between = (
        recording([replace(s, slept=s.at_s == at_s) for s in gpu_samples()]) for at_s in (12, 15)
    )
    reason = "GPU 0: the machine was suspended during the trial"
    assert qualifiers(inside) == Telemetry(energy_absent=reason)
    assert total_j(between) == total_j(recording(gpu_samples()))


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


def with_packages(samples: list[Sample]) -> list[Sample]:
    return [replace(sample, package_j=40.0 * sample.at_s) for sample in samples]


def test_a_cpus_trial_has_the_energy_of_the_packages() -> None:
    of = recording(with_packages(node_samples()), device="cpu")
    assert total_j(of) == pytest.approx(12 * 40.0)
    assert qualifiers(of) == Telemetry(energy_method="rapl", energy_scope="cpu_package")
    reason = "only root may read …/energy_uj"
    unreadable = recording(node_samples(), device="cpu", package_reason=reason)
    assert qualifiers(unreadable) == Telemetry(energy_absent=reason)


@pytest.mark.parametrize(("at_s", "shared"), [(12.0, True), (15.0, False)])
def test_the_packages_are_of_no_trial_where_two_trainers_share_them(
    at_s: float, shared: bool
) -> None:
    """A node's energy would be counted once for each of them."""

    def with_company(samples: list[Sample], **changes: Any) -> Recording:
        company = node(at_s, other_trainers=1)
        packages = with_packages(samples)
        return recording(
            [replace(s, node=company) if s.at_s == at_s else s for s in packages], **changes
        )

    parts, telemetry = energy_of(with_company(gpu_samples()))
    assert telemetry.energy_scope == "+".join(parts)
    assert parts.get("cpu_package") == (None if shared else pytest.approx(12 * 40.0))
    on_cpu = qualifiers(with_company(node_samples(), device="cpu"))
    assert ("another trainer" in (on_cpu.energy_absent or "")) == shared


@pytest.mark.parametrize("has_counter", [True, False])
def test_a_long_trial_is_thinned_and_its_energy_stays(has_counter: bool) -> None:
    samples = gpu_samples(has_counter=has_counter, until_s=400.0)
    few = recording(samples, limit=300)
    assert 300 < len(few.samples) < 600  # of thousands
    assert total_j(few) == pytest.approx(total_j(recording(samples)), rel=1e-9)
