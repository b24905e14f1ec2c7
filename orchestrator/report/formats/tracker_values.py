"""The answer of a sweep as values of its run in a tracker, to compare generations and sweeps there.

The tracker writes them (`Tracker.show_sweep`); what a name may be is MLflow's, as of every name
there (`orchestrator.storage.tracking.limits`).
"""

import math
from collections.abc import Mapping

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.sections.progress import counts
from orchestrator.report.wording import arm_names, deciding_interval


def to_metrics(summary: ReportSummary) -> dict[str, float]:
    """Return counts of trials, the best value of each objective, and what was compared.

    These are speed-ups, and differences of each result, with their intervals.
    """
    name, front = arm_names(summary), summary.front
    metrics: dict[str, float] = {f"trials_{kind}": n for kind, n in counts(summary).items()}
    metrics["trials"] = metrics.pop("trials_trials")
    if front.points:
        for objective, direction in front.objectives.items():
            best = max if direction == "maximize" else min
            metrics[f"best/{objective}"] = best(point.values[objective] for point in front.points)
    if best_config := summary.best_by_objective:  # the value that the report has
        metrics[f"best/{best_config.metric}"] = best_config.chosen.values[best_config.metric]
    for comparison in summary.comparisons:
        # MLflow charts metrics with the same text before a slash together, and takes no plus.
        arm = name(comparison.arm).replace("/", " ").replace("+", " ")
        compared = {f"difference_{r.metric}": r.shown for r in comparison.results}
        if speedup := deciding_interval(comparison):
            compared = {"speedup": speedup, **compared}
        for kind, estimate in compared.items():
            metrics[f"{kind}/{arm}"] = estimate.value
            if math.isfinite(estimate.high):
                metrics[f"{kind}_low/{arm}"] = estimate.low
                metrics[f"{kind}_high/{arm}"] = estimate.high
    return metrics


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
