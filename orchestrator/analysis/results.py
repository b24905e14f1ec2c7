"""The results of training that a sweep compares: how good the model is, and not how fast."""

from collections.abc import Collection, Mapping

from orchestrator.core.records import Direction, SweepRecord
from workloads.metrics import find_metric


def direction_of(metric: str) -> Direction:
    """Return the better direction of a metric by the registry; for objectives ask the spec."""
    return "maximize" if find_metric(metric).better == "more" else "minimize"


USUAL_RESULTS: Mapping[str, Direction] = {
    metric: direction_of(metric)
    for metric in ("val_accuracy", "val_bits_per_char", "val_loss", "accuracy", "loss")
}
"""The first of these that was measured is the result of a sweep whose objectives name none."""


def result_metrics(record: SweepRecord, measured: Collection[str]) -> dict[str, Direction]:
    """Return the results of a sweep among the `measured` metrics, the most important one first.

    They are its objectives, except times, memory, energy and cost, which are no results. If no
    objective is a result, it is the first of `USUAL_RESULTS`.
    """
    named = {
        name: direction
        for name, direction in record.objectives.items()
        if name in measured and find_metric(name).is_result
    }
    if named:
        return named
    usual = next((name for name in USUAL_RESULTS if name in measured), None)
    return {usual: USUAL_RESULTS[usual]} if usual else {}
