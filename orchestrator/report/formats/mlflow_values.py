"""The answer of a sweep as values of its MLflow run, to compare generations and sweeps there."""

import math
from collections.abc import Mapping

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.sections.progress import counts
from orchestrator.report.wording import arm_names, deciding_interval


def to_metrics(summary: ReportSummary) -> dict[str, float]:
    """Return counts of trials, the best value of each objective, and speed-ups with intervals."""
    name, front = arm_names(summary), summary.front
    metrics: dict[str, float] = {f"trials_{kind}": n for kind, n in counts(summary).items()}
    metrics["trials"] = metrics.pop("trials_trials")
    for objective, direction in front.objectives.items() if front.points else ():
        best = max if direction == "maximize" else min
        metrics[f"best/{objective}"] = best(point.values[objective] for point in front.points)
    for comparison in summary.comparisons:
        if speedup := deciding_interval(comparison):
            # MLflow charts metrics with the same text before a slash together, and takes no plus.
            arm = name(comparison.arm).replace("/", " ").replace("+", " ")
            metrics[f"speedup/{arm}"] = speedup.value
            if math.isfinite(speedup.high):
                metrics[f"speedup_low/{arm}"] = speedup.low
                metrics[f"speedup_high/{arm}"] = speedup.high
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
