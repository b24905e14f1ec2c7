"""Measure a device's rates with a trainer of each backend, on the node that has the device."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.execution.trainer_process import Trainer, TrainerGone
from orchestrator.hardware.peak import Rate
from workloads import protocol
from workloads.implementations import Implementation
from workloads.protocol import Device, TrialRequest

WORKLOAD = "workloads.tasks.peak_rates:measure"

_LOOK_S = 1.0
_PATIENCE_S = 600.0
"""A backend without an answer by then hangs: importing takes seconds, measuring fewer."""


@dataclass(frozen=True, slots=True)
class PeakRequest:
    """A device to measure, with the backends and the precisions (`float32`, `tf32`, `bf16`).

    `gpu` is the UUID of the GPU, or None if this process sees one GPU only.
    """

    device: Device
    backends: tuple[str, ...]
    precisions: tuple[str, ...]
    gpu: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The rates of one backend in one precision."""

    precision: str
    flops_per_s: Rate
    bytes_per_s: Rate | None


@dataclass(slots=True)
class BackendRates:
    """The results of one backend's trainer; `reason` is why others are missing."""

    readings: list[Reading] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    reason: str | None = None


def measure_rates(
    request: PeakRequest, begin: Callable[[str], object] = str
) -> dict[str, BackendRates]:
    """Return the rates of each backend, measured one after another, so that none disturbs another.

    Args:
        request: what to measure.
        begin: called with each backend when its turn comes.
    """
    answers: dict[str, BackendRates] = {}
    environ = dict(os.environ)
    if request.gpu is not None:
        environ["CUDA_VISIBLE_DEVICES"] = request.gpu
    for backend in request.backends:
        begin(backend)
        answers[backend] = _answer(backend, request.device, request.precisions, environ)
    return answers


def _answer(
    backend: str, device: Device, precisions: Sequence[str], environ: Mapping[str, str]
) -> BackendRates:
    answer = BackendRates()
    with Trainer(Implementation(backend, "portable"), device, environ=environ) as trainer:
        for precision in precisions:
            options = () if precision == "float32" else (precision,)
            implementation = str(Implementation(backend, "portable", options))
            try:
                trainer.request(TrialRequest(WORKLOAD, implementation, device=device))
                metrics = _listen(trainer, answer)
            except (TrainerGone, TimeoutError, protocol.ProtocolError) as error:
                tail = trainer.output_tail().splitlines()
                last = f"; its last output: {tail[-1]}" if tail else ""
                answer.reason = f"{precision}: {error}{last}"
                return answer
            if isinstance(metrics, str):
                answer.reason = f"{precision}: {metrics}"
            else:
                answer.readings.append(_reading(precision, metrics))
    return answer


def _listen(trainer: Trainer, answer: BackendRates) -> Mapping[str, float] | str:
    """Return the metrics of the request's result, or why it failed.

    Raises:
        TrainerGone: the process ended.
        ProtocolError: it wrote something else than events.
        TimeoutError: it hangs.
    """
    until_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until_s:
        match trainer.next_event(_LOOK_S):
            case protocol.Environment(facts):
                answer.facts |= {k: str(v) for k, v in facts.items() if v is not None}
            case protocol.Failure(_, message):
                return message
            case protocol.Result(metrics):
                return metrics
    raise TimeoutError(f"no answer in {_PATIENCE_S:.0f} s")


def _reading(precision: str, metrics: Mapping[str, float]) -> Reading:
    product, copied = "product_flops_per_s", "copy_bytes_per_s"
    return Reading(
        precision,
        _rate(metrics, product),
        _rate(metrics, copied) if copied in metrics else None,
    )


def _rate(metrics: Mapping[str, float], name: str) -> Rate:
    return Rate(metrics[name], metrics[f"{name}_low"], metrics[f"{name}_high"])
