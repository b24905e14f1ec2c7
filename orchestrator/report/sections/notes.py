"""The notes under the comparisons: by which rules, and over which blocks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from orchestrator.analysis.pairing.complete_rounds import BlockGap
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS
from orchestrator.analysis.statistics.formatting import count, joined, number, share
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.trial import Arm
from orchestrator.report.wording.sentences import ArmNames

_TIMED = {"step_ms": "time per training step", "train_s": "training time"}
_DAY_S = 86_400.0


def speed_notes(summary: ReportSummary) -> list[str]:
    """How speed is measured, what its intervals are, and how a verdict is read from them."""
    if not summary.time_metric:
        if summary.comparisons and summary.complete_blocks:
            return ["Neither step_ms nor train_s was recorded on two arms: no speed to compare."]
        return []
    notes = [
        f"Speed is {_TIMED[summary.time_metric]} ({summary.time_metric}): the geometric mean "
        "of the ratios within blocks, repeats averaged first, with a 95 % t interval on the "
        "log-ratios."
    ]
    if summary.comparisons:
        margin = share(summary.comparisons[0].margin)
        notes.append(
            f"A verdict needs {MIN_BLOCKS} blocks, and quiet ones where more than a third were "
            f"disturbed. An interval wholly within {margin} of 1 is the same, whatever else it "
            "excludes; else one without 1 is faster or slower."
        )
    return [*notes, *_correction(summary)]


def _correction(summary: ReportSummary) -> list[str]:
    """How intervals allow for there being several, and for a sweep that stopped by their width."""
    notes = []
    judged = sum(each.confidence is not None for each in summary.comparisons)
    if judged > 1:
        notes.append(
            f"Verdicts are read from the corrected intervals, which allow for {judged} comparisons "
            "(Holm's procedure, over the differences and over the tests of sameness): a wrong "
            "faster or slower among them in at most 5 % of sweeps, a wrong same in at most 2.5 %. "
            "That is of these speed-ups: the accuracies, each ranking, each kind of expense to "
            "each target, and what compiling pays are allowed for by themselves, so that more may "
            "be wrong in a whole report."
        )
    plain = max((each.plain_confidence for each in summary.comparisons), default=CONFIDENCE)
    if plain > CONFIDENCE:
        notes.append(
            "The sweep adds blocks until its intervals are narrow enough: they are made at "
            f"{share(plain)}, so that 95 % of those it stops at are right."
        )
    return notes


def accuracy_note(margin: float | None) -> str:
    """How accuracies are compared; what has no margin has no verdict."""
    told = (
        "Δ val_accuracy is the arm's minus the baseline's, averaged over blocks with a 95 % t "
        "interval"
    )
    if margin is None:
        return f"{told}; an interval that includes 0 does not show that they are equal."
    return (
        f"{told}. Equal is a corrected interval wholly within {number(margin)} of 0 (two one-sided "
        "tests); one that only includes 0 does not show that they are equal."
    )


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
    if summary.former:
        former = joined([name(arm) for arm in summary.former])
        notes.append(
            f"The last start was not to run {former}: compared over those of their rounds "
            "that the other arms completed too."
        )
    return [*notes, *_torn(summary), *_split(summary), *_far_apart(summary)]


def _torn(summary: ReportSummary) -> list[str]:
    """That arms were timed in slices, but not in turns with those they are compared with."""
    torn = max((each.not_interleaved_rounds for each in summary.comparisons), default=0)
    if not torn:
        return []
    return [
        f"{count(torn, 'round')} {'was' if torn == 1 else 'were'} not timed together, and left out:"
        " its arms did not take turns. The next start of the sweep times them again."
    ]


def _split(summary: ReportSummary) -> list[str]:
    """That trials which are compared were run on different nodes of one class."""
    split, rounds = summary.validity.split_rounds, summary.validity.rounds
    if not split:
        return []
    return [
        f"In {split} of {count(rounds, 'round')} arms of one hardware class ran on different "
        "nodes, as where a node is lost between them: what these differ in stands in their ratios."
    ]


def _far_apart(summary: ReportSummary) -> list[str]:
    """That trials which are compared were run on different days."""
    starts: dict[int, list[float]] = defaultdict(list)
    for trial in summary.trials:
        if trial.status == "complete" and trial.started_s > 0:
            starts[trial.block].append(trial.started_s)
    spans = [max(starts[b]) - min(starts[b]) for b in summary.complete_blocks if b in starts]
    apart = [span for span in spans if span > _DAY_S]
    if not apart:
        return []
    return [
        f"In {len(apart)} of {count(len(summary.complete_blocks), 'block')} trials lie more than a "
        f"day apart, at most {number(round(max(apart) / _DAY_S, 1))} days: what changed in between "
        "may stand in their ratios."
    ]


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
