"""How many trials a sweep has, and over how many configs its verdicts are."""

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import counted
from orchestrator.report.wording import ranges_text


def counts(summary: ReportSummary) -> dict[str, int]:
    """Return how many trials ended, were expected, failed, and were disturbed."""
    trials = summary.sweep.trials
    return {
        "trials": trials.expected - trials.missing,
        "expected": trials.expected,
        "failed": trials.failed,
        "disturbed": sum(arm.disturbed for arm in summary.arms),
    }


def progress_sentence(summary: ReportSummary) -> str:
    """Write `Over 8 configs (units 16–128): 16 of 16 trials complete, 0 failed, …`."""
    trials, numbers = summary.sweep.trials, counts(summary)
    text = (
        f"{trials.complete} of {counted(trials.expected, 'trial')} complete, "
        f"{numbers['failed']} failed, {numbers['disturbed']} disturbed by other work"
    )
    if trials.pruned:
        text += f", {trials.pruned} pruned"
    if not summary.trials or summary.is_without_success:
        return f"{text}."
    configs = ranges_text(summary.configs)
    ranges = f" ({configs})" if configs else ""
    return f"Over {counted(len(summary.complete_blocks), 'config')}{ranges}: {text}."
