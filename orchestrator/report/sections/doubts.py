"""What is missing or doubtful, each with the one command that cures it."""

import math
from collections.abc import Iterator

from orchestrator.analysis.arms.arm_summary import ExcludedTrials
from orchestrator.analysis.arms.mathematics import has_equal_starts
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.pairing.complete_rounds import UnitKind, typical_disturbance
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS
from orchestrator.analysis.statistics.formatting import share
from orchestrator.analysis.statistics.verdicts import BlocksNeeded, half_width_over
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.start_command import StartCommand
from orchestrator.core.text import counted, is_or_are, joined
from orchestrator.report.document import Bullet, Kind, Section
from orchestrator.report.sections.mathematics import mathematics_doubts
from orchestrator.report.verdicts import QUALIFIERS, WORDS, busy_cause
from orchestrator.report.wording import (
    ArmNames,
    about,
    arm_names,
    config_or_repeat,
    grouped,
    run_text,
    shortened,
)
from orchestrator.sampling import configs_from
from workloads.metrics import find_metric
from workloads.own_code import packages_of
from workloads.registry import has_random_data

_MEMORY = {"peak_rss_mib", "peak_gpu_mib"}

_MOST_CAUSES = 3
"""The most causes of failures that have a bullet; more are counted."""

_LONGEST_MESSAGE = 200
"""The characters of an error message that are shown."""


def doubts_section(summary: ReportSummary, _: ArmNames) -> Section | None:
    """List what is missing or doubtful."""
    return section_of_doubts(doubts(summary))


def section_of_doubts(bullets: tuple[Bullet, ...]) -> Section | None:
    """Make the section of what is missing or doubtful; None if nothing is."""
    return Section("Missing or doubtful", bullets) if bullets else None


def doubts(summary: ReportSummary) -> tuple[Bullet, ...]:
    """Write what is missing or doubtful, each with the command that cures it."""
    is_busy = any(comparison.qualifier == "busy" for comparison in summary.comparisons)
    return (
        *_missing_trials(summary),
        *_failures(summary),
        *_missing_objectives(summary),
        *mathematics_doubts(summary),
        *_busy(summary),
        *_not_interleaved(summary),
        *_few_blocks(summary, is_busy=is_busy),
        *random_data_doubts(summary),
        *_unequal_start(summary),
        *_constant_differences(summary),
        *_impossible(summary),
        *_other_baseline(summary),
        *_no_memory(summary),
    )


def random_data_doubts(summary: ReportSummary) -> Iterator[Bullet]:
    """Write that the data of an own model are random, if they are."""
    if has_random_data(summary.sweep.workload):
        yield Bullet(
            Kind.ONLY_TIMES,
            "The data are random, so there are times only. For losses and metrics, name a function"
            " that loads data (data: module:load).",
        )


def _unequal_start(summary: ReportSummary) -> Iterator[Bullet]:
    if not has_equal_starts(summary.sweep.workload, summary.sweep.settings):
        equal = summary.sweep.start.with_value("settings.weights", "equal").with_flags("--fresh")
        yield Bullet(
            Kind.UNEQUAL_START,
            "The arms of a block started from different weights (settings.weights is own), so what"
            f" they learned also differs by chance. For equal ones: {equal}",
        )


def _constant_differences(summary: ReportSummary) -> Iterator[Bullet]:
    """Write of which results the difference is the same in every config, and what that may mean."""
    name = arm_names(summary)
    by_metric = grouped(
        (result.metric, name(comparison.arm))
        for comparison in summary.comparisons
        for result in comparison.results
        if result.constant_difference
    )
    for metric, arms in by_metric.items():
        named = arms if len(arms) <= 2 else [arms[0], counted(len(arms) - 1, "other arm")]
        yield Bullet(
            Kind.CONSTANT_DIFFERENCE,
            f"{metric} of {joined(named)} differs from the baseline's by the same amount in every "
            "config, so the interval has no width. That is exact if nothing in it is by chance. "
            "But noise that is drawn from trial.seed alone is equal on all arms of a config, and "
            "is not measured then: draw it from the seed and the arm.",
        )


def _missing_trials(summary: ReportSummary) -> Iterator[Bullet]:
    trials, state = summary.sweep.trials, summary.sweep.state
    if not trials.missing:
        return
    expected = counted(trials.expected, "trial")
    text = f"{trials.missing} of {expected} {is_or_are(trials.missing)} missing"
    if state != "complete":
        text += f": the sweep is {state}"
    if state == "running":
        cure = f"Its progress: {summary.sweep.start.reading('status', summary.sweep.label)}"
    else:
        cure = f"Resume: {summary.sweep.start}"
    yield Bullet(Kind.MISSING, f"{text}. {cure}")


def _failures(summary: ReportSummary) -> Iterator[Bullet]:
    """Write the most important causes for which trials have no result, each with its arms."""
    details = f"{summary.sweep.start.reading('report', summary.sweep.label)} --section trust"
    by_cause = grouped(
        ((row.status, row.reason, row.message), row)
        for row in summary.left_out
        if row.status != "pruned"
    )
    for rows in list(by_cause.values())[:_MOST_CAUSES]:
        first, trials = rows[0], sum(row.trials for row in rows)
        arms = joined(list(dict.fromkeys(row.arm.short_name for row in rows)))
        subject = f"{counted(trials, 'trial')} of {arms}"
        if first.status == "failed":
            yield Bullet(Kind.FAILED, f"{subject} {_failed(first, _retry(summary))}")
        else:
            yield Bullet(
                Kind.WRONG_KERNEL, f"{subject} {_wrong_kernel(first, trials)}. Details: {details}"
            )
    if len(by_cause) > _MOST_CAUSES:
        others = counted(len(by_cause) - _MOST_CAUSES, "other cause")
        yield Bullet(Kind.FAILED, f"{others} of failures: {details}")


def _missing_objectives(summary: ReportSummary) -> Iterator[Bullet]:
    """Write of which objectives no complete trial has a value, and what the trials have."""
    complete = [trial.metrics for trial in summary.trials if trial.status == "complete"]
    recorded = {metric for metrics in complete for metric in metrics}
    missing = [name for name in summary.sweep.objectives if name not in recorded]
    own = sorted(name for name in recorded if find_metric(name).is_result)
    if complete and missing:
        instead = f"; their results are {joined(own)}" if own else ""
        text = f"No complete trial has the objective {joined(missing)}{instead}."
        yield Bullet(Kind.MISSING, text)


def _retry(summary: ReportSummary) -> StartCommand:
    """Return the start that runs failed trials again."""
    retry = summary.sweep.start.with_flags("--retry-failed")
    if summary.is_without_success or not packages_of(summary.sweep.workload):
        return retry
    return retry.with_flags("--same-code")  # a fix changes code that others succeeded with


def _failed(first: ExcludedTrials, retry: StartCommand) -> str:
    reason, message = first.reason.replace("_", " "), shortened(first.message, _LONGEST_MESSAGE)
    return (
        f"failed ({reason}): {message}. The first one's output is in MLflow run "
        f"{run_text(first.run_id)}. After a fix: {retry}"
    )


def _wrong_kernel(first: ExcludedTrials, trials: int) -> str:
    text = f"ran another kernel than requested, and {is_or_are(trials)} not compared"
    message = shortened(first.message, _LONGEST_MESSAGE)
    return f"{text} ({message})" if message else text


def _busy(summary: ReportSummary) -> Iterator[Bullet]:
    """Write that times on a busy machine are compared, and how to measure when it is quiet."""
    disturbances = [
        *(c.disturbance for c in summary.comparisons if c.disturbed and not c.quiet_only),
        *(ranking.disturbance for ranking in summary.rankings if ranking.disturbed),
    ]
    if not disturbances:
        return
    rounds = counted(summary.validity.rounds, config_or_repeat(summary))
    what = busy_cause(typical_disturbance(disturbances))
    text = f"The machine was busy during {summary.validity.disturbed_rounds} of {rounds} ({what})"
    marked = [c for c in summary.comparisons if c.qualifier == "busy"]
    if not marked:
        yield Bullet(Kind.BUSY, f"{text}. Accuracies are not affected.")
        return
    every = counted(len(summary.comparisons), "comparison")
    text += f": {len(marked)} of {every} {is_or_are(len(marked))} marked {QUALIFIERS['busy']}"
    quiet = min(len(c.pairs) - len(c.disturbed) for c in marked)
    cure = _measure_when_quiet(summary, quiet, marked[0].unit)
    yield Bullet(Kind.BUSY, f"{text}. Accuracies are not affected. {cure}")


def _measure_when_quiet(summary: ReportSummary, quiet: int, unit: UnitKind) -> str:
    """Suggest the cheapest re-measurement: a few more configs, or of one config more repeats.

    If there cannot be more configs, it is one more repeat of all.
    """
    sweep = summary.sweep
    arms = sum(row.arm not in summary.former for row in summary.arms)
    more = max(1, MIN_BLOCKS - quiet)
    configs = sweep.blocks + more
    can_add = configs_from(sweep.sampler) == "sampler" and not _is_auto(summary)
    if unit == "repeat":
        trials = counted(more * arms, "trial")
        start = sweep.start.with_value("repeats", sweep.repeats + more)
    elif can_add and more < sweep.blocks and (sweep.space_size or configs) >= configs:
        trials = counted(more * arms * sweep.repeats, "trial")
        start = sweep.start.with_value("search.configs", configs)
    else:
        trials = counted(sweep.blocks * arms, "trial")
        again = sweep.start.with_value("repeats", sweep.repeats + 1).when_quiet()
        every = counted(sweep.blocks, "config")
        return f"Measure all {every} again once it is quiet ({trials}): {again}"
    return (
        f"Once it is quiet, measure {counted(more, f'more {unit}')} ({trials}), for {MIN_BLOCKS} "
        f"quiet ones: {start.when_quiet()}"
    )


def _was_busy(summary: ReportSummary) -> bool:
    """Return whether more than a third of the rounds were disturbed."""
    return 3 * summary.validity.disturbed_rounds > summary.validity.rounds


def _not_interleaved(summary: ReportSummary) -> Iterator[Bullet]:
    rounds = max((c.not_interleaved_rounds for c in summary.comparisons), default=0)
    if rounds:
        text = f"In {counted(rounds, config_or_repeat(summary))} the arms did not take turns"
        cure = f"and so they are not used. Measure them again: {summary.sweep.start}"
        yield Bullet(Kind.NOT_INTERLEAVED, f"{text}, {cure}")


def _few_blocks(summary: ReportSummary, *, is_busy: bool) -> Iterator[Bullet]:
    """Write how many more configs, or repeats of the only one, a verdict needs.

    Nothing if trials are missing anyway.
    """
    if summary.sweep.trials.missing:
        return
    few = [c for c in summary.comparisons if c.baseline and not c.corrected and c.pairs]
    if few:
        configs = len(few[0].pairs)
        text = f"{counted(configs, 'config')} {is_or_are(configs)} too few for a verdict: at least"
        if summary.sweep.blocks == 1:
            repeat = _start_when_quiet(summary).with_value("repeats", MIN_BLOCKS)
            text += f" {MIN_BLOCKS}, or {MIN_BLOCKS} repeats of it, are needed. Repeat it: {repeat}"
        else:
            text += f" {MIN_BLOCKS} are needed. {_more_configs(summary, MIN_BLOCKS)}"
        yield Bullet(Kind.INCONCLUSIVE, text)
        return
    needs = [(c, c.blocks_needed) for c in summary.comparisons if c.blocks_needed]
    nearest = min(needs, key=lambda item: item[1].more_blocks, default=None)
    if nearest is None or not nearest[1].more_blocks or is_busy:
        return
    comparison, least = nearest
    name = arm_names(summary)
    arms = joined([name(c.arm) for c, _ in needs])
    either = f"{WORDS['faster']} or {WORDS['slower']}"
    width = f"± {share(math.expm1(least.half_width))}"
    more_units = f"About {about(least.more_blocks)} more {comparison.unit}s"
    text = f"{more_units} would narrow the interval to {width}."
    if comparison.unit == "repeat":
        repeats = summary.sweep.repeats + least.more_blocks
        advice = f"Add some: {_start_when_quiet(summary).with_value('repeats', repeats)}"
    else:
        text = _reachable(summary, comparison, least) or text
        advice = _more_configs(summary, summary.sweep.blocks + least.more_blocks)
    yield Bullet(
        Kind.INCONCLUSIVE, f"{either.capitalize()} is not clear for {arms}. {text} {advice}"
    )


def _reachable(summary: ReportSummary, comparison: Comparison, needed: BlocksNeeded) -> str:
    """Write how narrow all configs of the space make an interval, if they are too few."""
    blocks, size = summary.sweep.blocks, summary.sweep.space_size
    if size is None or not blocks < size < blocks + needed.more_blocks or not comparison.confidence:
        return ""
    error, more = 1 - comparison.confidence, size - blocks
    reached = half_width_over(needed, len(comparison.pairs), more, error)
    return (
        f"All {counted(size, 'config')} of the space would narrow the interval to about ± "
        f"{share(float(f'{math.expm1(reached):.1g}'))}; for ± "
        f"{share(math.expm1(needed.half_width))} it takes about {about(needed.more_blocks)} more."
    )


def _other_baseline(summary: ReportSummary) -> Iterator[Bullet]:
    """Write that the comparisons have another baseline than the one that was asked for."""
    if summary.baseline and summary.baseline.instead_of:
        yield Bullet(Kind.MISSING, f"{summary.baseline.instead_of}.")


def _no_memory(summary: ReportSummary) -> Iterator[Bullet]:
    """Write why some arms have no peak memory, if others have one."""
    has_memory = {row.arm for row in summary.arms if _MEMORY & row.measures.keys()}
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    first = {trial.arm for trial in complete if trial.trainer_trials == 0}
    without = {trial.arm for trial in complete} - first - has_memory
    if not has_memory or not without:
        return
    name = arm_names(summary)
    arms = [name(row.arm) for row in summary.arms if row.arm in without]
    named = arms if len(arms) <= 2 else [arms[0], counted(len(arms) - 1, "other arm")]
    yield Bullet(
        Kind.MISSING,
        f"No peak memory of {joined(named)}: only the first trial of a trainer process has a peak "
        "of its own; a later one has that of the process so far, which is not compared. With "
        "trainer: fresh in the spec, every trial has its own.",
    )


def _is_auto(summary: ReportSummary) -> bool:
    """Return whether the widths of intervals decide the number of configs."""
    return any(comparison.plain_confidence > CONFIDENCE for comparison in summary.comparisons)


def _start_when_quiet(summary: ReportSummary) -> StartCommand:
    """Return the start of the sweep, which waits for a quiet machine if it was busy."""
    start = summary.sweep.start
    return start.when_quiet() if _was_busy(summary) else start


def _more_configs(summary: ReportSummary, configs: int) -> str:
    """Write how the sweep gets this many configs, which depends on what decides their number."""
    start, size = _start_when_quiet(summary), summary.sweep.space_size
    if (decided_by := configs_from(summary.sweep.sampler)) == "space":
        return f"Add values to search.space, of which the sweep runs every combination: {start}"
    if decided_by == "list":
        return f"Add configs to the list search.configs: {start}"
    if size is not None and size <= max(summary.sweep.blocks, MIN_BLOCKS - 1):
        text = (
            f"The space has only {counted(size, 'config')}: add values to search.space, and start"
        )
        return f"{text} over: {start.with_flags('--fresh')}"
    key = "search.configs.at_most" if _is_auto(summary) else "search.configs"
    if size is None or configs <= size:
        return f"Add some: {start.with_value(key, configs)}"
    return f"Add the others: {start.with_value(key, size)}"


def _impossible(summary: ReportSummary) -> Iterator[Bullet]:
    """Write which arms cannot run, by reason."""
    name = arm_names(summary)
    for reason, arms in grouped((row.reason, name(row.arm)) for row in summary.impossible).items():
        if len(arms) > 2:
            subject = f"{arms[0]} and {counted(len(arms) - 1, 'other arm')}"
        else:
            subject = joined(arms)
        yield Bullet(Kind.MISSING, f"{subject} cannot run: {reason}.")
