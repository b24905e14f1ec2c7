"""Whether the arms of a sweep compute the same: a verdict of speed needs equal mathematics.

All arms of a round start from equal weights and see equal samples. Before its warm-up each trial
reports outputs and gradients at these weights, without dropout (its fingerprint). Here the
fingerprints of each arm are compared with the fingerprints of a reference arm in the same round.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.pairing.baselines import Baseline
from orchestrator.core.arms import Arm, VariantIdentity
from orchestrator.core.selectors import known_implementation
from orchestrator.core.trial import FingerprintRecord, FinishedTrial
from workloads.registry import is_own_model


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The largest differences that rounding explains.

    `outputs` is a share of the root mean square of the reference's outputs, `gradients` one of the
    norm of the reference's gradient by a weight array.
    """

    outputs: float
    gradients: float


FINGERPRINT_TOLERANCES: Mapping[str, Tolerance] = {
    # Rounding errors grow with the number of steps: float32 has 6e-8 per operation, and differences
    # of some 1e-6 are measured (docs/trust.md). A wrong gate, activation or weight changes
    # outputs by several percent. Gradients add up over the steps.
    "float32": Tolerance(outputs=1e-3, gradients=1e-2),
    # 11 bits of mantissa: 5e-4 per operation.
    "tf32": Tolerance(outputs=2e-2, gradients=1e-1),
    # As many bits; gradients are computed without a loss scale, and small ones underflow.
    "fp16": Tolerance(outputs=2e-2, gradients=3e-1),
    # 8 bits: 4e-3 per operation. Measured are 2 % of outputs and gradients.
    "bf16": Tolerance(outputs=1e-1, gradients=3e-1),
}
"""The tolerance of each precision; of two arms the wider one counts."""

_SMALL_NORM = 1e-3
"""Gradients below this share of the largest one are compared as if they had this norm."""


@dataclass(frozen=True, slots=True)
class FingerprintDifference:
    """The largest differences of two fingerprints.

    `outputs` is absolute, `outputs_share` relative to the root mean square of the reference's
    outputs, `gradients` relative to the norm of the reference's gradient; None without gradients.
    All are infinite for models of different shapes.
    """

    outputs: float
    outputs_share: float
    gradients: float | None


@dataclass(frozen=True, slots=True)
class Mathematics:
    """Whether an arm computes what a reference arm computes from the same weights.

    The differences are the largest over `rounds` rounds; see `FingerprintDifference`.
    `is_different` is true if one exceeds its tolerance: the rounding of the arms' precision does
    not explain such a difference.
    """

    reference: Arm
    rounds: int
    max_output_difference: float
    max_output_share: float
    max_gradient_difference: float | None
    output_tolerance: float
    gradient_tolerance: float
    is_different: bool
    precision: str = "float32"
    reference_precision: str = "float32"


def compare_mathematics(
    arms: Mapping[Arm, Sequence[FinishedTrial]], baseline: Baseline | None
) -> dict[Arm, Mathematics]:
    """Compare each arm with its reference; arms without a reference or fingerprints are absent."""
    compared = dict[Arm, Mathematics]()
    for arm, reference in references(arms, baseline).items():
        expected = _by_round(arms[reference])
        differences = [
            fingerprint_difference(fingerprint, expected[round_key])
            for round_key, fingerprint in _by_round(arms[arm]).items()
            if round_key in expected
        ]
        if not differences:
            continue
        gradients = [d.gradients for d in differences if d.gradients is not None]
        share = max(d.outputs_share for d in differences)
        precisions = precision_of(arm, arms[arm]), precision_of(reference, arms[reference])
        tolerance = tolerance_of(*precisions)
        compared[arm] = Mathematics(
            reference=reference,
            rounds=len(differences),
            max_output_difference=max(d.outputs for d in differences),
            max_output_share=share,
            max_gradient_difference=max(gradients, default=None),
            output_tolerance=tolerance.outputs,
            gradient_tolerance=tolerance.gradients,
            is_different=share > tolerance.outputs
            or max(gradients, default=0.0) > tolerance.gradients,
            precision=precisions[0],
            reference_precision=precisions[1],
        )
    return compared


def compute_the_same(arm: Arm, other: Arm, compared: Mapping[Arm, Mathematics]) -> bool:
    """Return whether two arms were shown to compute the same, at one precision.

    `compared` is what `compare_mathematics` returns: both have an equal reference, or one is the
    other's. Arms of different precision differ by more rounding than a training forgives.
    """
    if arm == other:
        return True
    of_arm, of_other = compared.get(arm), compared.get(other)
    known = [mathematics for mathematics in (of_arm, of_other) if mathematics is not None]
    if not known or any(mathematics.is_different for mathematics in known):
        return False
    reference = of_arm.reference if of_arm else arm
    if reference != (of_other.reference if of_other else other):
        return False
    precision = of_arm.precision if of_arm else known[0].reference_precision
    return precision == (of_other.precision if of_other else known[0].reference_precision)


def has_equal_starts(workload: str, settings: Mapping[str, Any]) -> bool:
    """Return whether the arms of a block start from equal weights, by the settings of a sweep."""
    return settings.get("weights") != "own" or not is_own_model(workload)


def different_arms(trials: Iterable[FinishedTrial], baseline: Baseline | None) -> frozenset[Arm]:
    """Return the arms that compute something else than their reference."""
    by_arm = defaultdict[Arm, list[FinishedTrial]](list)
    for trial in trials:
        by_arm[trial.arm].append(trial)
    compared = compare_mathematics(by_arm, baseline)
    return frozenset(arm for arm, mathematics in compared.items() if mathematics.is_different)


def references(arms: Iterable[Arm], baseline: Baseline | None) -> dict[Arm, Arm]:
    """Return the reference of each arm but the references themselves.

    Only arms of one variant and one amount of work have equal models and equal first samples. Among
    these the reference is a baseline, or else the first arm.
    """
    groups = defaultdict[tuple[VariantIdentity | None, str], list[Arm]](list)
    for arm in arms:
        groups[arm.variant.identity if arm.variant else None, arm.work].append(arm)
    baselines = set(baseline.of.values()) if baseline else set[Arm]()
    chosen = dict[Arm, Arm]()
    for alike in groups.values():
        reference = next((arm for arm in alike if arm in baselines), alike[0])
        chosen |= {arm: reference for arm in alike if arm != reference}
    return chosen


def fingerprint_difference(
    fingerprint: FingerprintRecord, reference: FingerprintRecord
) -> FingerprintDifference:
    """Return the largest differences between two fingerprints of one round."""
    outputs, expected = fingerprint.outputs, reference.outputs
    norms, expected_norms = fingerprint.gradient_norms, reference.gradient_norms
    if len(outputs) != len(expected):
        return FingerprintDifference(math.inf, math.inf, None)
    largest = max((abs(a - b) for a, b in zip(outputs, expected, strict=True)), default=0.0)
    relative = _relative(largest, reference.output_rms)
    if not norms or not expected_norms:
        return FingerprintDifference(largest, relative, None)
    if len(norms) != len(expected_norms):
        return FingerprintDifference(largest, relative, math.inf)
    floor = _SMALL_NORM * max(expected_norms)
    pairs = [
        *zip(norms, expected_norms, expected_norms, strict=True),
        *zip(
            fingerprint.gradient_projections,
            reference.gradient_projections,
            expected_norms,
            strict=True,
        ),
    ]
    gradients = max(_relative(abs(a - b), max(norm, floor)) for a, b, norm in pairs)
    return FingerprintDifference(largest, relative, gradients)


def precision_of(arm: Arm, trials: Iterable[FinishedTrial]) -> str:
    """Return the precision that an arm computed in: the file of an own model may set it itself."""
    ran = (trial.outcome.environment.get("precision") for trial in trials)
    found = next((str(precision) for precision in ran if precision), None)
    implementation = known_implementation(arm)
    return found or (implementation.precision if implementation else "float32")


def tolerance_of(*precisions: str) -> Tolerance:
    """Return the widest tolerance of these precisions; an unknown one counts as float32."""
    usual = FINGERPRINT_TOLERANCES["float32"]
    every = [FINGERPRINT_TOLERANCES.get(precision, usual) for precision in precisions]
    return Tolerance(max(t.outputs for t in every), max(t.gradients for t in every))


def _relative(difference: float, size: float) -> float:
    """Return a difference relative to a size; infinite relative to nothing."""
    if not difference:
        return 0.0
    return difference / size if size else math.inf


def _by_round(trials: Iterable[FinishedTrial]) -> dict[tuple[int, int], FingerprintRecord]:
    """Return the fingerprint of each block and repeat that has times."""
    return {
        (trial.block, trial.repeat): trial.fingerprint
        for trial in trials
        if trial.has_times and trial.fingerprint is not None
    }
