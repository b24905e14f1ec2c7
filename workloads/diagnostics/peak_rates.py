"""Workloads that ask a backend for its devices (`doctor`), and their peak rates (`hardware`)."""

import os
from concurrent.futures import ThreadPoolExecutor

from workloads.context import Context
from workloads.failures import NotPossible
from workloads.measuring import roofline
from workloads.measuring.measurement import prepare_framework
from workloads.resources import read_limits, usable_cpus


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
        dtype = roofline.DTYPES[precision]
        if trial.device == "gpu":
            copy_rate = roofline.measure_copy_rate(
                roofline.device_copy(dtype, framework.synchronise)
            )
        else:
            count, allowed = usable_cpus(), read_limits().memory_mib
            machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            usable_bytes = machine_bytes if allowed is None else min(machine_bytes, allowed * 2**20)
            with ThreadPoolExecutor(count) as threads:
                copy_rate = roofline.measure_copy_rate(
                    roofline.host_copy(dtype, threads, count), usable_bytes / 16
                )
        return metrics | copy_rate.metrics("copy_bytes_per_s")
