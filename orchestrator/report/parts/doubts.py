"""What is missing or doubtful, each with the one command that helps.

*answer* has the first few of these facts, and *trust* has all of them.
"""

from collections.abc import Callable, Iterable, Iterator

from orchestrator.analysis.arms.mathematics import Mathematics, has_equal_starts
from orchestrator.analysis.arms.versions import mixed_versions
from orchestrator.analysis.contrasts.contrast import Contrast, Qualifier, Question, Unit, Verdict
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS, Estimate
from orchestrator.analysis.statistics.formatting import share
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.start_command import StartCommand
from orchestrator.core.text import counted, joined
from orchestrator.report.document import Fact, Tone
from orchestrator.report.names import ArmNames, about, grouped, shortened
from orchestrator.report.words import QUALIFIERS, WORDS, busy_text
from orchestrator.sampling import configs_from
from workloads.metrics import find_metric
from workloads.model_facts import NOT_KEPT
from workloads.own_code import packages_of
from workloads.registry import has_random_data

_MOST_CAUSES = 3
"""The most causes of failures that have a fact; more are counted."""

_MOST_NAMED = 2
"""The most arms that a fact names; more are counted."""

_MOST_MORE_BLOCKS = 100
"""The most further configs that are suggested to narrow an interval."""

_LONGEST_MESSAGE = 120
"""The characters of an error message that are shown."""


def doubts(summary: ReportSummary, name: ArmNames) -> tuple[Fact, ...]:
    """Return what is missing or doubtful, the most important first."""
    return tuple(fact for find in _DOUBTS for fact in find(summary, name))


def report_command(summary: ReportSummary, options: str = "") -> str:
    """Return the command that reports on the sweep, with these options."""
    command = summary.sweep.start.reading("report", summary.sweep.label)
    return f"{command} {options}".rstrip()


def _missing(summary: ReportSummary, _: ArmNames) -> Iterator[Fact]:
    sweep = summary.sweep
    if not sweep.trials.missing:
        return
    expected = counted(summary.planned_trials, "trial")
    text = f"{sweep.trials.missing} of {expected} ({sweep.state})"
    is_running = sweep.state == "running"
    command = sweep.start.reading("status", sweep.label) if is_running else sweep.start
    yield _doubt("missing", text, command)


def _failed(summary: ReportSummary, _: ArmNames) -> Iterator[Fact]:
    """Yield the causes for which trials have no result; a trial that was pruned has one."""
    details = report_command(summary, "--section trust")
    retry = summary.sweep.start.with_flags("--retry-failed")
    if packages_of(summary.sweep.workload) and not summary.is_without_success:
        retry = retry.with_flags("--same-code")  # a fix changes code that others succeeded with
    excluded = [row for row in summary.excluded if row.status != "pruned"]
    causes = grouped(((row.status, row.reason, row.message), row) for row in excluded)
    for (status, reason, message), rows in list(causes.items())[:_MOST_CAUSES]:
        trials = counted(sum(row.trials for row in rows), "trial")
        arms = _listed(dict.fromkeys(row.arm.short_name for row in rows))
        cause = f"{reason.replace('_', ' ')}: {message}" if status == "failed" else message
        text = f"{trials} of {arms} ({shortened(cause, _LONGEST_MESSAGE)})"
        command = retry if status == "failed" else details
        yield _doubt(status.replace("_", " "), text, command, Tone.BAD)
    if len(causes) > _MOST_CAUSES:
        others = counted(len(causes) - _MOST_CAUSES, "other cause")
        yield _doubt("failed", others, details, Tone.BAD)


def _missing_objectives(summary: ReportSummary, _: ArmNames) -> Iterator[Fact]:
    complete = [trial.metrics for trial in summary.trials if trial.status == "complete"]
    recorded = {metric for metrics in complete for metric in metrics}
    missing = [name for name in summary.sweep.objectives if name not in recorded]
    own = sorted(name for name in recorded if find_metric(name).is_result)
    if complete and missing:
        instead = joined(own) or "no result"
        yield _doubt("missing", f"no trial has {joined(missing)}; measured: {instead}")


def _other_mathematics(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    """Yield the arms that compute something else than their reference, with the largest gap."""
    different = [
        (row.mathematics.reference, (row.arm, row.mathematics))
        for row in summary.arms
        if row.mathematics and row.mathematics.is_different
    ]
    for reference, rows in grouped(different).items():
        _, worst = max(rows, key=lambda row: row[1].max_output_share)
        arms = _listed(name(arm) for arm, _ in rows)
        text = f"{arms} compared with {name(reference)}: {_largest_difference(worst)}"
        command = report_command(summary, "--section trust")
        yield _doubt(QUALIFIERS[Qualifier.OTHER_MATHEMATICS], text, command, Tone.BAD)


def _largest_difference(mathematics: Mathematics) -> str:
    """Return the difference that rounding does not explain: of outputs, or else of gradients."""
    if mathematics.max_output_share > mathematics.output_tolerance:
        kind, most = "outputs", mathematics.max_output_share
        explained = mathematics.output_tolerance
    else:
        kind, most = "gradients", mathematics.max_gradient_difference or 0.0
        explained = mathematics.gradient_tolerance
    return f"{kind} differ by {share(most)}, rounding explains {share(explained)}"


def _busy(summary: ReportSummary, _: ArmNames) -> Iterator[Fact]:
    """Yield how many of the compared configs were disturbed; none if enough were quiet."""
    values = summary.values_of(summary.time_metric or "")
    if values is None or not values.disturbed:
        return
    blocks, disturbed = len(values.blocks), len(values.disturbed)
    text = f"{disturbed} of {counted(blocks, values.unit)}: {busy_text(values.disturbance)}"
    command = _start_for_quiet_blocks(summary, blocks - disturbed, values.unit)
    yield _doubt(QUALIFIERS[Qualifier.BUSY], text, command)


def _few(summary: ReportSummary, _: ArmNames) -> Iterator[Fact]:
    """Yield how many configs, or repeats of the only one, a verdict on the time needs.

    None while trials are missing, because these may be enough. More configs are suggested on a
    quiet machine, and where no size explains why a verdict is open.
    """
    values = summary.values_of(summary.time_metric or "")
    if values is None or summary.sweep.trials.missing:
        return
    blocks = len(values.blocks)
    label, text = "few", f"{counted(blocks, values.unit)}, and a verdict needs {MIN_BLOCKS}"
    more = MIN_BLOCKS - blocks
    if more <= 0:
        open_pairs = [c.more_blocks for c in summary.contrasts if _is_open_pair(summary, c)]
        more = min(filter(None, open_pairs), default=_MOST_MORE_BLOCKS + 1)
        has_crossing = any(curve.crossing for curve in summary.curves)
        if more > _MOST_MORE_BLOCKS or values.disturbed or has_crossing:
            return
        label = WORDS[Verdict.OPEN]
        text = f"one more verdict needs about {counted(more, f'more {values.unit}')}"
    command = _start_with_more(summary, more, values.unit, is_busy=bool(values.disturbed))
    yield _doubt(label, text, command)


def _depends_on_size(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    """Yield the size at which two arms cross; more are counted."""
    crossing = [(curve, curve.crossing) for curve in summary.curves if curve.crossing]
    if not crossing:
        return
    (curve, at), *others = crossing
    text = f"{name(curve.arm)} is faster {curve.faster} {_size_text(at)} {curve.size}"
    text += f", {name(curve.baseline)} elsewhere"
    text += f" (and {len(others)} more)" if others else ""
    yield _doubt("depends", text, report_command(summary, "--section sizes"))


def _size_text(size: Estimate) -> str:
    """Write `80 (70–92)`."""
    return f"{about(size.value)} ({about(size.low)}–{about(size.high)})"


def _is_open_pair(summary: ReportSummary, contrast: Contrast) -> bool:
    """Return whether the times of two arms are compared without a decision."""
    is_pair = contrast.question in (Question.BASELINE, Question.BEST)
    return is_pair and contrast.metric == summary.time_metric and not contrast.is_decided


def _start_with_more(summary: ReportSummary, more: int, unit: Unit, *, is_busy: bool) -> str:
    """Return how the sweep gets this many more configs, or repeats of its only config.

    They come on top of those that were planned, because some of these may have failed.
    """
    sweep = summary.sweep
    start = sweep.start.when_quiet() if is_busy else sweep.start
    if unit == Unit.REPEAT:
        return str(start.with_value("repeats", sweep.repeats + more))
    if sweep.blocks == 1:
        return str(start.with_value("repeats", max(MIN_BLOCKS, sweep.repeats + 1)))
    if configs_from(sweep.sampler) == "list":
        return f"add configs to search.configs; {start}"
    configs = sweep.blocks + more
    space_size = sweep.space_size or configs
    if configs_from(sweep.sampler) == "space" or space_size <= sweep.blocks:
        return f"add values to search.space; {start.with_flags('--fresh')}"
    return str(start.with_value("search.configs", min(configs, space_size)))


def _start_for_quiet_blocks(summary: ReportSummary, quiet: int, unit: Unit) -> StartCommand:
    """Return the cheapest start that makes enough quiet blocks.

    It adds a few configs, or repeats of the only one; else one more repeat of all configs.
    """
    sweep, more = summary.sweep, max(1, MIN_BLOCKS - quiet)
    configs = sweep.blocks + more
    can_add = configs_from(sweep.sampler) == "sampler" and configs <= (sweep.space_size or configs)
    if unit == Unit.REPEAT or sweep.blocks == 1:
        start = sweep.start.with_value("repeats", sweep.repeats + more)
    elif can_add and more < sweep.blocks:
        start = sweep.start.with_value("search.configs", configs)
    else:
        start = sweep.start.with_value("repeats", sweep.repeats + 1)
    return start.when_quiet()


def _mixed_versions(summary: ReportSummary, _: ArmNames) -> Iterator[Fact]:
    mixed = mixed_versions(summary.trials)
    if mixed:
        versions = "; ".join(f"{name} {joined(texts)}" for name, texts in mixed.items())
        command = summary.sweep.start.with_flags("--fresh")
        yield _doubt("versions", f"trials ran with {versions}", command)


def _not_kept(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    """Yield why the models of trials are not kept, although settings.keep asks for them."""
    found = [
        (str(trial.outcome.environment[NOT_KEPT]), trial.arm)
        for trial in summary.trials
        if NOT_KEPT in trial.outcome.environment
    ]
    for reason, arms in grouped(found).items():
        text = f"{counted(len(arms), 'trial')} of {_listed(map(name, dict.fromkeys(arms)))}"
        yield _doubt("no model kept", f"{text}: {shortened(reason, _LONGEST_MESSAGE)}")


def _not_run(summary: ReportSummary, _: ArmNames) -> Iterator[Fact]:
    """Yield the arms that cannot run, by reason."""
    for reason, arms in grouped((row.reason, row.arm) for row in summary.impossible).items():
        yield _doubt("not run", f"{_listed(arm.short_name for arm in arms)}: {reason}")


def _not_in_turns(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    alone = [row for row in summary.arms if row.not_in_turns]
    if alone:
        trials = counted(sum(row.not_in_turns for row in alone), "trial")
        text = f"{trials} of {_listed(name(row.arm) for row in alone)} trained alone"
        yield _doubt("not in turns", text, report_command(summary, "--section trust"))


def _unlike_work(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    unlike = [row.arm for row in summary.arms if row.arm.work]
    if unlike:
        text = f"{_listed(map(name, unlike))}: only times per step are compared"
        command = report_command(summary, "--section comparisons")
        yield _doubt(QUALIFIERS[Qualifier.UNLIKE_WORK], text, command)


def _unequal_start(summary: ReportSummary, _: ArmNames) -> Iterator[Fact]:
    sweep = summary.sweep
    if not has_equal_starts(sweep.workload, sweep.settings):
        equal = sweep.start.with_value("settings.weights", "equal").with_flags("--fresh")
        yield _doubt(
            "unequal start", "settings.weights is own, so results also differ by chance", equal
        )


def _random_data(summary: ReportSummary, _: ArmNames) -> Iterator[Fact]:
    if has_random_data(summary.sweep.workload):
        yield _doubt("random data", "only times are compared; for results, add data: module:load")


def _other_baseline(summary: ReportSummary, _: ArmNames) -> Iterator[Fact]:
    if summary.baseline and summary.baseline.instead_of:
        yield _doubt("baseline", summary.baseline.instead_of)


def _doubt(
    label: str, text: str, command: StartCommand | str = "", tone: Tone = Tone.DOUBT
) -> Fact:
    return Fact(label, f"{text}. {command}" if command else text, tone)


def _listed(names: Iterable[str]) -> str:
    """Return the first names, with the number of the rest: `a, b and 3 more`."""
    every = [*names]
    hidden = len(every) - _MOST_NAMED
    return joined([*every[:_MOST_NAMED], *([f"{hidden} more"] if hidden > 0 else [])])


_DOUBTS: tuple[Callable[[ReportSummary, ArmNames], Iterator[Fact]], ...] = (
    _failed,
    _missing,
    _missing_objectives,
    _other_mathematics,
    _busy,
    _depends_on_size,
    _few,
    _mixed_versions,
    _not_kept,
    _not_run,
    _not_in_turns,
    _unlike_work,
    _unequal_start,
    _other_baseline,
    _random_data,
)
"""What can be missing or doubtful, in the order of a report."""
