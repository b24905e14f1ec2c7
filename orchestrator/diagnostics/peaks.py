"""The peaks of the hardware: a short roofline of each class, measured by trainers and stored.

A trainer process measures each class alone (`docs/hardware.md`). The peaks are kept in the sweep
home (`peaks.json`) by hardware class and versions. A trial measures its own `peak_flops_per_s`.
"""

import dataclasses
import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from orchestrator.core.errors import last_line
from orchestrator.diagnostics.trainer_answers import ask
from orchestrator.execution.trainer_process import Trainer
from orchestrator.hardware import HardwareClass, Node, NodeProfile
from workloads.data.cache import atomic_write
from workloads.implementations import BACKENDS, Implementation
from workloads.protocol import Device, TrialRequest

WORKLOAD = "workloads.tasks.peak_rates:measure"
METHOD = "1"
"""The version of the method of `workloads.measuring.roofline`; a change of it changes this."""

FILE_NAME = "peaks.json"
_PRECISIONS = ("float32", "tf32", "bf16")
_TF32_SINCE = 8
"""The major compute capability of the first GPUs with TF32 (Ampere)."""

_QUIET = 1.5
"""Rounds of an idle device differ by less; on shared virtual cores by a third."""

_COMPANIONS: Mapping[str, Sequence[str]] = {"jax": ("jaxlib",)}
_OF_GPUS = ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13")
_ON_A_GPU = {"cuda_build": "cuda", "cudnn_build": "cudnn", "devices": "devices"}
"""Facts that a trainer on a GPU reports -> their names among a peak's versions."""


@dataclass(frozen=True, slots=True)
class Rate:
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
    flops_per_s: Rate
    bytes_per_s: Rate | None
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
        body = dataclasses.asdict(self)
        del body["hardware"]
        return body


class _Store(BaseModel):
    """The content of the file."""

    format: Literal["rnnsweep-peaks"] = "rnnsweep-peaks"
    version: Literal[2] = 2
    peaks: tuple[Peak, ...]


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
    """Measure and store the peaks of all classes that are not stored (or `fresh`), and return all.

    Nodes of a cluster measure at the same time, one per class, with as many CPUs and GPUs as a
    trial. `report` prints a line for each step and for each failure.
    """
    stored = () if fresh else stored_peaks(home, classes)
    plans = [plan for hardware in classes if (plan := _plan(hardware, stored)) is not None]
    measured: list[Peak] = []
    failures: list[str] = []
    for hardware, node, answers in _run_plans(plans, report):
        for backend, answer in answers.items():
            measured += _peaks(hardware, node, backend, answer)
            if answer.reason is not None:
                by = f" by {backend}" if backend else ""
                failures.append(f"{hardware.name} could not be measured{by}: {answer.reason}")
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


def measure_rates(request: PeakRequest) -> dict[str, BackendRates]:
    """Return the rates of each backend, one after another, so that none disturbs another."""
    environ = dict(os.environ)
    if request.gpu is not None:
        environ["CUDA_VISIBLE_DEVICES"] = request.gpu
    rates: dict[str, BackendRates] = {}
    for backend in request.backends:
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
    node, gpu, has_tf32 = hardware.nodes[0], None, False
    if hardware.device == "gpu":
        first = node.profile.gpus[0]
        gpu = None if node.id else first.uuid  # a cluster's Ray shows a task its own
        capability = first.compute_capability or f"{_TF32_SINCE}.0"
        has_tf32 = int(capability.split(".")[0]) >= _TF32_SINCE
    precisions = tuple(name for name in _PRECISIONS if name != "tf32" or has_tf32)
    present = {(p.backend, p.precision) for p in stored if p.hardware == hardware.id}
    backends = tuple(
        backend
        for backend in BACKENDS
        if backend in node.profile.packages
        and not {(backend, precision) for precision in precisions} <= present
    )
    request = PeakRequest(hardware.device, backends, precisions, gpu)
    return (hardware, node, request) if backends else None


def _run_plans(
    plans: Sequence[_Plan], report: Callable[[str], object]
) -> Iterator[tuple[HardwareClass, Node, Mapping[str, BackendRates]]]:
    """Yield each class with the rates that its node measured, by backend, or why it did not."""
    references = []
    for hardware, node, request in plans:
        backends = ", ".join(request.backends)
        report(f"measuring {hardware.name} on {node.profile.hostname}: {backends}")
        if not node.id:
            yield hardware, node, measure_rates(request)
            continue
        import ray  # noqa: PLC0415  (seconds that this machine alone does without)

        pinned = ray.remote(measure_rates).options(
            num_cpus=node.cpus,
            num_gpus=int(request.device == "gpu"),
            max_retries=0,
            label_selector={"ray.io/node-id": node.id},
        )
        references.append((hardware, node, pinned.remote(request)))
    for hardware, node, reference in references:
        try:
            yield hardware, node, ray.get(reference)
        except ray.exceptions.RayError as error:
            yield hardware, node, {"": BackendRates(reason=last_line(error))}


def _peaks(
    hardware: HardwareClass, node: Node, backend: str, answer: BackendRates
) -> Iterator[Peak]:
    of = versions(node.profile, backend, hardware.device)
    if hardware.device == "gpu":
        of |= {name: answer.facts[fact] for fact, name in _ON_A_GPU.items() if fact in answer.facts}
    at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for precision, metrics in answer.metrics.items():
        product, name = _rate(metrics, "product_flops_per_s"), "copy_bytes_per_s"
        copied = _rate(metrics, name) if name in metrics else None
        host = node.profile.hostname
        yield Peak(hardware.id, backend, precision, product, copied, of, host, at)


def _rate(metrics: Mapping[str, float], name: str) -> Rate:
    return Rate(metrics[name], metrics[f"{name}_low"], metrics[f"{name}_high"])


def versions(profile: NodeProfile, backend: str, device: Device) -> dict[str, str]:
    """Return the versions of a node that a peak depends on: its key in the store."""
    names = [backend, "keras", *_COMPANIONS.get(backend, ())]
    by_name = {"method": METHOD}
    if device == "gpu":
        names += _OF_GPUS
        by_name["driver"] = profile.driver or "unknown"
    return by_name | {name: profile.packages[name] for name in names if name in profile.packages}


def stored_peaks(home: Path, classes: Iterable[HardwareClass]) -> tuple[Peak, ...]:
    """Return the stored peaks of these classes for the versions of their nodes."""
    stored = _read(home / FILE_NAME)
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
    """Add peaks to the stored ones, and replace those of the same versions; may be an OSError."""
    all_peaks = {
        (peak.hardware, peak.backend, peak.precision, *sorted(peak.versions.items())): peak
        for peak in (*_read(home / FILE_NAME), *peaks)
    }
    content = _Store(peaks=tuple(all_peaks.values())).model_dump_json(indent=2)
    with atomic_write(home / FILE_NAME) as file:  # another process may read it just now
        file.write(content.encode())


def _read(file: Path) -> tuple[Peak, ...]:
    """Return the peaks in the file, or none if it is absent or invalid: it can be made again."""
    try:
        return _Store.model_validate_json(file.read_bytes()).peaks
    except (OSError, ValidationError):
        return ()
