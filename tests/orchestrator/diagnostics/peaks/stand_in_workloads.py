"""Workloads in the place of the one that measures: light, as no framework is imported."""

from __future__ import annotations

import os
import signal

from workloads.context import Context


def rates(trial: Context) -> dict[str, float]:
    """Return rates that depend on the precision; `fp16` fails."""
    trial.environment(cuda_build=None, devices=os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    precision = trial.implementation.precision
    if precision == "fp16":
        raise ValueError("no such precision here")
    work = {"float32": 1.0, "tf32": 2.0, "bf16": 4.0}[precision]
    rates_by_name = {"product_flops_per_s": work}
    if precision != "tf32":
        rates_by_name["copy_bytes_per_s"] = 10 * work
    return {
        f"{name}{end}": value
        for name, value in rates_by_name.items()
        for end in ("", "_low", "_high")
    }


def ended(trial: Context) -> dict[str, float]:
    """A trainer that is killed in its second request."""
    if trial.implementation.precision == "float32":
        return rates(trial)
    print("out of memory, for one")
    os.kill(os.getpid(), signal.SIGKILL)
    return {}
