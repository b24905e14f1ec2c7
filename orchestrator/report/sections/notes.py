"""The notes under the comparisons: their rules, and the blocks that they cover."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from orchestrator.analysis.comparisons.accuracy import AccuracyComparison
from orchestrator.analysis.pairing.complete_rounds import BlockGap
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS
from orchestrator.analysis.statistics.formatting import count, joined, number, share
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.wording.sentences import ArmNames

_TIMED = {"step_ms": "time per training step", "train_s": "training time"}
_DAY_S = 86_400.0


def speed_notes(summary: ReportSummary) -> list[str]:
    """Explain how speed is measured, and how a verdict is derived from an interval."""
    if not summary.time_metric:
        if summary.comparisons and summary.complete_blocks:
            return ["No speeds to compare: neither step_ms nor train_s was recorded on two arms."]
        return []
    notes = [
        f"Speed is {_TIMED[summary.time_metric]} ({summary.time_metric}): the geometric mean "
        "of the ratios within blocks, repeats averaged first, with a 95 % t interval on the "
        "log-ratios."
    ]
    if summary.comparisons:
        margin = share(summary.comparisons[0].margin)
        notes.append(
            f"A verdict needs at least {MIN_BLOCKS} blocks; if more than a third are disturbed, "
            "only quiet ones count. The verdict is same if the whole interval lies within "
            f"{margin} of 1. Otherwise it is faster or slower if the interval excludes 1."
        )
    return [*notes, *_correction(summary)]


def _correction(summary: ReportSummary) -> list[str]:
    """Explain the correction for several comparisons, and for stopping by the intervals' width."""
    notes = []
    judged = sum(comparison.confidence is not None for comparison in summary.comparisons)
    if judged > 1:
        notes.append(
            f"Verdicts use the corrected intervals, which allow for {judged} comparisons (Holm's "
            "procedure, separately for differences and for tests of sameness). Among them a wrong "
            "faster or slower occurs in at most 5 % of sweeps, and a wrong same in at most 2.5 %. "
            "This covers these speed-ups only. Accuracies, each ranking, the times to each "
            "target, and break-evens of compiling are corrected separately, so a whole report "
            "may contain more errors."
        )
    plain = max(
        (comparison.plain_confidence for comparison in summary.comparisons), default=CONFIDENCE
    )
    if plain > CONFIDENCE:
        notes.append(
            "The sweep adds blocks until its intervals are narrow enough. They are computed at "
            f"{share(plain)}, so that 95 % of the intervals at which it stops are right."
        )
    return notes


def accuracy_note(accuracy: AccuracyComparison | None) -> str:
    """Explain how accuracies are compared; without a comparison there is no verdict."""
    text = (
        "Δ val_accuracy is the arm's minus the baseline's, averaged over blocks with a 95 % t "
        "interval"
    )
    if accuracy is None:
        return f"{text}; an interval that includes 0 does not show that they are equal."
    text += (
        ". The accuracies are equal if the whole corrected interval lies within "
        f"{number(accuracy.margin)} of 0 (two one-sided tests); an interval that only includes 0 "
        "does not show that."
    )
    if accuracy.step is None:
        return text
    return f"{text} That is one validation sample, because the margin of the spec is narrower."


def contrast_note(summary: ReportSummary, baseline: str) -> str:
    """Explain why there is a ratio and no verdict."""
    text = (
        f"These arms compute something else than {baseline}. The ratio of its time to theirs is "
        "therefore not a speed-up at the same work."
    )
    if summary.time_metric is None:
        return text
    return f"{text} It is calculated from {summary.time_metric} like a speed-up."


def block_notes(summary: ReportSummary, name: ArmNames) -> list[str]:
    """List the blocks and arms that the figures cover, and those that are excluded."""
    notes = []
    if summary.gaps:
        total = len(summary.complete_blocks) + len(summary.gaps)
        notes.append(
            f"{len(summary.complete_blocks)} of {count(total, 'block')} complete on every arm; "
            f"excluded: {_gaps_text(summary.gaps, name)}."
        )
    if summary.set_aside and summary.trials:
        arms = joined([name(arm) for arm in summary.set_aside])
        notes.append(f"Not compared, because no trial is complete: {arms}.")
    if summary.former:
        former = joined([name(arm) for arm in summary.former])
        notes.append(
            f"The last start of the sweep did not include {former}: compared over the rounds that "
            "the other arms completed, too."
        )
    return [*notes, *_torn(summary), *_split(summary), *_far_apart(summary)]


def _torn(summary: ReportSummary) -> list[str]:
    """Report rounds whose arms were timed in slices, but not in turns."""
    torn = max((comparison.not_interleaved_rounds for comparison in summary.comparisons), default=0)
    if not torn:
        return []
    return [
        f"{count(torn, 'round')} {'is' if torn == 1 else 'are'} excluded, because the arms did not "
        "take turns. The next start of the sweep re-runs such rounds."
    ]


def _split(summary: ReportSummary) -> list[str]:
    """Report rounds whose arms ran on different nodes of one class."""
    split, rounds = summary.validity.split_rounds, summary.validity.rounds
    if not split:
        return []
    return [
        f"In {split} of {count(rounds, 'round')} arms of one hardware class ran on different "
        "nodes, for example after a node was lost. Differences between these nodes affect their "
        "ratios."
    ]


def _far_apart(summary: ReportSummary) -> list[str]:
    """Report blocks whose trials ran on different days."""
    starts: dict[int, list[float]] = defaultdict(list)
    for trial in summary.trials:
        if trial.status == "complete" and trial.started_s > 0:
            starts[trial.block].append(trial.started_s)
    spans = [max(starts[b]) - min(starts[b]) for b in summary.complete_blocks if b in starts]
    long_spans = [span for span in spans if span > _DAY_S]
    if not long_spans:
        return []
    return [
        f"In {len(long_spans)} of {count(len(summary.complete_blocks), 'block')} trials started "
        f"more than a day apart, at most {number(round(max(long_spans) / _DAY_S, 1))} days. "
        "Changes in between may affect their ratios."
    ]


def _gaps_text(gaps: Iterable[BlockGap], name: ArmNames) -> str:
    """Write `3 blocks (tensorflow/cudnn failed), 1 block (…)`."""
    counts = Counter(gap.missing for gap in gaps)
    return ", ".join(
        f"{count(n, 'block')} ({_missing_text(missing, name)})"
        for missing, n in counts.most_common()
    )


def _missing_text(missing: tuple[tuple[Arm, str], ...], name: ArmNames) -> str:
    if not missing:
        return "no trial complete"
    reasons: dict[str, list[str]] = {}
    for arm, reason in missing:
        reasons.setdefault(reason.replace("_", " "), []).append(name(arm))
    return "; ".join(f"{joined(arms)} {reason}" for reason, arms in reasons.items())
