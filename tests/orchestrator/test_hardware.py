"""Probing and classing nodes, without a GPU and with doubles of NVML at its boundary."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pynvml
import pytest

from orchestrator import hardware
from orchestrator.hardware import Gpu, Node, NodeProfile, classify, describe_hardware, probing
from orchestrator.hardware.gpus import GpuProbe


def profile(cpu: str = "AMD EPYC", cpus: int = 8, gpus: tuple[Gpu, ...] = ()) -> NodeProfile:
    return NodeProfile("host", cpu, cpus, 16_000, gpus, None, "Linux", "3.11")


def gpu(index: int = 0, name: str = "NVIDIA H200") -> Gpu:
    return Gpu(index, name, f"GPU-{index}", 140_000)


def test_this_machine_is_probed() -> None:
    found = hardware.probe()
    assert found.hostname
    assert found.cpu_model
    assert 1 <= found.cpus <= (os.cpu_count() or 1)
    assert found.memory_mib > 100


def test_a_machine_without_nvml_has_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_library)
    assert (hardware.probe().gpus, hardware.probe().driver) == ((), None)


TWO = ({"index": 0, "uuid": "GPU-aaaa"}, {"index": 1, "uuid": "GPU-abbb"})


@pytest.mark.parametrize(
    ("visible", "left"),
    [
        (None, [0, 1]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("1", [1]),
        ("1,0", [1, 0]),
        (" 0 , 1 ", [0, 1]),
        ("0,0", [0]),
        ("0,-1,1", [0]),
        ("7", []),
        ("GPU-abbb", [1]),
        ("GPU-aa", [0]),
        ("GPU-a", []),  # which of them?
        ("MIG-1234", []),
        ("MIG-GPU-aaaa/1/0,1", [1]),
    ],
)
def test_only_visible_gpus_are_probed(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, left: list[int]
) -> None:
    found = tuple(Gpu(name="NVIDIA T4", memory_mib=1, **each) for each in TWO)  # type: ignore[arg-type]
    monkeypatch.setattr(probing, "probe_gpus", lambda root: GpuProbe(found, driver="580.1"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.index for gpu in hardware.probe().gpus] == left
    assert [gpu.index for gpu in hardware.probe(every_gpu=True).gpus] == [0, 1]


def test_a_gpu_that_fell_off_the_bus_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(index: int) -> int:
        if index == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return index

    doubles = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "580.1",
        "nvmlDeviceGetCount": lambda: 3,
        "nvmlDeviceGetHandleByIndex": handle,
        "nvmlDeviceGetName": lambda handle: "NVIDIA T4",
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=16 << 30, used=0),
    }
    for name, double in doubles.items():
        monkeypatch.setattr(pynvml, name, double)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = hardware.probe()
    assert [each.index for each in found.gpus] == [0, 2]
    assert found.gpus[0] == Gpu(0, "NVIDIA T4", "GPU-0", 16_384)
    assert found.driver == "580.1"
    assert found.gpu_faults == ("GPU 1 does not answer: GPU is lost",)


def test_equal_nodes_form_one_class_with_a_readable_name_and_a_stable_slug() -> None:
    nodes = [Node("a", profile(), 8), Node("b", profile(), 8), Node("c", profile(cpus=4), 4)]
    small, large = classify(nodes)
    assert (small.name, large.name) == ("AMD EPYC, 4 CPUs", "AMD EPYC, 8 CPUs")
    assert large.slug == "amd-epyc-8-cpus"
    assert [node.id for node in large.nodes] == ["a", "b"]


def test_a_gpu_class_names_its_host() -> None:
    nodes = [Node("a", profile(gpus=(gpu(0), gpu(1))), 8)]
    cpu, accelerated = classify(nodes)
    assert accelerated.name == "NVIDIA H200 (AMD EPYC, 8 CPUs)"
    assert [node.id for node in cpu.nodes] == ["a"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("gpu", True),
        ("cpu", False),
        ("*h200*", True),
        ("NVIDIA H200*", True),
        ("*T4*", False),
        ("NVIDIA H200", True),
        ("NVIDIA H200 (AMD EPYC, 8 CPUs)", True),
    ],
)
def test_selectors(selector: str, expected: bool) -> None:
    _, accelerated = classify([Node("a", profile(gpus=(gpu(),)), 8)])
    assert accelerated.matches(selector) is expected


def test_ray_may_give_fewer_gpus_than_there_are() -> None:
    two = profile(gpus=(gpu(0), gpu(1)))
    assert [Node("a", two, 8, limit).gpus for limit in (None, 0, 1, 2, 3)] == [2, 0, 1, 2, 2]
    (only,) = classify([Node("a", two, 8, 0)])
    assert only.device == "cpu"


def test_unlike_gpus_of_a_node_form_no_class() -> None:
    mixed = Node("a", profile(gpus=(gpu(0), gpu(1, "NVIDIA T4"))), 8)
    assert [each.name for each in classify([mixed])] == ["AMD EPYC, 8 CPUs"]
    like = Node("b", profile(gpus=(gpu(0),)), 8)
    cpu, accelerated = classify([mixed, like])
    assert [node.id for node in cpu.nodes] == ["a"]
    assert [node.id for node in accelerated.nodes] == ["b"]
    text = " ".join(describe_hardware([cpu]).split())
    assert "no GPU class: host has unlike GPUs (NVIDIA H200, NVIDIA T4)" in text
