"""The peaks of the hardware: a short roofline of each class, measured by trainers and stored.

A trainer process measures each class alone (`docs/hardware.md`). The peaks are kept in the sweep
home (`peaks.json`) by hardware class and versions. A trial measures its own `peak_flops_per_s`.
"""

import dataclasses
import datetime
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ValidationError

from orchestrator.core.arms import HardwareRef
from orchestrator.core.errors import last_line
from orchestrator.execution.trainer_answers import TrainerAnswer, ask_trainer
from orchestrator.execution.trainer_process import TrainerProcess
from orchestrator.hardware import HardwareClass, Node, NodeProfile, only_visible_environment
from workloads.backends.backend import CUDNN_PACKAGES
from workloads.backends.registry import backends
from workloads.data.cache import atomic_write
from workloads.implementations import MIN_CAPABILITY, Implementation
from workloads.protocol import Device, TrialRequest

PEAK_RATES_WORKLOAD = "workloads.diagnostics.peak_rates:measure_rates"
METHOD = "1"
"""The version of the method of `workloads.measuring.roofline`; a change of it changes this."""

PEAKS_FILE = "peaks.json"
_PRECISIONS = ("float32", "tf32", "bf16")

_ANSWER_S = 1_200.0
"""How long the nodes of a cluster are waited for, which may be busy with trials of others."""

_QUIET = 1.5
"""Rounds of an idle device differ by less; on shared virtual cores by a third."""

_ON_A_GPU = {"cuda_build": "cuda", "cudnn_build": "cudnn", "devices": "devices"}
"""Facts that a trainer on a GPU reports -> their names among a peak's versions."""


@dataclass(frozen=True, slots=True)
class PeakRate:
    """A rate per second: the median of several rounds, and the slowest and fastest of them."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Peak:
    """The peaks of a class of hardware (its id) under one backend, in one precision.

    `flops_per_s` is of a matrix product, `bytes_per_s` of a copy, with read and written bytes; None
    with `tf32`, which is one of products only. `versions` are of what it may depend on: packages,
    driver, CUDA, cuDNN. `at` is when it was measured, in UTC (`2026-11-21T16:20:00Z`).
    """

    hardware: str
    backend: str
    precision: str
    flops_per_s: PeakRate
    bytes_per_s: PeakRate | None
    versions: Mapping[str, str]
    node: str
    at: str

    @property
    def is_disturbed(self) -> bool:
        """True where rounds differ so much that other work must have taken the machine."""
        rates = filter(None, (self.flops_per_s, self.bytes_per_s))
        return any(rate.high > _QUIET * rate.low for rate in rates)

    def as_json(self) -> dict[str, Any]:
        """Return the peak without its hardware class."""
        return {name: own for name, own in dataclasses.asdict(self).items() if name != "hardware"}


class _Store(BaseModel):
    """The content of the file."""

    format: Literal["rnnsweep-peaks"] = "rnnsweep-peaks"
    version: Literal[2] = 2
    peaks: tuple[Peak, ...]


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
    classes: Sequence[HardwareClass],
    home: Path,
    report: Callable[[str], object],
    *,
    fresh: bool = False,
) -> PeakResults:
    """Measure and store the peaks of all classes that are not stored (or `fresh`), and return all.

    Nodes of a cluster measure at the same time, one per class, with as many CPUs and GPUs as a
    trial. `report` prints a line for each step and for each failure.
    """
    stored = () if fresh else stored_peaks(home, classes)
    requests = [
        request
        for hardware_class in classes
        if (request := _request(hardware_class, stored)) is not None
    ]
    measured, failures = list[Peak](), list[str]()
    for peaks, failed in _run(requests, report):
        measured += peaks
        failures += failed
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
    return tuple(newest[key] for key in order), tuple(failures)


def measure_peaks(request: PeakRequest) -> PeakResults:
    """Measure a node here: one backend after another, so that none disturbs another."""
    environ, device = dict(os.environ), request.hardware.device
    if request.gpu is not None:
        environ.update(only_visible_environment(request.node.profile, [request.gpu]))
    peaks, failures = list[Peak](), list[str]()
    for backend in request.backends:
        with TrainerProcess(
            Implementation(backend, "portable"), device, environ=environ
        ) as trainer:
            for precision in request.precisions:
                options = () if precision == "float32" else (precision,)
                implementation = str(Implementation(backend, "portable", options))
                answer = ask_trainer(
                    trainer, TrialRequest(PEAK_RATES_WORKLOAD, implementation, device=device)
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
    hardware, profile = request.hardware, request.node.profile
    of = versions(profile, backend, hardware.device)
    if hardware.device == "gpu":
        of |= {name: answer.facts[fact] for fact, name in _ON_A_GPU.items() if fact in answer.facts}
    product, name = _rate(answer.metrics, "product_flops_per_s"), "copy_bytes_per_s"
    copied = _rate(answer.metrics, name) if name in answer.metrics else None
    at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Peak(hardware.id, backend, precision, product, copied, of, profile.hostname, at)


def _rate(metrics: Mapping[str, float], name: str) -> PeakRate:
    return PeakRate(metrics[name], metrics[f"{name}_low"], metrics[f"{name}_high"])


def _request(hardware: HardwareClass, stored: Sequence[Peak]) -> PeakRequest | None:
    """Return what to measure of a class; None if all peaks are stored."""
    node, gpu, has_tf32 = hardware.nodes[0], None, False
    if hardware.device == "gpu":
        first = node.profile.gpus[0]
        gpu = None if node.id else first.uuid  # a cluster's Ray shows a task its own
        since = MIN_CAPABILITY["tf32"]
        has_tf32 = (hardware.compute_capability or since) >= since
    precisions = tuple(name for name in _PRECISIONS if name != "tf32" or has_tf32)
    present = {(p.backend, p.precision) for p in stored if p.hardware == hardware.id}
    missing = tuple(
        name
        for name, backend in backends().items()
        if backend.recorded_distributions[0] in node.profile.packages
        and not {(name, precision) for precision in precisions} <= present
    )
    return PeakRequest(hardware.ref, node, missing, precisions, gpu) if missing else None


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
            num_gpus=int(request.hardware.device == "gpu"),
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


def versions(profile: NodeProfile, backend: str, device: Device) -> dict[str, str]:
    """Return the versions of a node that a peak depends on: its key in the store."""
    registered = backends().get(backend)
    names = ["keras", *(registered.recorded_distributions if registered else (backend,))]
    by_name = {"method": METHOD}
    if device == "gpu":
        names += CUDNN_PACKAGES
        by_name["driver"] = profile.driver or "unknown"
    return by_name | {name: profile.packages[name] for name in names if name in profile.packages}


def stored_peaks(home: Path, classes: Iterable[HardwareClass]) -> tuple[Peak, ...]:
    """Return the stored peaks of these classes for the versions of their nodes."""
    stored = _read(home / PEAKS_FILE)
    return tuple(
        peak
        for hardware in classes
        for peak in stored
        if peak.hardware == hardware.id
        and any(
            versions(node.profile, peak.backend, hardware.device).items() <= peak.versions.items()
            for node in hardware.nodes
        )
    )


def store_peaks(home: Path, peaks: Sequence[Peak]) -> None:
    """Add peaks to the stored ones, which replace peaks of the same versions; may be an OSError."""
    all_peaks = {
        (peak.hardware, peak.backend, peak.precision, *sorted(peak.versions.items())): peak
        for peak in (*_read(home / PEAKS_FILE), *peaks)
    }
    content = _Store(peaks=tuple(all_peaks.values())).model_dump_json(indent=2)
    with atomic_write(home / PEAKS_FILE) as file:  # another process may read it just now
        file.write(content.encode())


def _read(file: Path) -> tuple[Peak, ...]:
    """Return the peaks in the file, or none if it is absent or invalid: it can be made again."""
    try:
        return _Store.model_validate_json(file.read_bytes()).peaks
    except (OSError, ValidationError):
        return ()
