"""The peaks of GPUs: a short roofline of each class of them, measured by trainers.

A trainer process measures each class alone (`docs/hardware.md`). A trial on a GPU measures its own
`peak_flops_per_s`.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from orchestrator.core.arms import HardwareRef
from orchestrator.core.errors import last_line
from orchestrator.execution.trainer_answers import TrainerAnswer, ask_trainer
from orchestrator.execution.trainer_process import TrainerProcess
from orchestrator.hardware import HardwareClass, Node, only_visible_environment
from workloads.backends.registry import backends
from workloads.implementations import MIN_CAPABILITY, Implementation
from workloads.protocol import TrialRequest

PEAK_RATES_WORKLOAD = "workloads.diagnostics.peak_rates:measure_rates"

_PRECISIONS = ("float32", "tf32", "bf16")

_ANSWER_S = 1_200.0
"""How long the nodes of a cluster are waited for, which may be busy with trials of others."""

_QUIET = 1.5
"""Rounds of an idle device differ by less."""


@dataclass(frozen=True, slots=True)
class PeakRate:
    """A rate per second: the median of several rounds, and the slowest and fastest of them."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Peak:
    """The peaks of a class of GPUs (its id) under one backend, in one precision.

    `flops_per_s` is of a matrix product, `bytes_per_s` of a copy, with read and written bytes; None
    with `tf32`, which is one of products only. `node` measured it.
    """

    hardware: str
    backend: str
    precision: str
    flops_per_s: PeakRate
    bytes_per_s: PeakRate | None
    node: str

    @property
    def is_disturbed(self) -> bool:
        """True where rounds differ so much that other work must have taken the machine."""
        rates = filter(None, (self.flops_per_s, self.bytes_per_s))
        return any(rate.high > _QUIET * rate.low for rate in rates)

    def as_json(self) -> dict[str, Any]:
        """Return the peak without its hardware class."""
        return {name: own for name, own in dataclasses.asdict(self).items() if name != "hardware"}


@dataclass(frozen=True, slots=True)
class PeakRequest:
    """A measurement of a node of a class. `gpu` is the UUID of the GPU; None for the one seen."""

    hardware: HardwareRef
    node: Node
    backends: tuple[str, ...]
    precisions: tuple[str, ...]
    gpu: str | None = None


PeakResults: TypeAlias = tuple[tuple[Peak, ...], tuple[str, ...]]
"""Measured peaks, and a sentence for each failed measurement."""


def peaks_of_classes(
    classes: Sequence[HardwareClass], report: Callable[[str], object]
) -> PeakResults:
    """Measure the peaks of all classes of GPUs.

    Nodes of a cluster measure at the same time, one per class, with as many CPUs and GPUs as a
    trial. `report` prints a line for each step and for each failure.
    """
    requests = [_request(item) for item in classes if item.device == "gpu"]
    measured, failures = list[Peak](), list[str]()
    for peaks, failed in _run(requests, report):
        measured += peaks
        failures += failed
    for failure in failures:
        report(failure)
    return tuple(measured), tuple(failures)


def measure_peaks(request: PeakRequest) -> PeakResults:
    """Measure a node here: one backend after another, so that none disturbs another."""
    environ = dict(os.environ)
    if request.gpu is not None:
        environ.update(only_visible_environment(request.node.profile, [request.gpu]))
    peaks, failures = list[Peak](), list[str]()
    for backend in request.backends:
        with TrainerProcess(Implementation(backend, "portable"), "gpu", environ=environ) as trainer:
            for precision in request.precisions:
                options = () if precision == "float32" else (precision,)
                implementation = str(Implementation(backend, "portable", options))
                answer = ask_trainer(
                    trainer, TrialRequest(PEAK_RATES_WORKLOAD, implementation, device="gpu")
                )
                if answer.reason is None:
                    peaks.append(_peak(request, backend, precision, answer))
                else:
                    what = f"{request.hardware} could not be measured by {backend}"
                    failures.append(f"{what}: {precision}: {answer.reason}")
                if not answer.is_usable:
                    break
    return tuple(peaks), tuple(failures)


def _peak(request: PeakRequest, backend: str, precision: str, answer: TrainerAnswer) -> Peak:
    product, name = _rate(answer.metrics, "product_flops_per_s"), "copy_bytes_per_s"
    copied = _rate(answer.metrics, name) if name in answer.metrics else None
    node = request.node.profile.hostname
    return Peak(request.hardware.id, backend, precision, product, copied, node)


def _rate(metrics: Mapping[str, float], name: str) -> PeakRate:
    return PeakRate(metrics[name], metrics[f"{name}_low"], metrics[f"{name}_high"])


def _request(hardware: HardwareClass) -> PeakRequest:
    node = hardware.nodes[0]
    gpu = None if node.id else node.profile.gpus[0].uuid  # a cluster's Ray shows a task its own
    since = MIN_CAPABILITY["tf32"]
    has_tf32 = (hardware.compute_capability or since) >= since
    precisions = tuple(name for name in _PRECISIONS if name != "tf32" or has_tf32)
    installed = tuple(
        name
        for name, backend in backends().items()
        if backend.recorded_distributions[0] in node.profile.packages
    )
    return PeakRequest(hardware.ref, node, installed, precisions, gpu)


def _run(requests: Sequence[PeakRequest], report: Callable[[str], object]) -> Iterator[PeakResults]:
    """Yield what each node measured, or why it did not."""
    references, until_s = [], time.monotonic() + _ANSWER_S
    for request in requests:
        node, names = request.node, ", ".join(request.backends)
        report(f"measuring {request.hardware} on {node.profile.hostname}: {names}")
        if not node.id:
            yield measure_peaks(request)
            continue
        import ray  # noqa: PLC0415  (seconds that this machine alone does without)

        pinned = ray.remote(measure_peaks).options(
            num_cpus=node.cpus,
            num_gpus=1,
            max_retries=0,
            label_selector={"ray.io/node-id": node.id},
        )
        references.append((request, pinned.remote(request)))
    for request, reference in references:
        try:
            yield ray.get(reference, timeout=max(0.0, until_s - time.monotonic()))
        except ray.exceptions.GetTimeoutError:
            ray.cancel(reference)
            reason = (
                f"{request.hardware} could not be measured: {request.node.profile.hostname} has not"
                f" answered within {_ANSWER_S / 60:.0f} minutes; another sweep may use its CPUs or"
                " GPUs"
            )
            yield (), (reason,)
        except ray.exceptions.RayError as error:
            yield (), (f"{request.hardware} could not be measured: {last_line(error)}",)
