"""Workloads that ask a backend for its devices (`doctor`), and a GPU's peaks (`hardware`)."""

from workloads.context import Context
from workloads.failures import NotPossible
from workloads.measuring import roofline
from workloads.measuring.measurement import prepare_framework


def report_devices(trial: Context) -> dict[str, float]:
    """Report versions and devices of the backend; refuse a GPU where its call of cuDNN fails."""
    with prepare_framework(trial) as framework:
        failure = framework.cudnn_failure() if trial.device == "gpu" else ""
    if failure:
        raise NotPossible(failure.removeprefix("; "))
    return {}


def measure_rates(trial: Context) -> dict[str, float]:
    """Measure `product_flops_per_s` and `copy_bytes_per_s`, both also with `_low` and `_high`."""
    # TF32 is a precision of products: its trial has no copy.
    with prepare_framework(trial) as framework:
        precision = trial.implementation.precision
        product_rate = roofline.measure_product_rate(precision, framework.synchronise)
        metrics = product_rate.metrics("product_flops_per_s")
        if precision == "tf32":
            return metrics
        copy_rate = roofline.measure_copy_rate(precision, framework.synchronise)
        return metrics | copy_rate.metrics("copy_bytes_per_s")
