"""Measured peaks, their nodes and their storage, with a double of the trainers."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.diagnostics import peaks
from orchestrator.diagnostics.peaks import measurement
from orchestrator.diagnostics.peaks.cache import FILE_NAME, store_peaks
from orchestrator.diagnostics.peaks.worker import BackendRates, PeakRequest, Reading
from orchestrator.hardware import Gpu, HardwareClass, Node, NodeProfile, classify
from orchestrator.hardware.peak import Peak, Rate

PACKAGES = {"tensorflow": "2.21.0", "keras": "3.15.1", "torch": "2.13.0"}
RATE = Rate(2e11, 1e11, 3e11)
SLOW = Rate(1e9, 1e9, 1e9)


def node(
    name: str = "a", *, gpus: tuple[Gpu, ...] = (), cluster: bool = False, **packages: str
) -> Node:
    profile = NodeProfile(name, "CPU A", 8, 16_000, gpus, "580.1", "Linux", "3.11")
    profile = dataclasses.replace(profile, packages={**PACKAGES, **packages})
    return Node(f"id-{name}" if cluster else "", profile, 8)


def gpu(capability: str | None = "9.0") -> Gpu:
    return Gpu(0, "NVIDIA H200", "GPU-aaaa", 140_000, compute_capability=capability)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[PeakRequest]:
    """The requests to trainers, which all succeed."""
    requests: list[PeakRequest] = []

    def ask(
        request: PeakRequest, begin: Callable[[str], object] = str
    ) -> Mapping[str, BackendRates]:
        requests.append(request)
        for backend in request.backends:
            begin(backend)
        readings = [Reading(precision, RATE, None) for precision in request.precisions]
        facts = {"cuda_build": "12.8", "cudnn_build": "9.1", "devices": "CPU", "python": "3.11"}
        return {backend: BackendRates(list(readings), dict(facts)) for backend in request.backends}

    monkeypatch.setattr(measurement, "measure_rates", ask)
    return requests


def measure(
    home: Path, classes: tuple[HardwareClass, ...], *, fresh: bool = False
) -> tuple[peaks.PeakMeasurements, list[str]]:
    lines: list[str] = []
    return peaks.measure(classes, home, lines.append, fresh=fresh), lines


def test_each_backend_and_precision_of_a_class_is_measured_once(
    tmp_path: Path, asked: list[PeakRequest]
) -> None:
    classes = classify([node()])
    measured, lines = measure(tmp_path, classes)
    assert asked == [PeakRequest("cpu", ("tensorflow", "torch"), ("float32", "bf16"))]
    assert [(peak.backend, peak.precision) for peak in measured.peaks] == [
        ("tensorflow", "float32"),
        ("tensorflow", "bf16"),
        ("torch", "float32"),
        ("torch", "bf16"),
    ]
    assert measured.failures == ()
    assert lines == [f"measuring CPU A, 8 CPUs with {name} …" for name in ("tensorflow", "torch")]
    assert measured.peaks[0].versions == {"method": "1", "tensorflow": "2.21.0", "keras": "3.15.1"}
    repeated, lines = measure(tmp_path, classes)
    assert (repeated, lines, len(asked)) == (measured, [], 1)
    assert peaks.stored_peaks(tmp_path, classes) == measured.peaks
    measure(tmp_path, classes, fresh=True)
    assert len(asked) == 2


def test_other_versions_are_measured_again(tmp_path: Path, asked: list[PeakRequest]) -> None:
    measure(tmp_path, classify([node()]))
    newer = classify([node(torch="2.14.0")])
    assert {peak.backend for peak in peaks.stored_peaks(tmp_path, newer)} == {"tensorflow"}
    measured, _ = measure(tmp_path, newer)
    assert asked[-1].backends == ("torch",)
    assert {peak.versions["torch"] for peak in measured.peaks if peak.backend == "torch"} == {
        "2.14.0"
    }
    assert len(peaks.stored_peaks(tmp_path, classify([node()]))) == 4, "the older ones stay"


@pytest.mark.parametrize(
    ("capability", "precisions"),
    [
        ("9.0", ("float32", "tf32", "bf16")),
        ("7.5", ("float32", "bf16")),
        ("12.0", ("float32", "tf32", "bf16")),
        (None, ("float32", "tf32", "bf16")),
    ],
)
def test_a_gpu_is_measured_in_tf32_where_it_has_it(
    tmp_path: Path, asked: list[PeakRequest], capability: str | None, precisions: tuple[str, ...]
) -> None:
    measured, _ = measure(tmp_path, classify([node(gpus=(gpu(capability),))]))
    assert [request.device for request in asked] == ["cpu", "gpu"]
    assert asked[1] == PeakRequest("gpu", ("tensorflow", "torch"), precisions, "GPU-aaaa")
    versions = measured.peaks[-1].versions
    assert [versions[name] for name in ("driver", "cuda", "cudnn")] == ["580.1", "12.8", "9.1"]


class Ray:
    """As much of Ray as a pinned task speaks to."""

    class exceptions:  # noqa: N801  (as Ray has it)
        class RayError(Exception):
            """Any error of Ray's."""

    def __init__(self, fails: str = "", message: str = "") -> None:
        self.options: list[dict[str, Any]] = []
        self._fails, self._message = fails, message

    def remote(self, function: Callable[..., Any]) -> SimpleNamespace:
        def options(**chosen: Any) -> SimpleNamespace:
            self.options.append(chosen)
            return SimpleNamespace(remote=lambda *arguments: (function, arguments))

        return SimpleNamespace(options=options)

    def get(self, reference: Any) -> Any:
        function, arguments = reference
        if arguments[0].device == self._fails:
            raise Ray.exceptions.RayError(self._message)
        return function(*arguments)


def test_a_cluster_measures_on_a_node_of_each_class(
    tmp_path: Path, asked: list[PeakRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = Ray()
    monkeypatch.setitem(sys.modules, "ray", ray)
    nodes = [node("a", cluster=True), node("b", cluster=True, gpus=(gpu(),))]
    measured, lines = measure(tmp_path, classify(nodes))
    assert [options["label_selector"] for options in ray.options] == [
        {"ray.io/node-id": "id-a"},
        {"ray.io/node-id": "id-b"},
    ]
    assert [(o["num_cpus"], o["num_gpus"]) for o in ray.options] == [(8, 0), (8, 1)]
    assert [request.gpu for request in asked] == [None, None]  # Ray shows a task its GPU
    assert {peak.node for peak in measured.peaks} == {"a", "b"}
    assert lines == [
        "measuring CPU A, 8 CPUs on a: tensorflow, torch",
        "measuring NVIDIA H200 (CPU A, 8 CPUs) on b: tensorflow, torch",
    ]


@pytest.mark.parametrize(
    ("message", "reason"), [("task failed\nthe worker died", "the worker died"), ("", "RayError")]
)
def test_a_node_that_fails_costs_its_class_only(
    tmp_path: Path,
    asked: list[PeakRequest],
    monkeypatch: pytest.MonkeyPatch,
    message: str,
    reason: str,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", Ray(fails="gpu", message=message))
    nodes = [node("a", cluster=True), node("b", cluster=True, gpus=(gpu(),))]
    measured, lines = measure(tmp_path, classify(nodes))
    failure = f"NVIDIA H200 (CPU A, 8 CPUs) could not be measured: {reason}"
    assert measured.failures == (failure,)
    assert lines[-1] == failure
    assert {peak.hardware for peak in measured.peaks} == {"CPU A/8"}
    assert measurement.run_on_nodes(print, []) == []


def test_a_backend_that_fails_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        "tensorflow": BackendRates(
            [Reading("float32", RATE, SLOW)], {}, "bf16: it was ended by SIGKILL"
        ),
        "torch": BackendRates([Reading("float32", RATE, SLOW), Reading("bf16", RATE, SLOW)]),
    }
    monkeypatch.setattr(measurement, "measure_rates", lambda request, begin: answers)
    measured, lines = measure(tmp_path, classify([node()]))
    assert len(measured.peaks) == 3
    (failure,) = measured.failures
    assert failure.endswith("could not be measured by tensorflow: bf16: it was ended by SIGKILL")
    assert failure in lines


def test_a_home_that_cannot_be_written_stores_nothing(
    tmp_path: Path, asked: list[PeakRequest]
) -> None:
    file = tmp_path / "file"
    file.touch()
    measured, lines = measure(file / "home", classify([node()]))
    assert len(measured.peaks) == 4
    assert lines[-1].startswith(f"the peaks cannot be stored in {file / 'home'}: ")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 3}', '{"version": 2}', '{"version": 2, "peaks": [{"node": 1}]}'],
)
def test_an_invalid_file_is_replaced(tmp_path: Path, text: str) -> None:
    classes = classify([node()])
    (tmp_path / FILE_NAME).write_text(text)
    assert peaks.stored_peaks(tmp_path, classes) == ()
    versions = {"method": "1", **PACKAGES}
    one = Peak(classes[0].id, "torch", "bf16", RATE, None, versions, "a", "2026-11-21T16:20:00Z")
    store_peaks(tmp_path, [one])
    store_peaks(tmp_path, [dataclasses.replace(one, node="b")])
    assert peaks.stored_peaks(tmp_path, classes) == (dataclasses.replace(one, node="b"),)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert json.loads((tmp_path / FILE_NAME).read_text())["format"] == "rnnsweep-peaks"


def test_a_peak_of_another_method_is_no_longer_one(tmp_path: Path) -> None:
    classes = classify([node()])
    versions = {"method": "0", **PACKAGES}
    store_peaks(tmp_path, [Peak(classes[0].id, "torch", "bf16", RATE, None, versions, "a", "then")])
    assert peaks.stored_peaks(tmp_path, classes) == ()
