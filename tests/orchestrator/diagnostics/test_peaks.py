"""Measured peaks, their nodes and their storage; with doubles of trainers, and with real ones."""

import dataclasses
import json
import os
import signal
import sys
from pathlib import Path
from unittest import mock

import pytest

from orchestrator.diagnostics import peaks
from orchestrator.diagnostics.peaks import (
    FILE_NAME,
    BackendRates,
    Peak,
    PeakRequest,
    Rate,
    measure_rates,
    store_peaks,
)
from orchestrator.hardware import Gpu, HardwareClass, Node, NodeProfile, classify
from workloads.context import Context

PACKAGES = {"tensorflow": "2.21.0", "keras": "3.15.1", "torch": "2.13.0"}
METRICS = {f"product_flops_per_s{end}": 2e11 for end in ("", "_low", "_high")}
RATE = Rate(2e11, 2e11, 2e11)


def pretended(trial: Context) -> dict[str, float]:
    """Return rates by precision; `fp16` fails, and `bf16` ends the trainer."""
    trial.environment(cuda_build=None, devices=os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    precision = trial.implementation.precision
    if precision == "fp16":
        raise ValueError("no such precision here")
    if precision == "bf16":
        print("out of memory")
        os.kill(os.getpid(), signal.SIGKILL)
    return {f"product_flops_per_s{end}": 1.0 for end in ("", "_low", "_high")}


def node(
    name: str = "a", *, gpus: tuple[Gpu, ...] = (), cluster: bool = False, **packages: str
) -> Node:
    profile = NodeProfile(name, "CPU A", 8, 16_000, gpus, "580.1", "Linux", "3.11")
    profile = dataclasses.replace(profile, packages={**PACKAGES, **packages})
    return Node(f"id-{name}" if cluster else "", profile, 8)


def gpu(capability: str | None = "9.0") -> Gpu:
    return Gpu(0, "NVIDIA H200", "GPU-aaaa", 140_000, compute_capability=capability)


def measure(
    home: Path, classes: tuple[HardwareClass, ...], *, fresh: bool = False
) -> tuple[peaks.PeakMeasurements, list[str]]:
    lines: list[str] = []
    return peaks.measure(classes, home, lines.append, fresh=fresh), lines


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[PeakRequest]:
    requests: list[PeakRequest] = []

    def answer(request: PeakRequest) -> dict[str, BackendRates]:
        requests.append(request)
        facts = {"cuda_build": "12.8", "cudnn_build": "9.1", "devices": "CPU", "python": "3.11"}
        metrics = dict.fromkeys(request.precisions, METRICS)
        return {backend: BackendRates(dict(metrics), facts) for backend in request.backends}

    monkeypatch.setattr(peaks, "measure_rates", answer)
    return requests


def test_each_backend_and_precision_of_a_class_is_measured_once(
    tmp_path: Path, asked: list[PeakRequest]
) -> None:
    classes = classify([node()])
    measured, lines = measure(tmp_path, classes)
    assert asked == [PeakRequest("cpu", ("tensorflow", "torch"), ("float32", "bf16"))]
    assert [(peak.backend, peak.precision) for peak in measured.peaks] == [
        (backend, precision)
        for backend in ("tensorflow", "torch")
        for precision in ("float32", "bf16")
    ]
    assert (measured.failures, len(lines)) == ((), 1)
    assert measured.peaks[0].versions == {"method": "1", "tensorflow": "2.21.0", "keras": "3.15.1"}
    assert measure(tmp_path, classes) == (measured, [])
    assert peaks.stored_peaks(tmp_path, classes) == measured.peaks
    measure(tmp_path, classes, fresh=True)
    assert len(asked) == 2


def test_other_versions_are_measured_again(tmp_path: Path, asked: list[PeakRequest]) -> None:
    measure(tmp_path, classify([node()]))
    newer = classify([node(torch="2.14.0")])
    assert {peak.backend for peak in peaks.stored_peaks(tmp_path, newer)} == {"tensorflow"}
    measure(tmp_path, newer)
    assert asked[-1].backends == ("torch",)
    assert len(peaks.stored_peaks(tmp_path, classify([node()]))) == 4, "the older ones stay"


@pytest.mark.parametrize(
    ("capability", "precisions"),
    [
        ("7.5", ("float32", "bf16")),
        ("12.0", ("float32", "tf32", "bf16")),
        (None, ("float32", "tf32", "bf16")),
    ],
)
def test_a_gpu_is_measured_in_tf32_where_it_has_it(
    tmp_path: Path, asked: list[PeakRequest], capability: str | None, precisions: tuple[str, ...]
) -> None:
    measured, _ = measure(tmp_path, classify([node(gpus=(gpu(capability),))]))
    assert asked[1] == PeakRequest("gpu", ("tensorflow", "torch"), precisions, "GPU-aaaa")
    versions = measured.peaks[-1].versions
    assert [versions[name] for name in ("driver", "cuda", "cudnn")] == ["580.1", "12.8", "9.1"]


def test_a_cluster_measures_on_a_node_of_each_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = mock.MagicMock()
    ray.exceptions.RayError = type("RayError", (Exception,), {})
    died = ray.exceptions.RayError("task failed\nthe worker died")
    ray.get.side_effect = [{"torch": BackendRates({"float32": METRICS})}, died]
    monkeypatch.setitem(sys.modules, "ray", ray)
    nodes = [node("a", cluster=True), node("b", cluster=True, gpus=(gpu(),))]
    measured, _ = measure(tmp_path, classify(nodes))
    pinned = ray.remote.return_value.options
    options = [call.kwargs for call in pinned.call_args_list]
    chosen = [(o["label_selector"], o["num_cpus"], o["num_gpus"]) for o in options]
    assert chosen == [({"ray.io/node-id": "id-a"}, 8, 0), ({"ray.io/node-id": "id-b"}, 8, 1)]
    requests = [call.args[0] for call in pinned.return_value.remote.call_args_list]
    assert [(request.device, request.gpu) for request in requests] == [("cpu", None), ("gpu", None)]
    assert {peak.node for peak in measured.peaks} == {"a"}
    (failure,) = measured.failures
    assert failure.endswith("could not be measured: the worker died")


def test_a_backend_that_fails_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        "tensorflow": BackendRates({"float32": METRICS}, {}, "bf16: it was ended by SIGKILL"),
        "torch": BackendRates({"float32": METRICS, "bf16": METRICS}),
    }
    monkeypatch.setattr(peaks, "measure_rates", lambda request: answers)
    measured, lines = measure(tmp_path, classify([node()]))
    assert len(measured.peaks) == 3
    (failure,) = measured.failures
    assert failure.endswith("could not be measured by tensorflow: bf16: it was ended by SIGKILL")
    assert failure in lines


@pytest.mark.parametrize("text", ["", "[]", '{"version": 3}', '{"version": 2, "peaks": [{}]}'])
def test_an_invalid_file_is_replaced(tmp_path: Path, text: str) -> None:
    classes = classify([node()])
    (tmp_path / FILE_NAME).write_text(text)
    assert peaks.stored_peaks(tmp_path, classes) == ()
    versions = {"method": "1", **PACKAGES}
    one = Peak(classes[0].id, "torch", "bf16", RATE, None, versions, "a", "2026-11-21T16:20:00Z")
    older = dataclasses.replace(one, precision="float32", versions={**versions, "method": "0"})
    store_peaks(tmp_path, [one, older])
    store_peaks(tmp_path, [dataclasses.replace(one, node="b")])
    assert peaks.stored_peaks(tmp_path, classes) == (dataclasses.replace(one, node="b"),)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert json.loads((tmp_path / FILE_NAME).read_text())["format"] == "rnnsweep-peaks"


def test_trainers_answer_for_each_precision_until_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "WORKLOAD", f"{__name__}:pretended")
    request = PeakRequest("gpu", ("torch", "jax"), ("fp16", "float32", "bf16", "tf32"), "GPU-aaaa")
    answers = measure_rates(request)
    assert list(answers) == ["torch", "jax"]
    for answer in answers.values():
        assert list(answer.metrics) == ["float32"]
        assert answer.facts.keys() == {"devices", "packages"}  # absent facts are left out
        assert str(answer.reason).endswith("SIGKILL; its last output: out of memory")
