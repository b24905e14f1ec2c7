"""Test rankings on sweeps with a known fastest arm, and on sweeps without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from orchestrator.analysis.comparisons.ranking import Ranking, rankings
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from orchestrator.report.render import summarise
from tests.benchmarks.trusting.findings import most_by_chance
from tests.orchestrator.analysis.known_sweeps import UNITS, obeying
from tests.orchestrator.report.samples import large
from tests.orchestrator.sample_hardware import in_slices
from tests.orchestrator.sample_records import CPU, GPU, PORTABLE, UNROLL, XLA, changed, disturb
from tests.profiles import draws

CONFIGS: list[Config] = [{"units": size} for size in UNITS]


def timed_sweep(times: Sequence[float], noise: float = 0.01, seed: int = 0) -> SweepRecord:
    """Return a sweep of PORTABLE, XLA and UNROLL with these step times."""
    arms = (PORTABLE, XLA, UNROLL)
    laws = {arm: lambda _, ms=ms: ms for arm, ms in zip(arms, times, strict=True)}
    return obeying(laws, CONFIGS, noise=noise, seed=seed)


def step_rankings(record: SweepRecord, margin: float = 0.02) -> list[Ranking]:
    return list(rankings(match(record), "step_ms", margin))


def test_the_fastest_is_first() -> None:
    record = timed_sweep((12, 10, 15))
    (ranking,) = step_rankings(record)
    assert (ranking.leader, ranking.sole, ranking.blocks) == (XLA, True, 8)
    assert [row.arm for row in ranking.behind] == [PORTABLE, UNROLL]
    ratio = ranking.behind[0].ratio
    assert ratio is not None
    assert ratio.low < 1.2 < ratio.high
    few = replace(record, trials=tuple(t for t in record.trials if t.block < 5), blocks=5)
    assert not step_rankings(few)[0].sole


def test_equal_arms_seldom_have_a_sole_leader() -> None:
    """At most 5 % of sweeps of equal arms may name a leader."""
    sweeps = draws(100, 400)
    records = (timed_sweep((10, 10, 10), 0.1, seed) for seed in range(sweeps))
    sole = sum(step_rankings(record, 0.0)[0].sole for record in records)
    assert sole <= most_by_chance(sweeps, 0.05)


def test_arms_within_the_margin_are_equal() -> None:
    (ranking,) = step_rankings(timed_sweep((10, 10.02, 15), 0.001))
    assert [row.standing for row in ranking.behind] == ["same", "worse"]


def test_each_question_has_its_group() -> None:
    groups = summarise(large(blocks=8, kernels=3)).rankings
    steps = [(group.among, group.within) for group in groups if group.metric == "step_ms"]
    assert steps == [
        ("implementations", str(CPU)),
        ("implementations", str(GPU)),
        ("hardware", "tensorflow/portable"),
        ("hardware", "tensorflow/portable+xla"),
        ("hardware", "tensorflow/portable+unroll"),
        ("arms", ""),
    ]


@pytest.mark.parametrize("scope", ["cpu_package and gpu", None])
def test_an_energy_of_mixed_or_unknown_scope_is_in_no_group(scope: str | None) -> None:
    """Nor are those of different scopes: CPUs measure packages, and GPUs themselves."""
    record = large(blocks=8, kernels=3)
    assert energy_groups(record) == [("implementations", str(CPU)), ("implementations", str(GPU))]
    blocks = range(4 if scope else 8)  # half of the trials are mixed, or all are unknown
    trials = [
        changed(t, energy_scope=scope)
        if t.block in blocks and t.arm.implementation != "tensorflow/portable+unroll"
        else t
        for t in record.trials
    ]
    assert energy_groups(replace(record, trials=tuple(trials))) == []


def energy_groups(record: SweepRecord) -> list[tuple[str, str]]:
    groups = summarise(record).rankings
    return [(r.among, r.within) for r in groups if r.metric == "energy_per_sample_j"]


def test_timed_and_trained_arms_are_in_no_group() -> None:
    sliced = Arm("tensorflow/portable+xla", in_slices(CPU))
    record = obeying({PORTABLE: lambda _: 12.0, sliced: lambda _: 10.0}, CONFIGS)
    assert step_rankings(record) == []


def test_a_group_ignores_disturbances_of_other_arms() -> None:
    gpu = [Arm(arm.implementation, GPU) for arm in (PORTABLE, XLA)]
    times = dict(zip((PORTABLE, XLA, *gpu), (12.0, 10.0, 6.0, 5.0), strict=True))
    laws = {arm: lambda _, ms=ms: ms for arm, ms in times.items()}
    quiet = obeying(laws, CONFIGS, noise=0.01)
    record = disturb(quiet, dict.fromkeys((PORTABLE, XLA), range(4)))
    groups = {group.within: group for group in step_rankings(record)}
    on_cpus, on_gpus = groups[str(CPU)], groups[str(GPU)]
    assert (on_cpus.disturbed, on_cpus.sole, on_cpus.blocks) == (4, False, 8)
    assert (on_gpus.disturbed, on_gpus.sole, on_gpus.blocks) == (0, True, 8)
