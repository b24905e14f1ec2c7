"""The bound that a verdict on a busy machine must exceed, by the load that was there."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pytest

from orchestrator.analysis.statistics import bias
from orchestrator.analysis.statistics.bias import (
    BiasCurve,
    BiasKind,
    BiasPoint,
    MeasuredBias,
    bias_from_json,
    effect_of_other_work,
    largest_bias,
)
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.criteria import MeasureMode
from orchestrator.hardware import OtherWork, classify
from orchestrator.planning.plan import PlannedArm
from tests.building.arms import CPU, PORTABLE, XLA
from tests.building.hardware import build_node, build_timing_use

FUSED = Arm("torch/fused", CPU)
JAX = Arm("jax/portable", CPU)
BASE = Arm("tensorflow/portable", build_timing_use(CPU))
SLICED = Arm("tensorflow/portable+xla", build_timing_use(CPU))
QUIET: Mapping[str, float] = {}


def others(pct: float) -> Mapping[str, float]:
    return {"other_processes": pct}


def curve(measure: str, kind: str, where: str, *points: tuple[int, float, float]) -> Any:
    return {
        "measure": measure,
        "kind": kind,
        "where": where,
        "points": [
            {"dose_pct": dose, "others_pct": share, "factor": factor}
            for dose, share, factor in points
        ],
    }


MEASURED = bias_from_json(
    {
        "source": "a test",
        "up_to_pct": 60.0,
        "curves": [
            curve("full", "within", "one core", (10, 5.0, 1.1), (50, 20.0, 1.4), (100, 25.0, 1.3)),
            curve("full", "within", "each core", (10, 10.0, 1.1), (50, 40.0, 2.0)),
            curve("full", "alone", "one core", (100, 25.0, 3.0)),
            curve("full", "between", "one core", (100, 25.0, 2.5)),
            curve("full", "between barriers", "one core", (100, 25.0, 30.0)),
            curve("full", "alone barriers", "one core", (100, 25.0, 40.0)),
            curve("timing", "within", "one core", (100, 25.0, 2.2)),
        ],
    }
)


PACKAGED = bias.measured_bias()


@pytest.mark.parametrize("measure", get_args(MeasureMode))
@pytest.mark.parametrize("kind", get_args(BiasKind))
def test_the_package_has_a_bound_for_each_kind_of_ratio(
    measure: MeasureMode, kind: BiasKind
) -> None:
    logs = [PACKAGED.at(measure, kind, load) for load in (1.0, 20.0, PACKAGED.up_to_pct)]
    assert 0 < logs[0] <= logs[1] <= logs[2] < math.log(1_000)
    assert PACKAGED.at(measure, kind, PACKAGED.up_to_pct + 0.1) == math.inf


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> MeasuredBias:
    monkeypatch.setattr(bias, "measured_bias", lambda: MEASURED)
    return MEASURED


@pytest.mark.parametrize(
    ("load", "factor"),
    [
        (12.5, math.sqrt(1.1 * 1.4)),  # halfway between two loads of one core
        (25.0, math.sqrt(1.1 * 2.0)),  # of each core
    ],
)
def test_the_bound_is_interpolated_and_grows_with_the_load(load: float, factor: float) -> None:
    assert math.exp(MEASURED.at("full", "within", load)) == pytest.approx(factor)


def test_a_falling_share_of_a_larger_dose_does_not_break_the_order() -> None:
    points = (BiasPoint(50, 30.0, 1.5), BiasPoint(75, 28.0, 1.9), BiasPoint(100, 40.0, 2.0))
    made = BiasCurve("full", "within", "one core", points)
    logs = [made.at(load) for load in range(101)]
    assert logs == sorted(logs)
    assert math.exp(made.at(30.0)) == pytest.approx(1.9)


@pytest.mark.parametrize(
    ("arms", "rounds", "factor"),
    [
        ((PORTABLE, XLA), [(others(20.0), others(30.0))], 1.483),  # the mean of both
        ((PORTABLE, XLA), [(others(16.0), others(50.0))], 3.0),  # not the same other work
        ((PORTABLE, JAX), [(others(40.0), others(40.0))], 2.5),
        ((PORTABLE, FUSED), [(others(40.0), others(40.0))], 30.0),
        ((BASE, SLICED), [(others(40.0), QUIET)], 2.2),  # they take turns
        ((PORTABLE, XLA), [({"other_processes": 5.0, "host_steal": 7.5}, others(12.5))], 1.251),
        ((PORTABLE, XLA), [({"shared_gpu": 1.0}, others(5.0)), (QUIET, QUIET)], math.inf),
    ],
)
def test_the_bias_of_a_mean_is_the_mean_of_the_bounds_of_its_rounds(
    arms: tuple[Arm, Arm],
    rounds: Sequence[tuple[Mapping[str, float], Mapping[str, float]]],
    factor: float,
) -> None:
    assert math.exp(largest_bias(arms, rounds)) == pytest.approx(factor, rel=1e-3)


def test_the_largest_effect_of_other_work_names_its_two_arms() -> None:
    (group,) = classify([build_node("here")])
    names = ("tensorflow/portable", "tensorflow/portable+xla", "torch/fused")
    planned = [PlannedArm(Arm(name, HardwareUse(group.ref)), group) for name in names]
    effect = effect_of_other_work(planned, {"here": OtherWork(50.0, 0.0, {})}, 15.0)
    assert effect.names == ("tensorflow/portable", "torch/fused")
    assert effect.ratio > 5
    quiet = effect_of_other_work(planned, {"here": OtherWork(5.0, 0.0, {})}, 15.0)
    assert quiet.ratio == 1
