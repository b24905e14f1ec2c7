"""A workload that asks a backend for its devices: `doctor` runs it."""

from workloads.context import Context
from workloads.failures import NotPossible
from workloads.measuring.measurement import prepare_framework


def report_devices(trial: Context) -> dict[str, float]:
    """Report versions and devices of the backend; refuse a GPU where its call of cuDNN fails."""
    with prepare_framework(trial) as framework:
        failure = framework.cudnn_failure() if trial.device == "gpu" else ""
    if failure:
        raise NotPossible(failure.removeprefix("; "))
    return {}
