"""The sentences of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.report.blocks import BlockGap, ParamRange
from orchestrator.report.comparison import Comparison, Contrast
from orchestrator.report.numbers import count, difference, joined, number, ratio
from orchestrator.report.statistics import MIN_BLOCKS, Estimate
from orchestrator.report.summary import ReportSummary
from orchestrator.trial import Arm

_TIMED = {"step_ms": "time per training step", "train_s": "training time"}


@dataclass(frozen=True, slots=True)
class ArmNames:
    """Names arms: without their hardware where the whole sweep stands on one."""

    hardware: str | None

    def __call__(self, arm: Arm) -> str:
        """`tensorflow/cudnn`, or `tensorflow/cudnn on NVIDIA H200`."""
        return arm.implementation if arm.hardware == self.hardware else str(arm)

    @property
    def where(self) -> str:
        """` on AMD EPYC, 2 CPUs` where every arm stands there, else nothing."""
        return f" on {self.hardware}" if self.hardware else ""


def arm_names(summary: ReportSummary) -> ArmNames:
    """How the arms of this sweep are named."""
    arms = [found.arm for found in summary.arms] or [i.arm for i in summary.impossible]
    hardware = {arm.hardware for arm in arms}
    return ArmNames(hardware.pop() if len(hardware) == 1 else None)


def verdict_sentence(comparison: Comparison, name: ArmNames) -> str:
    """What is known of one arm against its baseline, with its interval and its blocks."""
    arm = name(comparison.arm)
    if comparison.baseline is None:
        return f"{arm} is compared with nothing: {comparison.reason}"
    base = f"{name(comparison.baseline)}{name.where}"
    if comparison.verdict != "cannot tell":
        over = count(len(comparison.pairs), "block")
        return f"{arm} is {ratio(comparison.speedup)} as fast as {base}, over {over}"
    told = f"cannot tell whether {arm} is faster or slower than {base}"
    if comparison.speedup is None:
        return f"{told} ({comparison.reason})"
    if len(comparison.pairs) < MIN_BLOCKS:
        return f"{told}: {ratio(comparison.speedup)} as fast ({comparison.reason})"
    return (
        f"{told}: {ratio(comparison.speedup)} as fast, over {count(comparison.speedup.n, 'block')}"
    )


def contrast_sentence(contrast: Contrast, name: ArmNames) -> str:
    """That two arms are no fair pair, and why."""
    base = f"{name(contrast.baseline)}{name.where}"
    return (
        f"{name(contrast.arm)} is no fair pair with {base} (different mathematics: "
        f"{contrast.mathematics})"
    )


def best_sentence(summary: ReportSummary, name: ArmNames) -> str:
    """The best config, or how many share the front; empty where there is none."""
    front = summary.front
    if not front.points:
        return ""
    aims = joined([f"{metric} ({aim})" for metric, aim in front.objectives.items()])
    if len(front.objectives) > 1:
        arms = joined(sorted({name(point.arm) for point in front.points}))
        found = f"{len(front.points)} of {front.tried} configs × arms"
        return f"Pareto-best in {aims}: {found}, on {arms}"
    point = front.points[0]
    values = joined([f"{metric} {number(value)}" for metric, value in point.values.items()])
    where = f"block {point.block}, {name(point.arm)}"
    return f"best in {aims} of {front.tried} configs × arms: {values}, in {where}"


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


def speed_notes(summary: ReportSummary) -> list[str]:
    """How speed is measured, and what its intervals are."""
    notes = []
    if summary.time_metric:
        notes.append(
            f"Speed is {_TIMED[summary.time_metric]} ({summary.time_metric}): the geometric mean "
            "of the ratios within blocks, repeats averaged first, with a 95 % t interval on the "
            f"log-ratios; a verdict needs {MIN_BLOCKS} blocks and an interval without 1."
        )
    elif summary.comparisons and summary.complete_blocks:
        notes.append("Neither step_ms nor train_s was recorded on two arms: no speed to compare.")
    if len(summary.comparisons) > 1:
        notes.append("Each interval stands alone: none is corrected for several comparisons.")
    return notes


def contrast_note(summary: ReportSummary, baseline: str) -> str:
    """Why there is a ratio and no verdict."""
    told = (
        f"What these arms compute is not what {baseline} computes: the ratio of its time to theirs "
        "says nothing of the same work."
    )
    if summary.time_metric is None:
        return told
    return f"{told} It is made from {summary.time_metric} as a speed-up is."


def block_notes(summary: ReportSummary, name: ArmNames) -> list[str]:
    """Which blocks and arms what is measured rests on, and which were left out."""
    notes = []
    if summary.gaps:
        total = len(summary.complete_blocks) + len(summary.gaps)
        notes.append(
            f"{len(summary.complete_blocks)} of {count(total, 'block')} complete on every arm; "
            f"left out: {_gaps_text(summary.gaps, name)}."
        )
    if summary.set_aside and summary.trials:
        arms = joined([name(arm) for arm in summary.set_aside])
        notes.append(f"Set aside, for want of any complete trial: {arms}.")
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


def _gaps_text(gaps: Iterable[BlockGap], name: ArmNames) -> str:
    """`3 blocks (tensorflow/cudnn failed), 1 block (…)`."""
    counts = Counter(gap.missing for gap in gaps)
    return ", ".join(
        f"{count(n, 'block')} ({_missing_text(missing, name)})"
        for missing, n in counts.most_common()
    )


def _missing_text(missing: tuple[tuple[Arm, str], ...], name: ArmNames) -> str:
    if not missing:
        return "no trial complete"
    reasons: dict[str, list[str]] = {}
    for arm, why in missing:
        reasons.setdefault(why.replace("_", " "), []).append(name(arm))
    return "; ".join(f"{joined(arms)} {why}" for why, arms in reasons.items())
