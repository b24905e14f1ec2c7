"""Rounds of one trial of the example workloads."""

import time
from pathlib import Path
from typing import Any

from orchestrator.core.criteria import Timing
from orchestrator.execution.job import Job, RoundTrial, TrialLimits
from workloads.protocol import TrialRequest

ROOT = Path(__file__).resolve().parents[3]
LIMITS = TrialLimits(60, 30)


def build_job(
    name: str,
    settings: dict[str, Any] | None = None,
    *,
    implementation: str = "python/noop",
    limits: TrialLimits | None = None,
    fresh: bool = False,
    cpus: int | None = None,
    **request: Any,
) -> Job:
    workload = f"tests.workloads.examples.{name if ':' in name else f'hostile:{name}'}"
    asked = TrialRequest(workload, implementation, settings or {}, **request)
    trials = (RoundTrial(asked, cpus),)
    return Job(trials, 1, time.time(), limits or LIMITS, Timing(), (str(ROOT),), fresh)
