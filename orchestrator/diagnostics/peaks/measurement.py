"""Measure peaks that are not stored yet, on this machine or on one node per class of a cluster."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.core.errors import last_line
from orchestrator.diagnostics.peaks.cache import store_peaks, stored_peaks, versions
from orchestrator.diagnostics.peaks.worker import BackendRates, PeakRequest, measure_rates
from orchestrator.hardware import HardwareClass, Node
from orchestrator.hardware.peak import Peak
from workloads.implementations import BACKENDS

Report = Callable[[str], object]
"""Prints a line of progress."""

_TF32_SINCE = 8
"""The major compute capability of the first GPUs with TF32 (Ampere)."""

_ON_A_GPU = {"cuda_build": "cuda", "cudnn_build": "cudnn", "devices": "devices"}
"""Facts that a trainer on a GPU reports -> their names among a peak's versions."""


@dataclass(frozen=True, slots=True)
class PeakMeasurements:
    """The peaks of all classes, and a sentence for each failed measurement."""

    peaks: tuple[Peak, ...]
    failures: tuple[str, ...]


def measure(
    classes: Sequence[HardwareClass], home: Path, report: Report, *, fresh: bool = False
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
                failures.append(
                    f"{hardware.name} could not be measured by {backend}: {answer.reason}"
                )
    for failure in failures:
        report(failure)
    if measured:
        try:
            store_peaks(home, measured)
        except OSError as error:
            report(f"the peaks cannot be stored in {home}: {error.strerror or error}")
    return PeakMeasurements(_in_order(classes, (*stored, *measured)), tuple(failures))


_Plan = tuple[HardwareClass, Node, PeakRequest]


def _plan(hardware: HardwareClass, stored: Sequence[Peak]) -> _Plan | None:
    """Return the node of a class and its request; None if all peaks are stored."""
    node = hardware.nodes[0]
    installed = [backend for backend in BACKENDS if backend in node.profile.packages]
    precisions = ["float32", "bf16"]
    gpu = None
    if hardware.device == "gpu":
        first = node.profile.gpus[0]
        gpu = None if node.id else first.uuid  # a cluster's Ray shows a task its own
        if int((first.compute_capability or f"{_TF32_SINCE}.0").split(".")[0]) >= _TF32_SINCE:
            precisions.insert(1, "tf32")
    present = {(p.backend, p.precision) for p in stored if p.hardware == hardware.id}
    backends = tuple(
        backend
        for backend in installed
        if not {(backend, precision) for precision in precisions} <= present
    )
    if not backends:
        return None
    return hardware, node, PeakRequest(hardware.device, backends, tuple(precisions), gpu)


def _run_plans(
    plans: Sequence[_Plan], report: Report
) -> Iterator[tuple[HardwareClass, Node, Mapping[str, BackendRates] | str]]:
    """Yield each class with the rates that its node measured, or why it did not."""
    for hardware, node, request in plans:
        if not node.id:
            name = hardware.name

            def begin(backend: str, name: str = name) -> None:
                report(f"measuring {name} with {backend} …")

            yield hardware, node, measure_rates(request, begin)
    remote = [plan for plan in plans if plan[1].id]
    for hardware, node, request in remote:
        report(
            f"measuring {hardware.name} on {node.profile.hostname}: {', '.join(request.backends)}"
        )
    tasks = [
        NodeTask(node, node.cpus, int(request.device == "gpu"), (request,))
        for _, node, request in remote
    ]
    for (hardware, node, _), answer in zip(remote, run_on_nodes(measure_rates, tasks), strict=True):
        yield hardware, node, str(answer) if isinstance(answer, Exception) else answer


def _peaks(hardware: HardwareClass, node: Node, backend: str, answer: BackendRates) -> list[Peak]:
    of = versions(node.profile, backend, hardware.device)
    if hardware.device == "gpu":
        of |= {name: answer.facts[fact] for fact, name in _ON_A_GPU.items() if fact in answer.facts}
    at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        Peak(
            hardware.id,
            backend,
            reading.precision,
            reading.flops_per_s,
            reading.bytes_per_s,
            of,
            node.profile.hostname,
            at,
        )
        for reading in answer.readings
    ]


def _in_order(classes: Sequence[HardwareClass], peaks: Sequence[Peak]) -> tuple[Peak, ...]:
    """Sort by class, backend and precision; of two equal ones keep the newer."""
    ids = [hardware.id for hardware in classes]
    newest = {(peak.hardware, peak.backend, peak.precision): peak for peak in peaks}
    order = ("float32", "tf32", "bf16")
    return tuple(
        sorted(
            newest.values(),
            key=lambda p: (ids.index(p.hardware), p.backend, order.index(p.precision)),
        )
    )


@dataclass(frozen=True, slots=True)
class NodeTask:
    """A call on a node, with the resources that it takes and its arguments."""

    node: Node
    cpus: int
    gpus: int
    arguments: tuple[Any, ...]


def run_on_nodes(function: Callable[..., Any], tasks: Sequence[NodeTask]) -> list[Any]:
    """Run tasks at the same time; return the result of each, or the error of Ray that ended it.

    A task waits for its node's CPUs and GPUs as a trial does.
    """
    if not tasks:
        return []
    import ray  # noqa: PLC0415  (seconds that this machine alone does without)

    remote = ray.remote(function)
    waiting = [
        remote.options(
            num_cpus=task.cpus,
            num_gpus=task.gpus,
            max_retries=0,
            label_selector={"ray.io/node-id": task.node.id},
        ).remote(*task.arguments)
        for task in tasks
    ]
    return [_result(reference) for reference in waiting]


def _result(reference: Any) -> Any:
    import ray  # noqa: PLC0415

    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return RuntimeError(last_line(error))
