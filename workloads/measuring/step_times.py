"""Metrics that follow from the times of steps and predictions."""

import statistics

_MIN_STEPS_FOR_PERCENTILE = 20


def rates(step_s: float, batch: float, flops_per_sample: float | None) -> dict[str, float]:
    """Return the rates that follow from the seconds of a step and the mean size of its batch.

    The rates of floating-point operations are absent if their count is None.
    """
    return {
        "sample_us": 1e6 * step_s / batch,
        "samples_per_s": batch / step_s,
        **_flops(step_s, batch, flops_per_sample),
    }


def prediction_rates(
    step_s: float, batch: float, flops_per_sample: float | None
) -> dict[str, float]:
    """Return the rates that follow from the seconds in which a batch of this size is predicted."""
    return {
        "predict_sample_us": 1e6 * step_s / batch,
        "predictions_per_s": batch / step_s,
        **_flops(step_s, batch, flops_per_sample),
    }


def _flops(step_s: float, batch: float, flops_per_sample: float | None) -> dict[str, float]:
    if flops_per_sample is None:
        return {}
    return {
        "model_flops_per_step": float(flops_per_sample * batch),
        "model_flops_per_s": flops_per_sample * batch / step_s,
    }


def step_metrics(seconds: list[float]) -> dict[str, float]:
    """Return the median and, from 20 steps on, the 95th percentile, in ms."""
    metrics = {"step_ms_median": 1_000 * statistics.median(seconds)}
    if len(seconds) >= _MIN_STEPS_FOR_PERCENTILE:
        metrics["step_ms_p95"] = 1_000 * statistics.quantiles(seconds, n=20, method="inclusive")[-1]
    return metrics
