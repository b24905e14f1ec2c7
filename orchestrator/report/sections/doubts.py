"""What is missing or doubtful, each with the one command that cures it."""

import math
from collections.abc import Iterator

from orchestrator.analysis.arms.arm_summary import ExcludedTrials
from orchestrator.analysis.arms.mathematics import has_equal_starts
from orchestrator.analysis.pairing.complete_rounds import typical_disturbance
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS
from orchestrator.analysis.statistics.formatting import share
from orchestrator.analysis.statistics.verdicts import half_width_over
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.disturbance import busy_text
from orchestrator.core.start_command import StartCommand
from orchestrator.core.text import counted, is_or_are, joined
from orchestrator.report.document import Bullet, Kind, Section
from orchestrator.report.sections.mathematics import mathematics_doubts
from orchestrator.report.verdicts import INCONCLUSIVE, WORDS
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
    provisional = _provisional(summary)
    return (
        *_missing_trials(summary),
        *_failures(summary),
        *_missing_objectives(summary),
        *mathematics_doubts(summary),
        *([Bullet(Kind.PROVISIONAL, provisional)] if provisional else _busy_anyway(summary)),
        *_unobserved(summary),
        *_not_interleaved(summary),
        *_few_blocks(summary, is_busy=bool(provisional)),
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


def _provisional(summary: ReportSummary) -> str:
    """Write why verdicts are provisional, and what to do; empty if none is."""
    busy = [c for c in summary.comparisons if c.bias]
    if not busy and not any(ranking.provisional for ranking in summary.rankings):
        return ""
    validity = summary.validity
    rounds = counted(validity.rounds, config_or_repeat(summary))
    text = f"The machine was busy during {validity.disturbed_rounds} of {rounds}"
    what = busy_text(typical_disturbance(c.disturbance for c in busy))
    if what:
        text += f" ({what})"
    judged = [c for c in busy if c.corrected]
    undecided = sum(c.verdict == "inconclusive" for c in judged)
    if judged:
        every = counted(sum(c.corrected is not None for c in summary.comparisons), "comparison")
        text += f": {undecided} of {every} {is_or_are(undecided)} {INCONCLUSIVE} for that reason"
        if undecided < len(judged):
            text += "; what is decided differs by more than other work can cause (provisional)"
    quiet = min((len(c.pairs) - len(c.disturbed_blocks) for c in busy), default=0)
    return f"{text}. Accuracies are not affected. {_measure_when_quiet(summary, quiet)}"


def _measure_when_quiet(summary: ReportSummary, quiet_configs: int) -> str:
    """Write the least that gives a verdict on quiet configs alone: some more, or all once more."""
    sweep = summary.sweep
    arms = sum(row.arm not in summary.former for row in summary.arms)
    more = max(1, MIN_BLOCKS - quiet_configs)
    configs = sweep.blocks + more
    can_add = configs_from(sweep.sampler) == "sampler" and not _is_auto(summary)
    if can_add and more < sweep.blocks and (sweep.space_size or configs) >= configs:
        trials = counted(more * arms * sweep.repeats, "trial")
        return (
            f"Once it is quiet, measure {counted(more, 'more config')} ({trials}) for the "
            f"{MIN_BLOCKS} quiet ones that a verdict needs: "
            f"{sweep.start.with_value('search.configs', configs).when_quiet()}"
        )
    trials = counted(sweep.blocks * arms, "trial")
    again = sweep.start.with_value("repeats", sweep.repeats + 1).when_quiet()
    return (
        f"Measure all {counted(sweep.blocks, 'config')} again once it is quiet ({trials}): {again}"
    )


def _busy_anyway(summary: ReportSummary) -> Iterator[Bullet]:
    """Write that the machine was busy where there are too few configs for any verdict."""
    validity = summary.validity
    few = [c for c in summary.comparisons if len(c.pairs) < MIN_BLOCKS and c.disturbed_blocks]
    if few and _was_busy(summary):
        rounds = counted(validity.rounds, config_or_repeat(summary))
        yield Bullet(
            Kind.PROVISIONAL,
            f"The machine was busy during {validity.disturbed_rounds} of {rounds} "
            f"({busy_text(few[0].disturbance)}), so times are provisional at best. "
            "Accuracies are not affected.",
        )


def _was_busy(summary: ReportSummary) -> bool:
    """Return whether more than a third of the rounds were disturbed."""
    return 3 * summary.validity.disturbed_rounds > summary.validity.rounds


def _unobserved(summary: ReportSummary) -> Iterator[Bullet]:
    """Write that verdicts are of trials that were too short to see whether the machine was busy."""
    decided = [c for c in summary.comparisons if c.verdict != "inconclusive" and not c.provisional]
    unknown = sum(comparison.other_work_unknown for comparison in decided)
    if not unknown:
        return
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    short = sum(trial.other_work_is_unknown for trial in complete)
    yield Bullet(
        Kind.PROVISIONAL,
        f"What other work took during {short} of {counted(len(complete), 'trial')} is unknown, "
        "because a trial was too short to observe it (0.5 s), or said of no part of it that it "
        "trains. "
        f"{unknown} of {counted(len(decided), 'verdict')} on times {is_or_are(unknown)} right "
        "for a quiet machine only. Let trials train for longer, more epochs or more data, to see "
        "that it is quiet. Accuracies are not affected.",
    )


def _not_interleaved(summary: ReportSummary) -> Iterator[Bullet]:
    rounds = max((c.not_interleaved_rounds for c in summary.comparisons), default=0)
    if rounds:
        text = f"In {counted(rounds, config_or_repeat(summary))} the arms did not take turns"
        cure = f"and so they are not used. Measure them again: {summary.sweep.start}"
        yield Bullet(Kind.NOT_INTERLEAVED, f"{text}, {cure}")


def _few_blocks(summary: ReportSummary, *, is_busy: bool) -> Iterator[Bullet]:
    """Write how many more configs a verdict needs, unless trials are missing anyway."""
    if summary.sweep.trials.missing:
        return
    few = [c for c in summary.comparisons if c.baseline and not c.corrected and c.pairs]
    if few:
        configs, needed, at_least = len(few[0].pairs), MIN_BLOCKS, f"{MIN_BLOCKS}"
        if _was_busy(summary):
            needed += len(few[0].disturbed_blocks)
            at_least += " quiet ones"
        yield Bullet(
            Kind.INCONCLUSIVE,
            f"{counted(configs, 'config')} {is_or_are(configs)} too few for a verdict: at least "
            f"{at_least} are needed. {_more_configs(summary, needed)}",
        )
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
    text = f"About {about(least.more_blocks)} more configs would narrow the interval to {width}."
    blocks, size = summary.sweep.blocks, summary.sweep.space_size
    if size is not None and blocks < size < blocks + least.more_blocks and comparison.confidence:
        error, more = 1 - comparison.confidence, size - blocks
        reached = half_width_over(least, len(comparison.pairs), more, error)
        text = (
            f"All {counted(size, 'config')} of the space would narrow the interval to about ± "
            f"{share(float(f'{math.expm1(reached):.1g}'))}; for {width} it takes about "
            f"{about(least.more_blocks)} more."
        )
    advice = _more_configs(summary, blocks + least.more_blocks)
    yield Bullet(
        Kind.INCONCLUSIVE, f"{either.capitalize()} is not clear for {arms}. {text} {advice}"
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


def _more_configs(summary: ReportSummary, configs: int) -> str:
    """Write how the sweep gets this many configs, which depends on what decides their number."""
    start, size = summary.sweep.start, summary.sweep.space_size
    if _was_busy(summary):
        start = start.when_quiet()
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
