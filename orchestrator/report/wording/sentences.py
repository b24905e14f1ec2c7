"""Sentences that several sections of a report share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.arms.pareto import ParetoPoint
from orchestrator.analysis.comparisons.speed import Comparison, Contrast
from orchestrator.analysis.pairing.complete_rounds import ParamRange
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import (
    ABSENT,
    count,
    difference,
    difference_interval,
    joined,
    number,
    ratio,
    ratio_interval,
    share,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.outcome_text import disturbance_text


@dataclass(frozen=True, slots=True)
class ArmNames:
    """Names of arms; without their hardware if the whole sweep ran on one class."""

    hardware: str | None

    def __call__(self, arm: Arm | RequestedArm) -> str:
        """Return `tensorflow/cudnn`, or `tensorflow/cudnn on NVIDIA H200`."""
        return arm.implementation if str(arm.hardware) == self.hardware else str(arm)

    @property
    def where(self) -> str:
        """The one hardware class of the sweep: ` on AMD EPYC, 2 CPUs`; else empty."""
        return f" on {self.hardware}" if self.hardware else ""


def arm_names(summary: ReportSummary) -> ArmNames:
    """Return the names of this sweep's arms."""
    hardware = {str(arm_summary.arm.hardware) for arm_summary in summary.arms}
    hardware = hardware or {impossible.arm.hardware for impossible in summary.impossible}
    return ArmNames(hardware.pop() if len(hardware) == 1 else None)


def verdict_sentence(comparison: Comparison, name: ArmNames) -> str:
    """Write the verdict of one arm against its baseline, with interval and number of blocks.

    The interval is the corrected one, which decides the verdict, if there is one.
    """
    arm = name(comparison.arm)
    if comparison.baseline is None:
        return f"{arm} is not compared: {comparison.reason}"
    base = f"{name(comparison.baseline)}{name.where}"
    shown = comparison.corrected or comparison.speedup
    over = _over(comparison)
    if comparison.verdict == "same":
        within = f"{share(comparison.margin)} ({ratio_interval(shown)})"
        return f"{arm} and {base} are equally fast within {within}{over}{_accuracy(comparison)}"
    if comparison.verdict != "inconclusive":
        return f"{arm} is {ratio(shown)} as fast as {base}{over}{_accuracy(comparison)}"
    start = f"inconclusive: {arm} compared with {base}"
    if shown is None:
        return f"{start} ({comparison.reason})"
    if comparison.corrected is None:
        cause = disturbance_text(comparison.disturbance)
        noise = f"; disturbed: {cause}" if cause else ""
        reason = f"({comparison.reason}{noise})"
        return f"{start} is {ratio(shown)} as fast {reason}{_accuracy(comparison)}"
    more = _blocks_needed(comparison)
    return f"{start} is {ratio(shown)} as fast{over}{_accuracy(comparison)}{more}"


def _over(comparison: Comparison) -> str:
    """Write `, over 8 blocks`, with anything unusual about them."""
    text = f", over {count(len(comparison.pairs), 'block')}"
    if len(set(comparison.measures)) > 1:
        text = f", by time per step alone (timed in slices against whole trainings){text}"
    disturbed = len(comparison.disturbed_blocks)
    if not disturbed:
        return text
    if comparison.quiet_only:
        return f"{text} (quiet rounds only: {count(disturbed, 'block')} had a disturbed one)"
    return f"{text} ({disturbed} of them disturbed: {disturbance_text(comparison.disturbance)})"


def _accuracy(comparison: Comparison) -> str:
    """Write the result on accuracy that follows a verdict of speed; a claim only if it is shown."""
    accuracy = comparison.accuracy
    if accuracy is None or accuracy.corrected is None:
        return ""
    n = accuracy.difference.n
    blocks = "" if n == len(comparison.pairs) else f" over {n}"
    shown = f"difference {difference_interval(accuracy.corrected)}{blocks and blocks + ' blocks'}"
    within = f"({shown}, within {number(accuracy.margin)})"
    alike = comparison.verdict in ("same", "inconclusive")
    if accuracy.verdict == "equal":
        gain = comparison.verdict == "faster"
        return f"{', and costs no accuracy' if gain else '; their accuracies are equal'} {within}"
    if accuracy.verdict == "inconclusive":
        diverged = accuracy.diverged or accuracy.baseline_diverged
        reason = f"{accuracy.reason}; " if diverged else ""
        shown = f"{reason}{shown}, margin {number(accuracy.margin)}"
        return f"; its accuracy is inconclusive ({shown})"
    return f"{'; the former' if alike else ', and'} is {_MORE[accuracy.verdict]} accurate ({shown})"


_MORE = {"better": "more", "worse": "less"}


def _blocks_needed(comparison: Comparison) -> str:
    """Write how many more blocks are needed for a verdict."""
    needed = comparison.blocks_needed
    if needed is None:
        return ""
    half_width = share(math.expm1(needed.half_width))
    more = int(float(f"{needed.more_blocks:.2g}"))  # the estimate has no more than two figures
    blocks = f"{more:,} more block{'' if more == 1 else 's'}"
    return f"; about {blocks} would give ± {half_width}"


def contrast_sentence(contrast: Contrast, name: ArmNames) -> str:
    """Write that two arms are no fair pair, with the reason."""
    base = f"{name(contrast.baseline)}{name.where}"
    return (
        f"{name(contrast.arm)} and {base} are not compared (different mathematics: "
        f"{contrast.mathematics})"
    )


def best_sentence(summary: ReportSummary, name: ArmNames) -> str:
    """Write the best config, or the size of the Pareto front; empty if there is none.

    Energies of unlike scopes are not comparable: each scope has a best config of its own.
    """
    front = summary.front
    if not front.points:
        return ""
    aims = joined([f"{metric} ({aim})" for metric, aim in front.objectives.items()])
    kinds = energy_kinds(summary)
    by_kind = f", each kind of energy separately ({joined(kinds)})" if len(kinds) > 1 else ""
    if len(front.objectives) > 1:
        arms = joined(sorted({name(point.arm) for point in front.points}))
        number_of = f"{len(front.points)} of {front.tried} configs × arms"
        return f"Pareto-best in {aims}{by_kind}: {number_of}, on {arms}"
    first = {point.scope: point for point in reversed(front.points)}
    texts = [_best(first[scope], name, kinds) for scope in sorted(first)]
    return f"best in {aims} of {front.tried} configs × arms{by_kind}: {'; '.join(texts)}"


def _best(point: ParetoPoint, name: ArmNames, kinds: Sequence[str]) -> str:
    values = joined([f"{metric} {number(value)}" for metric, value in point.values.items()])
    of = f" of {point.scope or ABSENT}" if len(kinds) > 1 else ""
    return f"{values}{of}, in block {point.block}, {name(point.arm)}"


def energy_kinds(summary: ReportSummary) -> list[str]:
    """Return the scopes of the energies on the front; unlike scopes are not comparable."""
    return sorted({point.scope or ABSENT for point in summary.front.points})


def kernel_text(asked: str, ran: str) -> str:
    """Write `portable`, or `portable, requested cudnn`."""
    return ran if ran == asked else f"{ran}, requested {asked}"


def scope_notes(summary: ReportSummary) -> list[str]:
    """Write the scope of the verdicts: the configs tried, and missing trials."""
    notes = []
    fair = [(fair.speedup, accuracy_of(fair)) for fair in summary.comparisons]
    other = [(c.time_ratio, c.accuracy_difference) for c in summary.different_mathematics]
    if any(any(estimates) for estimates in (*fair, *other)):
        notes.append(
            f"Over the configs tried, not over all configs: {ranges_text(summary.configs)}."
        )
    trials = summary.sweep.trials
    if trials.missing:
        expected = count(trials.expected, "trial")
        notes.append(f"The sweep is incomplete: {trials.missing} of {expected} missing.")
    return notes


def mathematics_text(arms: Mapping[str, str]) -> str:
    """Write `tensorflow/portable+relu (activation relu)`, for arms by name."""
    return ", ".join(f"{name} ({differs})" for name, differs in arms.items())


def ranges_text(configs: Iterable[ParamRange]) -> str:
    """Write `batch_size 32–64, units 16–128, cell gru or lstm`."""
    return ", ".join(f"{param.name} {_range_text(param)}" for param in configs)


def accuracy_text(comparison: Comparison | Contrast) -> str:
    """Write the difference in val_accuracy, with the number of its blocks if that differs."""
    estimate = accuracy_of(comparison)
    if estimate is None or estimate.n == len(comparison.pairs):
        return difference(estimate)
    return f"{difference(estimate)}, {count(estimate.n, 'block')}"


def accuracy_of(comparison: Comparison | Contrast) -> Estimate | None:
    """Return the mean difference in val_accuracy with its plain interval."""
    if isinstance(comparison, Contrast):
        return comparison.accuracy_difference
    return comparison.accuracy.difference if comparison.accuracy else None


def _range_text(param: ParamRange) -> str:
    if param.low is None or param.high is None:
        return " or ".join(param.values)
    if param.low == param.high:
        return number(param.low)
    return f"{number(param.low)}–{number(param.high)}"
