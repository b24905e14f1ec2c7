"""The sentences of a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.arms.pareto import Point
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
from orchestrator.core.arms import RequestedArm
from orchestrator.core.trial import Arm


@dataclass(frozen=True, slots=True)
class ArmNames:
    """Names arms: without their hardware where the whole sweep stands on one."""

    hardware: str | None

    def __call__(self, arm: Arm | RequestedArm) -> str:
        """`tensorflow/cudnn`, or `tensorflow/cudnn on NVIDIA H200`."""
        return arm.implementation if str(arm.hardware) == self.hardware else str(arm)

    @property
    def where(self) -> str:
        """` on AMD EPYC, 2 CPUs` where every arm stands there, else nothing."""
        return f" on {self.hardware}" if self.hardware else ""


def arm_names(summary: ReportSummary) -> ArmNames:
    """How the arms of this sweep are named."""
    hardware = {str(found.arm.hardware) for found in summary.arms}
    hardware = hardware or {each.arm.hardware for each in summary.impossible}
    return ArmNames(hardware.pop() if len(hardware) == 1 else None)


def verdict_sentence(comparison: Comparison, name: ArmNames) -> str:
    """What is known of one arm against its baseline, with its interval and its blocks.

    The interval is the corrected one, from which the verdict was read, where there is one.
    """
    arm = name(comparison.arm)
    if comparison.baseline is None:
        return f"{arm} is compared with nothing: {comparison.reason}"
    base = f"{name(comparison.baseline)}{name.where}"
    shown = comparison.corrected or comparison.speedup
    over = _over(comparison)
    if comparison.verdict == "same":
        within = f"{share(comparison.margin)} ({ratio_interval(shown)})"
        return f"{arm} and {base} are equally fast within {within}{over}{_accuracy(comparison)}"
    if comparison.verdict != "inconclusive":
        return f"{arm} is {ratio(shown)} as fast as {base}{over}{_accuracy(comparison)}"
    told = f"cannot tell whether {arm} is faster or slower than {base}"
    if shown is None:
        return f"{told} ({comparison.reason})"
    if comparison.corrected is None:
        noise = f"; disturbed: {comparison.disturbance}" if comparison.disturbance else ""
        why = f"({comparison.reason}{noise})"
        return f"{told}: {ratio(shown)} as fast {why}{_accuracy(comparison)}"
    more = _blocks_needed(comparison)
    return f"{told}: {ratio(shown)} as fast{over}{_accuracy(comparison)}{more}"


def _over(comparison: Comparison) -> str:
    """`, over 8 blocks`, with what is unusual about them."""
    told = f", over {count(len(comparison.pairs), 'block')}"
    if len(set(comparison.measures)) > 1:
        told = f", by time per step alone (timed in slices against whole trainings){told}"
    disturbed = len(comparison.disturbed_blocks)
    if not disturbed:
        return told
    if comparison.quiet_only:
        return f"{told} (quiet rounds only: {count(disturbed, 'block')} had a disturbed one)"
    return f"{told} ({disturbed} of them disturbed: {comparison.disturbance})"


def _accuracy(comparison: Comparison) -> str:
    """What is known of the accuracy beside a verdict of speed; a claim only where it is shown."""
    found = comparison.accuracy
    if found is None or found.corrected is None:
        return ""
    blocks = "" if found.difference.n == len(comparison.pairs) else f" over {found.difference.n}"
    shown = f"difference {difference_interval(found.corrected)}{blocks and blocks + ' blocks'}"
    within = f"({shown}, within {number(found.margin)})"
    alike = comparison.verdict in ("same", "inconclusive")
    if found.verdict == "equal":
        gain = comparison.verdict == "faster"
        return f"{', and costs no accuracy' if gain else '; their accuracies are equal'} {within}"
    if found.verdict == "inconclusive":
        why = f"{found.reason}; " if found.diverged or found.baseline_diverged else ""
        step = f", one sample {number(found.step)}" if found.step else ""
        shown = f"{why}{shown}, margin {number(found.margin)}{step}"
        return f"; cannot tell whether it costs accuracy ({shown})"
    return f"{'; the former' if alike else ', and'} is {_MORE[found.verdict]} accurate ({shown})"


_MORE = {"better": "more", "worse": "less"}


def _blocks_needed(comparison: Comparison) -> str:
    """What would tell."""
    found = comparison.blocks_needed
    if found is None:
        return ""
    half_width = share(math.expm1(found.half_width))
    more = int(float(f"{found.more_blocks:.2g}"))  # an outlook has no more figures than that
    blocks = f"{more:,} more block{'' if more == 1 else 's'}"
    return f"; about {blocks} would give ± {half_width}"


def contrast_sentence(contrast: Contrast, name: ArmNames) -> str:
    """That two arms are no fair pair, and why."""
    base = f"{name(contrast.baseline)}{name.where}"
    return (
        f"{name(contrast.arm)} is no fair pair with {base} (different mathematics: "
        f"{contrast.mathematics})"
    )


def best_sentence(summary: ReportSummary, name: ArmNames) -> str:
    """The best config, or how many share the front; empty where there is none.

    Energies of unlike kinds have each their own best: it says so, and names no best of all.
    """
    front = summary.front
    if not front.points:
        return ""
    aims = joined([f"{metric} ({aim})" for metric, aim in front.objectives.items()])
    kinds = energy_kinds(summary)
    apart = f", each kind of energy by itself ({joined(kinds)})" if len(kinds) > 1 else ""
    if len(front.objectives) > 1:
        arms = joined(sorted({name(point.arm) for point in front.points}))
        found = f"{len(front.points)} of {front.tried} configs × arms"
        return f"Pareto-best in {aims}{apart}: {found}, on {arms}"
    first = {point.scope: point for point in reversed(front.points)}
    told = [_best(first[scope], name, kinds) for scope in sorted(first)]
    return f"best in {aims} of {front.tried} configs × arms{apart}: {'; '.join(told)}"


def _best(point: Point, name: ArmNames, kinds: Sequence[str]) -> str:
    values = joined([f"{metric} {number(value)}" for metric, value in point.values.items()])
    of = f" of {point.scope or ABSENT}" if len(kinds) > 1 else ""
    return f"{values}{of}, in block {point.block}, {name(point.arm)}"


def energy_kinds(summary: ReportSummary) -> list[str]:
    """What the energies on the front are that of; unlike ones are not to be compared."""
    return sorted({point.scope or ABSENT for point in summary.front.points})


def kernel_text(asked: str, ran: str) -> str:
    """`portable`, or `portable, asked cudnn`."""
    return ran if ran == asked else f"{ran}, asked {asked}"


def scope_notes(summary: ReportSummary) -> list[str]:
    """What the verdicts hold for: the configs tried, and how much of the sweep is in."""
    notes = []
    fair = [(each.speedup, accuracy_of(each)) for each in summary.comparisons]
    other = [(each.time_ratio, each.accuracy_difference) for each in summary.different_mathematics]
    if any(any(estimates) for estimates in (*fair, *other)):
        notes.append(
            f"Over the configs tried, not over all configs: {ranges_text(summary.configs)}."
        )
    trials = summary.sweep.trials
    if trials.missing:
        notes.append(
            f"Not the whole sweep: {trials.missing} of {count(trials.expected, 'trial')} missing."
        )
    return notes


def mathematics_text(arms: Mapping[str, str]) -> str:
    """`tensorflow/portable+relu (activation relu)`, for arms by name."""
    return ", ".join(f"{name} ({differs})" for name, differs in arms.items())


def ranges_text(configs: Iterable[ParamRange]) -> str:
    """`batch_size 32–64, units 16–128, cell gru or lstm`."""
    return ", ".join(f"{param.name} {_range_text(param)}" for param in configs)


def accuracy_text(comparison: Comparison | Contrast) -> str:
    """The difference in val_accuracy, with the number of its blocks."""
    found = accuracy_of(comparison)
    if found is None or found.n == len(comparison.pairs):
        return difference(found)
    return f"{difference(found)}, {count(found.n, 'block')}"


def accuracy_of(comparison: Comparison | Contrast) -> Estimate | None:
    """The mean difference in val_accuracy with its plain interval."""
    if isinstance(comparison, Contrast):
        return comparison.accuracy_difference
    return comparison.accuracy.difference if comparison.accuracy else None


def _range_text(param: ParamRange) -> str:
    if param.low is None or param.high is None:
        return " or ".join(param.values)
    if param.low == param.high:
        return number(param.low)
    return f"{number(param.low)}–{number(param.high)}"
