"""The section on speed: every arm against its baseline, with verdicts."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS
from orchestrator.analysis.statistics.formatting import (
    natural,
    number,
    ratio,
    share,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.text import counted, is_or_are, joined
from orchestrator.report.document import Bullet, Column, Kind, Section, Table, make_table
from orchestrator.report.verdicts import (
    QUALIFIERS,
    WORDS,
    speed_ratio,
    verdict_label,
    verdict_sentence,
)
from orchestrator.report.wording import (
    ArmNames,
    config_or_repeat,
    deciding_interval,
    grouped,
)

_MOST_NAMED = 8
"""The most comparisons that get a sentence each; the table has all."""

_DAY_S = 86_400.0

_TIMES = {
    "step_ms": "time per training step",
    "sample_us": "time per sample",
    "predict_ms": "time of the prediction of a batch",
    "predict_sample_us": "time per sample of a prediction",
    "train_s": "training time",
}


def speed_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Compare the speed of every arm with its baseline's."""
    comparisons = summary.comparisons
    if not comparisons or summary.baseline is None:
        return None
    columns: list[Column[Comparison]] = [
        *compared_columns(summary, name),
        Column("speed-up (95 % CI)", deciding_interval, show=speed_ratio, numeric=True),
        Column(f"{comparisons[0].unit}s", lambda comparison: len(comparison.pairs)),
        Column("verdict", verdict_label),
    ]
    named = comparisons if len(comparisons) <= _MOST_NAMED else ()
    return Section(
        f"Speed-up over {baseline_name(summary, name)}",
        bullets=tuple(Bullet(Kind(c.verdict), verdict_sentence(c, name)) for c in named),
        tables=(make_table(columns, comparisons), *_matrix(summary, name)),
        paragraphs=tuple(_notes(summary, name)),
        explanations=tuple(_explanations(summary)),
    )


def compared_columns(summary: ReportSummary, name: ArmNames) -> list[Column[Comparison]]:
    """Return the first columns of a table of comparisons: the arm and, of variants, the other."""
    arm: Column[Comparison] = Column("arm", lambda comparison: name(comparison.arm))
    reference: Column[Comparison] = Column("baseline", lambda comparison: over(comparison, name))
    return [arm, reference] if summary.models else [arm]


def over(comparison: Comparison, name: ArmNames) -> str | None:
    """Return what an arm is compared with: the other variant, or its baseline."""
    base = comparison.baseline
    if base is None:
        return None
    if comparison.is_of_variants:
        return base.variant_name
    if base.hardware == comparison.arm.hardware:
        return base.implementation
    is_same_otherwise = base.short_name == comparison.arm.short_name
    return name.place(base.hardware) if is_same_otherwise else name(base)


def baseline_name(summary: ReportSummary, name: ArmNames) -> str:
    """Return the name of the baseline; empty if no arm can run."""
    base = summary.baseline
    if base is None:
        return ""
    place = " on the same hardware" if base.scope == "same hardware" else ""
    return next((name(a) for a in base.of.values() if str(a) == base.name), base.name) + place


def _matrix(summary: ReportSummary, name: ArmNames) -> list[Table]:
    """Show the verdict of each implementation by hardware class, if there are several."""
    rows = {(row.arm.short_name, row.arm.hardware): row for row in summary.arms}
    comparisons = {comparison.arm: comparison for comparison in summary.comparisons}
    places = dict.fromkeys(place for _, place in rows)
    if len(places) < 2:
        return []

    def cell(place: HardwareUse, implementation: str) -> str | None:
        row = rows.get((implementation, place))
        if row is None:
            return None
        comparison = comparisons.get(row.arm)
        if comparison is None:
            return row.verdict
        speedup, verdict = deciding_interval(comparison), verdict_label(comparison)
        return f"{ratio(natural(speedup))} {verdict}" if speedup else verdict

    columns: list[Column[str]] = [Column("implementation", str)]
    columns += [Column(name.place(place), partial(cell, place)) for place in places]
    return [make_table(columns, dict.fromkeys(arm for arm, _ in rows))]


def _explanations(summary: ReportSummary) -> Iterator[str]:
    """Explain how speeds are compared, and what a verdict means."""
    comparisons, metric = summary.comparisons, summary.time_metric
    either = f"{WORDS['faster']} or {WORDS['slower']}"
    if metric:
        yield (
            f"Speed is {_TIMES[metric]} ({metric}): the geometric mean of the ratios within "
            "blocks, repeats averaged first, with a 95 % t interval on the log-ratios."
        )
        yield (
            f"A verdict needs at least {MIN_BLOCKS} blocks. With one config alone it needs "
            f"{MIN_BLOCKS} repeats, and is about that config. Only undisturbed rounds count if "
            f"they are of {MIN_BLOCKS} blocks; otherwise all count, and the verdict is marked "
            f"{QUALIFIERS['busy']}. The verdict is same if the whole interval lies within "
            f"{share(comparisons[0].margin)} of 1. Otherwise it is {either} if the interval "
            "excludes 1."
        )
        judged = sum(comparison.confidence is not None for comparison in comparisons)
        if judged > 1:
            yield (
                f"The intervals allow for {judged} comparisons at once (Holm's procedure, "
                "separately for differences and for tests of sameness). Among them a wrong "
                f"{either} "
                "occurs in at most 5 % of sweeps, and a wrong same in at most 2.5 %. "
                "This covers these speed-ups only. Accuracies, each ranking, and break-evens of "
                "compiling are families of their own, so a whole report may contain more errors."
            )
        plain_confidence = max(comparison.plain_confidence for comparison in comparisons)
        if plain_confidence > CONFIDENCE:
            yield (
                "The sweep adds blocks until its intervals are narrow enough. They are computed at "
                f"{share(plain_confidence)}, so that 95 % of the intervals at which it stops are "
                "right."
            )
    if summary.models:
        yield (
            "An arm of another variant is compared with the baseline's variant on its own "
            "implementation and hardware, so that the two differ in one way only. Variants that "
            "differ in their settings are different models."
        )


def _notes(summary: ReportSummary, name: ArmNames) -> Iterator[str]:
    """List the blocks and arms that the figures cover, and those that are excluded."""
    if not summary.time_metric and summary.complete_blocks:
        yield "No speeds to compare: step_ms, predict_ms or train_s was not recorded on two arms."
    yield from _excluded_blocks(summary, name)
    if summary.former:
        former = joined([name(arm) for arm in summary.former])
        yield (
            f"The last start of the sweep did not include {former}: compared over what the other "
            "arms completed, too."
        )
    yield from _unlike_rounds(summary)


def _excluded_blocks(summary: ReportSummary, name: ArmNames) -> Iterator[str]:
    set_aside = [name(arm) for arm in summary.set_aside] if summary.trials else []
    if summary.gaps:
        complete = len(summary.complete_blocks)
        every = counted(complete + len(summary.gaps), "config")
        arms = "every arm that has a complete trial" if set_aside else "every arm"
        missing = Counter(gap.missing for gap in summary.gaps).most_common()
        excluded = [
            f"{counted(configs, 'config')} ({_missing(arms_and_reasons, name)})"
            for arms_and_reasons, configs in missing
        ]
        yield (
            f"{complete} of {every} {is_or_are(complete)} complete on {arms}; excluded: "
            f"{', '.join(excluded)}."
        )
    if set_aside:
        yield f"Not compared, because no trial is complete: {joined(set_aside)}."


def _missing(missing: tuple[tuple[Arm, str], ...], name: ArmNames) -> str:
    """Write what arms lack, by reason: `A and B failed; C time limit`."""
    reasons = grouped((reason.replace("_", " "), name(arm)) for arm, reason in missing)
    texts = (f"{joined(arms)} {reason}" for reason, arms in reasons.items())
    return "; ".join(texts) or "no trial complete"


def _unlike_rounds(summary: ReportSummary) -> Iterator[str]:
    """Write in which rounds arms did not take turns, ran on other nodes, or on other days."""
    unit = config_or_repeat(summary)
    not_interleaved = max((c.not_interleaved_rounds for c in summary.comparisons), default=0)
    if not_interleaved:
        yield (
            f"{counted(not_interleaved, unit)} {is_or_are(not_interleaved)} excluded, because the "
            "arms did not take turns. The next start of the sweep measures them again."
        )
    validity = summary.validity
    if validity.split_rounds:
        yield (
            f"In {validity.split_rounds} of {counted(validity.rounds, unit)} arms of one hardware "
            "class ran on different nodes, for example after a node was lost. Differences between "
            "these nodes affect their ratios."
        )
    days = _days_apart(summary)
    if days:
        configs = counted(len(summary.complete_blocks), "config")
        yield (
            f"In {len(days)} of {configs} trials started more than a day apart, at most "
            f"{number(max(days))} days. Changes in between may affect their ratios."
        )


def _days_apart(summary: ReportSummary) -> list[float]:
    """Return the days between trials of a block, for each block that took more than a day."""
    starts: dict[int, list[float]] = defaultdict(list)
    for trial in summary.trials:
        if trial.status == "complete" and trial.started_s > 0:
            starts[trial.block].append(trial.started_s)
    spans = [
        max(starts[block]) - min(starts[block])
        for block in summary.complete_blocks
        if block in starts
    ]
    return [span / _DAY_S for span in spans if span > _DAY_S]
