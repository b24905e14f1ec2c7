"""Measured peaks, their nodes and their storage; with doubles of trainers, and with real ones."""

import dataclasses
import itertools
import json
import os
import signal
import sys
from pathlib import Path
from unittest import mock

import pytest

from orchestrator.diagnostics import peaks
from orchestrator.diagnostics.peaks import (
    PEAKS_FILE,
    Peak,
    PeakRate,
    PeakRequest,
    measure_peaks,
    store_peaks,
)
from orchestrator.execution.trainer_answers import TrainerAnswer
from orchestrator.hardware import Gpu, HardwareClass, Node, classify
from orchestrator.hardware.gpu_readers.nvml import NvmlReader
from tests.building.hardware import build_gpu, build_node
from workloads.context import Context
from workloads.protocol import TrialRequest

PACKAGES = {"tensorflow": "2.21.0", "keras": "3.15.1", "torch": "2.13.0"}
METRICS = {f"product_flops_per_s{end}": 2e11 for end in ("", "_low", "_high")}
FACTS = {"cuda_build": "12.8", "cudnn_build": "9.1", "devices": "CPU", "python": "3.11"}
H200 = build_gpu(uuid="GPU-aaaa", compute_capability="9.0")
RATE = PeakRate(2e11, 2e11, 2e11)


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


def build_tested_node(
    name: str = "a", *, gpus: tuple[Gpu, ...] = (), ray_id: str = "", **packages: str
) -> Node:
    """Return a node that has the packages of this test, or other versions of them."""
    return build_node(
        name,
        cpus=8,
        gpus=gpus,
        ray_id=ray_id,
        driver="580.1",
        packages={**PACKAGES, **packages},
        gpu_reader=NvmlReader.info,
    )


def measure(
    home: Path, classes: tuple[HardwareClass, ...], *, fresh: bool = False
) -> tuple[peaks.PeakResults, list[str]]:
    lines: list[str] = []
    return peaks.peaks_of_classes(classes, home, lines.append, fresh=fresh), lines


def kinds(measured: tuple[Peak, ...]) -> list[tuple[str, str]]:
    return [(peak.backend, peak.precision) for peak in measured]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The implementations that trainers were asked for; those in bf16 on JAX do not answer."""
    asked: list[str] = []

    def answer(_: object, request: TrialRequest) -> TrainerAnswer:
        asked.append(request.implementation)
        if request.implementation == "jax/portable+bf16":
            return TrainerAnswer("it was ended by SIGKILL", is_usable=False)
        return TrainerAnswer(metrics=METRICS, facts=FACTS)

    monkeypatch.setattr(peaks, "TrainerProcess", mock.MagicMock())
    monkeypatch.setattr(peaks, "ask_trainer", answer)
    return asked


def test_each_backend_and_precision_of_a_class_is_measured_once(
    tmp_path: Path, asked: list[str]
) -> None:
    classes = classify([build_tested_node()])
    (measured, failures), lines = measure(tmp_path, classes)
    names = [f"{name}/portable" for name in ("tensorflow", "torch")]
    assert asked == [f"{name}{end}" for name in names for end in ("", "+bf16")]
    expected = itertools.product(("tensorflow", "torch"), ("float32", "bf16"))
    assert kinds(measured) == list(expected)
    assert (failures, len(lines)) == ((), 1)
    assert measured[0].versions == {"method": "1", "tensorflow": "2.21.0", "keras": "3.15.1"}
    assert measure(tmp_path, classes) == ((measured, ()), [])
    assert peaks.stored_peaks(tmp_path, classes) == measured
    measure(tmp_path, classes, fresh=True)
    assert len(asked) == 8


def test_other_versions_are_measured_again(tmp_path: Path, asked: list[str]) -> None:
    measure(tmp_path, classify([build_tested_node()]))
    newer = classify([build_tested_node(torch="2.14.0")])
    assert {peak.backend for peak in peaks.stored_peaks(tmp_path, newer)} == {"tensorflow"}
    measure(tmp_path, newer)
    assert asked[4:] == ["torch/portable", "torch/portable+bf16"]
    assert len(peaks.stored_peaks(tmp_path, classify([build_tested_node()]))) == 4, (
        "the older ones stay"
    )


@pytest.mark.parametrize(("capability", "has_tf32"), [("7.5", False), ("12.0", True), (None, True)])
def test_a_gpu_is_measured_in_tf32_where_it_has_it(
    tmp_path: Path, asked: list[str], capability: str | None, has_tf32: bool
) -> None:
    (measured, _), _ = measure(
        tmp_path, classify([build_tested_node(gpus=(build_gpu(compute_capability=capability),))])
    )
    assert ("torch/portable+tf32" in asked) is has_tf32
    versions = measured[-1].versions
    assert [versions[name] for name in ("driver", "cuda", "cudnn")] == ["580.1", "12.8", "9.1"]


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> mock.MagicMock:
    """Stand in for the package ray, with errors that can be raised."""
    ray = mock.MagicMock()
    ray.exceptions.RayError = type("RayError", (Exception,), {})
    ray.exceptions.GetTimeoutError = type("GetTimeoutError", (ray.exceptions.RayError,), {})
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


def test_a_cluster_measures_on_a_node_of_each_class(tmp_path: Path, ray: mock.MagicMock) -> None:
    died = ray.exceptions.RayError("task failed\nthe worker died")
    nodes = [
        build_tested_node("a", ray_id="id-a"),
        build_tested_node("b", ray_id="id-b", gpus=(H200,)),
    ]
    classes = classify(nodes)
    one = Peak(classes[0].id, "torch", "bf16", RATE, None, {}, "a", "2026-11-21T16:20:00Z")
    ray.get.side_effect = [((one,), ()), died]
    (measured, failures), _ = measure(tmp_path, classes)
    pinned = ray.remote.return_value.options
    options = [call.kwargs for call in pinned.call_args_list]
    chosen = [(o["label_selector"], o["num_cpus"], o["num_gpus"]) for o in options]
    assert chosen == [({"ray.io/node-id": "id-a"}, 8, 0), ({"ray.io/node-id": "id-b"}, 8, 1)]
    requests = [call.args[0] for call in pinned.return_value.remote.call_args_list]
    assert [request.gpu for request in requests] == [None, None]
    (failure,) = failures
    assert measured == (one,) and failure.endswith("could not be measured: the worker died")


def test_a_node_of_a_cluster_that_stays_busy_is_not_waited_for_for_ever(
    tmp_path: Path, ray: mock.MagicMock
) -> None:
    ray.get.side_effect = ray.exceptions.GetTimeoutError("timed out")
    (measured, failures), _ = measure(tmp_path, classify([build_tested_node("a", ray_id="id-a")]))
    (failure,) = failures
    assert measured == () and "has not answered within 20 minutes" in failure
    assert 0 < ray.get.call_args.kwargs["timeout"] <= 1_200
    assert ray.cancel.call_count == 1


def test_a_backend_that_fails_leaves_the_others(tmp_path: Path, asked: list[str]) -> None:
    (measured, failures), lines = measure(tmp_path, classify([build_tested_node(jax="0.11")]))
    assert len(measured) == 5
    (failure,) = failures
    assert failure.endswith("could not be measured by jax: bf16: it was ended by SIGKILL")
    assert failure in lines


@pytest.mark.parametrize("text", ["", "[]", '{"version": 3}', '{"version": 2, "peaks": [{}]}'])
def test_an_invalid_file_is_replaced(tmp_path: Path, text: str) -> None:
    classes = classify([build_tested_node()])
    (tmp_path / PEAKS_FILE).write_text(text)
    assert peaks.stored_peaks(tmp_path, classes) == ()
    versions = {"method": "1", **PACKAGES}
    one = Peak(classes[0].id, "torch", "bf16", RATE, None, versions, "a", "2026-11-21T16:20:00Z")
    older = dataclasses.replace(one, precision="float32", versions={**versions, "method": "0"})
    store_peaks(tmp_path, [one, older])
    store_peaks(tmp_path, [dataclasses.replace(one, node="b")])
    assert peaks.stored_peaks(tmp_path, classes) == (dataclasses.replace(one, node="b"),)
    assert [path.name for path in tmp_path.iterdir()] == [PEAKS_FILE]
    assert json.loads((tmp_path / PEAKS_FILE).read_text())["format"] == "rnnsweep-peaks"


def test_trainers_answer_for_each_precision_until_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "PEAK_RATES_WORKLOAD", f"{__name__}:pretended")
    _, hardware = classify([build_tested_node(gpus=(H200,))])
    precisions = ("fp16", "float32", "bf16", "tf32")
    request = PeakRequest(
        hardware.ref, build_tested_node(), ("torch", "jax"), precisions, "GPU-aaaa"
    )
    measured, failures = measure_peaks(request)
    assert kinds(measured) == [("torch", "float32"), ("jax", "float32")]
    assert {peak.versions["devices"] for peak in measured} == {"GPU-aaaa"}
    assert "cuda" not in measured[0].versions, "absent facts are left out"
    killed = "SIGKILL; its last output: out of memory"
    assert [failure.endswith(killed) for failure in failures] == [False, True] * 2
