"""Measure what is not kept yet: on this machine, or on one node of each class of a cluster."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.diagnostics.peaks.cache import keep, kept, versions
from orchestrator.diagnostics.peaks.on_nodes import NodeTask, on_nodes
from orchestrator.diagnostics.peaks.worker import BackendRates, PeakRequest, ask
from orchestrator.hardware import HardwareClass, Node
from orchestrator.hardware.peak import Peak
from workloads.implementations import BACKENDS

Report = Callable[[str], object]

_TF32_SINCE = 8
"""The major compute capability of the first GPUs with TF32; Ampere's."""

_ON_A_GPU = {"cuda_build": "cuda", "cudnn_build": "cudnn", "devices": "devices"}
"""What a trainer on a GPU tells of itself -> as it stands among a peak's versions."""


@dataclass(frozen=True, slots=True)
class PeakMeasurements:
    """The peaks of all classes, and a sentence for each that could not be measured."""

    peaks: tuple[Peak, ...]
    failures: tuple[str, ...]


def measure(
    classes: Sequence[HardwareClass], home: Path, tell: Report, *, fresh: bool = False
) -> PeakMeasurements:
    """The peaks of all classes; those that are kept are not measured again, unless `fresh`.

    Nodes of a cluster that is connected measure side by side, each for its class; a node takes as
    many CPUs and GPUs for it as a trial would, and so waits for trials that run there.

    Args:
        classes: the hardware classes.
        home: where they are kept.
        tell: is given a line for each step, and for what went wrong.
        fresh: measure all of them anew.
    """
    known = () if fresh else kept(home, classes)
    plans = [plan for each in classes if (plan := _plan(each, known)) is not None]
    found: list[Peak] = []
    failures: list[str] = []
    for hardware, node, answers in _asked(plans, tell):
        if isinstance(answers, str):
            failures.append(f"{hardware.name} is not measured: {answers}")
            continue
        for backend, answer in answers.items():
            found += _peaks(hardware, node, backend, answer)
            if answer.reason is not None:
                failures.append(f"{hardware.name} is not measured by {backend}: {answer.reason}")
    for failure in failures:
        tell(failure)
    if found:
        try:
            keep(home, found)
        except OSError as error:
            tell(f"the peaks are not kept in {home}: {error.strerror or error}")
    return PeakMeasurements(_in_order(classes, (*known, *found)), tuple(failures))


_Plan = tuple[HardwareClass, Node, PeakRequest]


def _plan(hardware: HardwareClass, known: Sequence[Peak]) -> _Plan | None:
    """What is to be asked of which node of a class; None where all is known."""
    node = hardware.nodes[0]
    installed = [backend for backend in BACKENDS if backend in node.profile.packages]
    precisions = ["float32", "bf16"]
    gpu = None
    if hardware.device == "gpu":
        first = node.profile.gpus[0]
        gpu = None if node.id else first.uuid  # a cluster's Ray shows a task its own
        if int((first.compute_capability or f"{_TF32_SINCE}.0").split(".")[0]) >= _TF32_SINCE:
            precisions.insert(1, "tf32")
    there = {(each.backend, each.precision) for each in known if each.hardware == hardware.id}
    backends = tuple(
        backend
        for backend in installed
        if not {(backend, precision) for precision in precisions} <= there
    )
    if not backends:
        return None
    return hardware, node, PeakRequest(hardware.device, backends, tuple(precisions), gpu)


def _asked(
    plans: Sequence[_Plan], tell: Report
) -> Iterator[tuple[HardwareClass, Node, Mapping[str, BackendRates] | str]]:
    """Each class and what its node answered, or why it did not."""
    for hardware, node, request in plans:
        if not node.id:
            name = hardware.name

            def begin(backend: str, name: str = name) -> None:
                tell(f"measuring {name} with {backend} …")

            yield hardware, node, ask(request, begin)
    remote = [plan for plan in plans if plan[1].id]
    for hardware, node, request in remote:
        tell(f"measuring {hardware.name} on {node.profile.hostname}: {', '.join(request.backends)}")
    tasks = [
        NodeTask(node, node.cpus, int(request.device == "gpu"), (request,))
        for _, node, request in remote
    ]
    for (hardware, node, _), answer in zip(remote, on_nodes(ask, tasks), strict=True):
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
    """By class, backend and precision; of two the newer one."""
    ids = [each.id for each in classes]
    newest = {(each.hardware, each.backend, each.precision): each for each in peaks}
    order = ("float32", "tf32", "bf16")
    return tuple(
        sorted(
            newest.values(),
            key=lambda p: (ids.index(p.hardware), p.backend, order.index(p.precision)),
        )
    )
