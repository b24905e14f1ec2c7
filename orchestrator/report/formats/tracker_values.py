"""The answer of a sweep as values of its run in a tracker, to compare generations and sweeps there.

The tracker writes them (`Tracker.show_sweep`); what a name may be is MLflow's, as of every name
there (`orchestrator.storage.tracking.limits`).
"""

import math
from collections.abc import Iterator, Mapping

from orchestrator.analysis.contrasts.contrast import Contrast, Question
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.names import arm_names


def to_metrics(summary: ReportSummary) -> dict[str, float]:
    """Return counts of trials, the best value of each objective, and what was compared.

    These are the speed-ups of arms over their baselines, and differences of each result, with the
    intervals of the report.
    """
    name, front = arm_names(summary), summary.front
    metrics = _counts(summary)
    if front.points:
        for objective, direction in front.objectives.items():
            best = max if direction == "maximize" else min
            metrics[f"best/{objective}"] = best(point.values[objective] for point in front.points)
    if best_config := summary.best_by_objective:  # the value that the report has
        metrics[f"best/{best_config.metric}"] = best_config.chosen.values[best_config.metric]
    names = {str(row.arm): name(row.arm) for row in summary.arms}
    for kind, contrast in _compared(summary):
        # MLflow charts metrics with the same text before a slash together, and takes no plus.
        arm = names[contrast.subject].replace("/", " ").replace("+", " ")
        estimate = contrast.estimate
        metrics[f"{kind}/{arm}"] = estimate.value
        if math.isfinite(estimate.high):
            metrics[f"{kind}_low/{arm}"] = estimate.low
            metrics[f"{kind}_high/{arm}"] = estimate.high
    return metrics


def _counts(summary: ReportSummary) -> dict[str, float]:
    trials = summary.sweep.trials
    return {
        "trials": trials.expected - trials.missing,
        "trials_expected": trials.expected,
        "trials_failed": trials.failed,
        "trials_disturbed": sum(arm.disturbed for arm in summary.arms),
    }


def _compared(summary: ReportSummary) -> Iterator[tuple[str, Contrast]]:
    """Yield the comparisons with the baseline by time and by results, each with its kind."""
    kinds = {metric: f"difference_{metric}" for metric in summary.results}
    if summary.time_metric:
        kinds[summary.time_metric] = "speedup"
    for contrast in summary.contrasts:
        if contrast.question == Question.BASELINE and contrast.metric in kinds:
            yield kinds[contrast.metric], contrast


def to_params(summary: ReportSummary, space: Mapping[str, object]) -> dict[str, object]:
    """Return versions, settings, the searched `space`, the baseline, nodes and hardware."""
    sweep, baseline = summary.sweep, summary.baseline
    nodes = sorted({trial.node for trial in summary.trials} - {""})
    return {
        **sweep.environment,
        **sweep.settings,
        **{f"search.{name}": values for name, values in space.items()},
        "workload": sweep.workload,
        "sampler": sweep.sampler,
        "seed": sweep.seed,
        "baseline": baseline.name if baseline else "none",
        **({"nodes": ", ".join(nodes)} if nodes else {}),
        "hardware": ", ".join(dict.fromkeys(str(row.arm.hardware) for row in summary.arms)),
    }
