"""Measured peaks of GPUs and their nodes; with doubles of trainers, and with real ones."""

import itertools
import os
import signal
import sys
from unittest import mock

import pytest

from orchestrator.diagnostics import peaks
from orchestrator.diagnostics.peaks import Peak, PeakRate, PeakRequest, measure_peaks
from orchestrator.execution.trainer_answers import TrainerAnswer
from orchestrator.hardware import Gpu, Node, classify
from orchestrator.hardware.gpu_readers.nvml import NvmlReader
from tests.building.hardware import build_gpu, build_node
from workloads.context import Context
from workloads.protocol import TrialRequest

PACKAGES = {"tensorflow": "2.21.0", "keras": "3.15.1", "torch": "2.13.0"}
METRICS = {f"product_flops_per_s{end}": 2e11 for end in ("", "_low", "_high")}
H200 = build_gpu(uuid="GPU-aaaa", compute_capability="9.0")
RATE = PeakRate(2e11, 2e11, 2e11)


def pretended(trial: Context) -> dict[str, float]:
    """Return rates by precision; `fp16` fails, and `bf16` ends the trainer."""
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa"
    precision = trial.implementation.precision
    if precision == "fp16":
        raise ValueError("no such precision here")
    if precision == "bf16":
        print("out of memory")
        os.kill(os.getpid(), signal.SIGKILL)
    return {f"product_flops_per_s{end}": 1.0 for end in ("", "_low", "_high")}


def build_tested_node(name: str = "a", *, gpus: tuple[Gpu, ...] = (), ray_id: str = "") -> Node:
    """Return a node that has the packages of this test."""
    return build_node(
        name,
        cpus=8,
        gpus=gpus,
        ray_id=ray_id,
        driver="580.1",
        packages=PACKAGES,
        gpu_reader=NvmlReader.info,
    )


def measure(*nodes: Node) -> tuple[peaks.PeakResults, list[str]]:
    lines: list[str] = []
    return peaks.peaks_of_classes(classify(nodes), lines.append), lines


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
        return TrainerAnswer(metrics=METRICS)

    monkeypatch.setattr(peaks, "TrainerProcess", mock.MagicMock())
    monkeypatch.setattr(peaks, "ask_trainer", answer)
    return asked


@pytest.mark.parametrize(("capability", "has_tf32"), [("7.5", False), (None, True)])
def test_each_backend_measures_a_gpu_in_each_precision_that_it_has(
    asked: list[str], capability: str | None, has_tf32: bool
) -> None:
    node = build_tested_node(gpus=(build_gpu(compute_capability=capability),))
    (measured, failures), lines = measure(node)
    precisions = ["float32", *(["tf32"] if has_tf32 else []), "bf16"]
    assert kinds(measured) == list(itertools.product(("tensorflow", "torch"), precisions))
    assert {peak.hardware for peak in measured} == {classify([node])[-1].id}, "no CPU"
    assert (failures, len(lines), len(asked)) == ((), 1, len(measured))


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> mock.MagicMock:
    """Stand in for the package ray, with errors that can be raised."""
    ray = mock.MagicMock()
    ray.exceptions.RayError = type("RayError", (Exception,), {})
    ray.exceptions.GetTimeoutError = type("GetTimeoutError", (ray.exceptions.RayError,), {})
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


def test_a_cluster_measures_on_a_node_of_each_class(ray: mock.MagicMock) -> None:
    died = ray.exceptions.RayError("task failed\nthe worker died")
    nodes = [
        build_tested_node("a", ray_id="id-a", gpus=(build_gpu(name="T4"),)),
        build_tested_node("b", ray_id="id-b", gpus=(H200,)),
        build_tested_node("c", ray_id="id-c"),
    ]
    one = Peak("an id", "torch", "bf16", RATE, None, "a")
    ray.get.side_effect = [((one,), ()), died]
    (measured, failures), _ = measure(*nodes)
    pinned = ray.remote.return_value.options
    options = [call.kwargs for call in pinned.call_args_list]
    chosen = [(o["label_selector"], o["num_cpus"], o["num_gpus"]) for o in options]
    assert chosen == [({"ray.io/node-id": f"id-{node}"}, 8, 1) for node in ("b", "a")]
    requests = [call.args[0] for call in pinned.return_value.remote.call_args_list]
    assert [request.gpu for request in requests] == [None, None]
    (failure,) = failures
    assert measured == (one,) and failure.endswith("could not be measured: the worker died")


def test_a_node_of_a_cluster_that_stays_busy_is_not_waited_for_for_ever(
    ray: mock.MagicMock,
) -> None:
    ray.get.side_effect = ray.exceptions.GetTimeoutError("timed out")
    (measured, failures), _ = measure(build_tested_node("a", ray_id="id-a", gpus=(H200,)))
    (failure,) = failures
    assert measured == () and "has not answered within 20 minutes" in failure
    assert 0 < ray.get.call_args.kwargs["timeout"] <= 1_200
    assert ray.cancel.call_count == 1


def test_trainers_answer_for_each_precision_until_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "PEAK_RATES_WORKLOAD", f"{__name__}:pretended")
    _, hardware = classify([build_tested_node(gpus=(H200,))])
    precisions = ("fp16", "float32", "bf16", "tf32")
    request = PeakRequest(
        hardware.ref, build_tested_node(), ("torch", "jax"), precisions, "GPU-aaaa"
    )
    measured, failures = measure_peaks(request)
    assert kinds(measured) == [("torch", "float32"), ("jax", "float32")]
    killed = "SIGKILL; its last output: out of memory"
    assert [failure.endswith(killed) for failure in failures] == [False, True] * 2
