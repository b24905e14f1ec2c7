"""Which arms compute the same: differences of fingerprints, tolerances, and what follows."""

import math
from collections.abc import Mapping

import pytest

from orchestrator.analysis.arms.mathematics import (
    FingerprintDifference,
    Mathematics,
    compare_mathematics,
    fingerprint_difference,
)
from orchestrator.analysis.stopping import PrecisionReached
from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.trial import FingerprintRecord
from tests.building.arms import ARMS_OF_CELLS, CPU, PORTABLE, UNROLL, XLA
from tests.building.records import build_record
from tests.building.trials import build_fingerprint, build_trial

BF16 = Arm("tensorflow/portable+bf16", CPU)
REFERENCE = FingerprintRecord((3.0, -4.0), 2.0, (10.0, 0.001), (5.0, 0.0005))


def summarise_factors(
    factors: Mapping[Arm, float | None], times: Mapping[Arm, float] | None = None
) -> ReportSummary:
    """Summarise a sweep of eight blocks whose arms compute `factor` times the same.

    An arm with None has no fingerprints.
    """
    trials = [
        build_trial(
            block,
            arm,
            step_ms=(times or {}).get(arm, 10.0),
            fingerprint=None if factor is None else build_fingerprint(factor),
        )
        for block in range(8)
        for arm, factor in factors.items()
    ]
    return summarise(build_record(trials, tuple(factors)))


def mathematics_of(summary: ReportSummary, arm: Arm) -> Mathematics | None:
    (row,) = [row for row in summary.arms if row.arm == arm]
    return row.mathematics


@pytest.mark.parametrize(
    ("fingerprint", "expected"),
    [
        pytest.param(REFERENCE, FingerprintDifference(0.0, 0.0, 0.0), id="equal"),
        pytest.param(
            FingerprintRecord((3.0, -4.0), 2.0, (11.0, 0.001), (5.0, 0.0005)),
            FingerprintDifference(0.0, 0.0, 0.1),
            id="the norm of a gradient",
        ),
        pytest.param(
            FingerprintRecord((3.0, -4.0), 2.0, (10.0, 0.001), (-5.0, 0.0005)),
            FingerprintDifference(0.0, 0.0, 1.0),
            id="the direction of a gradient",
        ),
        pytest.param(
            FingerprintRecord((3.0, -4.0), 2.0, (10.0, 0.002), (5.0, 0.0005)),
            FingerprintDifference(0.0, 0.0, 0.1),  # relative to 0.1 % of the largest norm
            id="a gradient near zero",
        ),
        pytest.param(
            FingerprintRecord((3.0,), 2.0, (10.0, 0.001), (5.0, 0.0005)),
            FingerprintDifference(math.inf, math.inf, None),
            id="outputs of another shape",
        ),
        pytest.param(
            FingerprintRecord((3.0, -4.0), 2.0),
            FingerprintDifference(0.0, 0.0, None),
            id="no finite gradients",
        ),
    ],
)
def test_the_difference_is_relative_to_the_reference(
    fingerprint: FingerprintRecord, expected: FingerprintDifference
) -> None:
    difference = fingerprint_difference(fingerprint, REFERENCE)
    assert difference.outputs == pytest.approx(expected.outputs)
    assert difference.outputs_share == pytest.approx(expected.outputs_share)
    assert difference.gradients == (
        None if expected.gradients is None else pytest.approx(expected.gradients)
    )


@pytest.mark.parametrize(
    ("arm", "factor", "is_different"),
    [
        pytest.param(XLA, 1.0001, False, id="rounding of float32"),
        pytest.param(BF16, 1.02, False, id="rounding of bf16"),
        pytest.param(BF16, 1.2, True, id="beyond bf16"),
    ],
)
def test_the_tolerance_is_that_of_the_precision(
    arm: Arm, factor: float, is_different: bool
) -> None:
    summary = summarise_factors({PORTABLE: 1.0, arm: factor})
    mathematics = mathematics_of(summary, arm)
    assert mathematics is not None
    assert mathematics.reference == PORTABLE
    assert mathematics.rounds == 8
    assert mathematics.max_output_difference == pytest.approx(4.0 * (factor - 1))
    assert mathematics.max_output_share == pytest.approx(2.0 * (factor - 1))
    assert mathematics.is_different is is_different


def test_an_arm_of_different_mathematics_is_on_no_front() -> None:
    summary = summarise_factors({PORTABLE: 1.0, XLA: 1.5, UNROLL: 1.0}, {XLA: 5.0, UNROLL: 8.0})
    assert all(p.arm != XLA for trade_off in summary.fronts for p in trade_off.front.points)
    assert XLA not in {point.arm for point in summary.front.points}
    assert (summary.front.tried, summary.front.different_mathematics) == (16, (XLA,))


def test_no_block_is_run_for_an_arm_of_different_mathematics() -> None:
    rule = PrecisionReached(AutoBlocks(0.05, 6, 60), (PORTABLE, XLA, UNROLL), 1)
    noisy = [
        build_trial(
            block,
            arm,
            step_ms=10.0 * (1 + 0.5 * (block % 3)) if arm == XLA else 10.0,
            fingerprint=build_fingerprint(1.5 if arm == XLA else 1.0),
        )
        for block in range(6)
        for arm in (PORTABLE, XLA, UNROLL)
    ]
    assert rule.half_widths(noisy) == {(UNROLL, PORTABLE): 0.0}
    decisions = [decision for trial in noisy if (decision := rule.add_outcome(trial))]
    assert [decision.blocks for decision in decisions] == [6]


def test_each_variant_is_compared_with_its_like() -> None:
    factors = {
        arm: 1.0 if arm.variant and arm.variant.name == "lstm" else 7.0 for arm in ARMS_OF_CELLS
    }
    summary = summarise_factors(factors)
    compared = {row.arm: row.mathematics for row in summary.arms if row.mathematics}
    assert len(compared) == 2
    for arm, mathematics in compared.items():
        assert mathematics.reference.variant == arm.variant
        assert not mathematics.is_different


@pytest.mark.parametrize(("precision", "differs"), [(None, True), ("bf16", False)])
def test_the_tolerance_is_of_the_precision_that_ran(precision: str | None, differs: bool) -> None:
    """A model's own file may set a reduced precision, which the arm's name does not have."""
    environment = {"precision": precision} if precision else {}
    trials = {
        arm: [build_trial(0, arm, fingerprint=build_fingerprint(f), environment=environment)]
        for arm, f in {PORTABLE: 1.0, XLA: 1.02}.items()
    }
    compared = compare_mathematics(trials, None)[XLA]
    assert (compared.is_different, compared.precision) == (differs, precision or "float32")
