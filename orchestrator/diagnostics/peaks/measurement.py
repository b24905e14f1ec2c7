"""Measure peaks that are not stored yet, on this machine or on one node per class of a cluster."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.core.errors import last_line
from orchestrator.diagnostics.peaks.stored import Peak, Rate, store_peaks, stored_peaks, versions
from orchestrator.diagnostics.trainer_answers import ask
from orchestrator.execution.trainer_process import Trainer
from orchestrator.hardware import HardwareClass, Node
from workloads.implementations import BACKENDS, Implementation
from workloads.protocol import Device, TrialRequest

WORKLOAD = "workloads.tasks.peak_rates:measure"

_TF32_SINCE = 8
"""The major compute capability of the first GPUs with TF32 (Ampere)."""
_PRECISIONS = ("float32", "tf32", "bf16")

_ON_A_GPU = {"cuda_build": "cuda", "cudnn_build": "cudnn", "devices": "devices"}
"""Facts that a trainer on a GPU reports -> their names among a peak's versions."""


@dataclass(frozen=True, slots=True)
class PeakMeasurements:
    """The peaks of all classes, and a sentence for each failed measurement."""

    peaks: tuple[Peak, ...]
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeakRequest:
    """A device to measure, with the backends and the precisions.

    `gpu` is the UUID of the GPU, or None if this process sees one GPU only.
    """

    device: Device
    backends: tuple[str, ...]
    precisions: tuple[str, ...]
    gpu: str | None = None


@dataclass(slots=True)
class BackendRates:
    """The metrics that one backend's trainer measured, by precision; `reason` for missing ones."""

    metrics: dict[str, Mapping[str, float]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    reason: str | None = None


_Plan = tuple[HardwareClass, Node, PeakRequest]


def measure(
    classes: Sequence[HardwareClass],
    home: Path,
    report: Callable[[str], object],
    *,
    fresh: bool = False,
) -> PeakMeasurements:
    """Measure and store the peaks of all classes that are not stored, and return all.

    Nodes of a connected cluster measure at the same time, one per class. A measurement takes as
    many CPUs and GPUs as a trial, and so waits for trials that run there.

    Args:
        classes: the hardware classes.
        home: where they are stored.
        report: prints a line for each step and for each failure.
        fresh: measure stored ones again.
    """
    stored = () if fresh else stored_peaks(home, classes)
    plans = [plan for hardware in classes if (plan := _plan(hardware, stored)) is not None]
    measured: list[Peak] = []
    failures: list[str] = []
    for hardware, node, answers in _run_plans(plans, report):
        if isinstance(answers, str):
            failures.append(f"{hardware.name} could not be measured: {answers}")
            continue
        for backend, answer in answers.items():
            measured += _peaks(hardware, node, backend, answer)
            if answer.reason is not None:
                reason = f"could not be measured by {backend}: {answer.reason}"
                failures.append(f"{hardware.name} {reason}")
    for failure in failures:
        report(failure)
    if measured:
        try:
            store_peaks(home, measured)
        except OSError as error:
            report(f"the peaks cannot be stored in {home}: {error.strerror or error}")
    newest = {(peak.hardware, peak.backend, peak.precision): peak for peak in (*stored, *measured)}
    ids = [hardware.id for hardware in classes]
    order = sorted(newest, key=lambda key: (ids.index(key[0]), key[1], _PRECISIONS.index(key[2])))
    return PeakMeasurements(tuple(newest[key] for key in order), tuple(failures))


def measure_rates(
    request: PeakRequest, begin: Callable[[str], object] = str
) -> dict[str, BackendRates]:
    """Return the rates of each backend, measured one after another, so that none disturbs another.

    Args:
        request: what to measure.
        begin: called with each backend when its turn comes.
    """
    environ = dict(os.environ)
    if request.gpu is not None:
        environ["CUDA_VISIBLE_DEVICES"] = request.gpu
    rates: dict[str, BackendRates] = {}
    for backend in request.backends:
        begin(backend)
        of = rates[backend] = BackendRates()
        plain = Implementation(backend, "portable")
        with Trainer(plain, request.device, environ=environ) as trainer:
            for precision in request.precisions:
                options = () if precision == "float32" else (precision,)
                implementation = str(Implementation(backend, "portable", options))
                trial = TrialRequest(WORKLOAD, implementation, device=request.device)
                answer = ask(trainer, trial)
                of.facts |= answer.facts
                if answer.reason is None:
                    of.metrics[precision] = answer.metrics
                else:
                    of.reason = f"{precision}: {answer.reason}"
                if not answer.is_usable:
                    break
    return rates


def _plan(hardware: HardwareClass, stored: Sequence[Peak]) -> _Plan | None:
    """Return the node of a class and its request; None if all peaks are stored."""
    node = hardware.nodes[0]
    precisions = {"float32", "bf16"}
    gpu = None
    if hardware.device == "gpu":
        first = node.profile.gpus[0]
        gpu = None if node.id else first.uuid  # a cluster's Ray shows a task its own
        if int((first.compute_capability or f"{_TF32_SINCE}.0").split(".")[0]) >= _TF32_SINCE:
            precisions.add("tf32")
    present = {(p.backend, p.precision) for p in stored if p.hardware == hardware.id}
    backends = tuple(
        backend
        for backend in BACKENDS
        if backend in node.profile.packages
        and not {(backend, precision) for precision in precisions} <= present
    )
    if not backends:
        return None
    in_order = tuple(precision for precision in _PRECISIONS if precision in precisions)
    return hardware, node, PeakRequest(hardware.device, backends, in_order, gpu)


def _run_plans(
    plans: Sequence[_Plan], report: Callable[[str], object]
) -> Iterator[tuple[HardwareClass, Node, Mapping[str, BackendRates] | str]]:
    """Yield each class with the rates that its node measured, or why it did not."""
    remote = [plan for plan in plans if plan[1].id]
    for hardware, node, request in plans:
        if not node.id:
            name = hardware.name

            def begin(backend: str, name: str = name) -> None:
                report(f"measuring {name} with {backend} …")

            yield hardware, node, measure_rates(request, begin)
    if not remote:
        return
    import ray  # noqa: PLC0415  (seconds that this machine alone does without)

    task = ray.remote(measure_rates)
    references = []
    for hardware, node, request in remote:
        report(
            f"measuring {hardware.name} on {node.profile.hostname}: {', '.join(request.backends)}"
        )
        pinned = task.options(
            num_cpus=node.cpus,
            num_gpus=int(request.device == "gpu"),
            max_retries=0,
            label_selector={"ray.io/node-id": node.id},
        )
        references.append(pinned.remote(request))
    for (hardware, node, _), reference in zip(remote, references, strict=True):
        try:
            yield hardware, node, ray.get(reference)
        except ray.exceptions.RayError as error:
            yield hardware, node, last_line(error)


def _peaks(
    hardware: HardwareClass, node: Node, backend: str, answer: BackendRates
) -> Iterator[Peak]:
    of = versions(node.profile, backend, hardware.device)
    if hardware.device == "gpu":
        of |= {name: answer.facts[fact] for fact, name in _ON_A_GPU.items() if fact in answer.facts}
    at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for precision, metrics in answer.metrics.items():
        product = _rate(metrics, "product_flops_per_s")
        assert product is not None  # the workload always measures it
        copied = _rate(metrics, "copy_bytes_per_s")
        host = node.profile.hostname
        yield Peak(hardware.id, backend, precision, product, copied, of, host, at)


def _rate(metrics: Mapping[str, float], name: str) -> Rate | None:
    if name not in metrics:
        return None
    return Rate(metrics[name], metrics[f"{name}_low"], metrics[f"{name}_high"])
