"""Which nodes and GPUs form hardware classes, and how those of one class may still differ."""

from __future__ import annotations

import dataclasses

import pytest

from orchestrator import hardware
from orchestrator.hardware import (
    Gpu,
    Node,
    NodeProfile,
    classify,
    no_gpu_class_reason,
    probing,
)
from orchestrator.hardware.profile import Cpu
from workloads.resources import CgroupLimits


def profile(cpu: str = "AMD EPYC", cpus: int = 8, gpus: tuple[Gpu, ...] = ()) -> NodeProfile:
    return NodeProfile("host", cpu, cpus, 16_000, gpus, None, "Linux", "3.11")


def gpu(index: int = 0, name: str = "NVIDIA H200") -> Gpu:
    return Gpu(index, name, f"GPU-{index}", 140_000)


TWO = ({"index": 0, "uuid": "GPU-aaaa"}, {"index": 1, "uuid": "GPU-abbb"})


@pytest.mark.parametrize(
    ("visible", "indices"),
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
    monkeypatch: pytest.MonkeyPatch, visible: str | None, indices: list[int]
) -> None:
    gpus = tuple(Gpu(name="NVIDIA T4", memory_mib=1, **fields) for fields in TWO)  # type: ignore[arg-type]
    monkeypatch.setattr(
        probing, "with_gpus", lambda profile, root: dataclasses.replace(profile, gpus=gpus)
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.index for gpu in hardware.probe().gpus] == indices
    assert [gpu.index for gpu in hardware.probe(every_gpu=True).gpus] == [0, 1]


def test_equal_nodes_form_one_class_with_a_readable_name_and_a_stable_slug() -> None:
    nodes = [Node("a", profile(), 8), Node("b", profile(), 8), Node("c", profile(cpus=4), 4)]
    small, large = classify(nodes)
    assert (small.name, large.name) == ("AMD EPYC, 4 CPUs", "AMD EPYC, 8 CPUs")
    assert large.slug == "amd-epyc-8-cpus"
    assert [node.id for node in large.nodes] == ["a", "b"]


def test_unlike_gpus_of_a_node_form_no_class() -> None:
    mixed = Node("a", profile(gpus=(gpu(0), gpu(1, "NVIDIA T4"))), 8)
    assert [hardware.name for hardware in classify([mixed])] == ["AMD EPYC, 8 CPUs"]
    like = Node("b", profile(gpus=(gpu(0),)), 8)
    cpu, accelerated = classify([mixed, like])
    assert [node.id for node in cpu.nodes] == ["a"]
    assert [node.id for node in accelerated.nodes] == ["b"]
    reason = no_gpu_class_reason(mixed) or ""
    assert reason.startswith("host has unlike GPUs (NVIDIA H200, NVIDIA T4)")


def test_differences_between_nodes_of_a_class_are_reported() -> None:
    plain = profile()
    nodes = [
        Node("a", dataclasses.replace(plain, hostname="a", memory_mib=64_000), 8),
        Node("b", dataclasses.replace(plain, hostname="b", memory_mib=66_000), 8),
    ]
    assert classify(nodes)[0].unlike == ()  # by less than a tenth
    small = CgroupLimits(memory_mib=16_384, version=2)
    older = Cpu(signature="GenuineIntel 6/79/1", vectors=("AVX2",))
    other = dataclasses.replace(plain, hostname="c", limits=small, cpu=older)
    nodes.append(Node("c", dataclasses.replace(other, packages={"torch": "2.14.0"}), 8))
    (only,) = classify(nodes)
    assert set(only.unlike) >= {
        "memory: 16 GiB on c; 62 GiB on a; 64 GiB on b",
        "CPU: GenuineIntel 6/79/1 on c; unknown on a, b",
        "vector extensions: AVX2 on c; none on a, b",
        "torch: 2.14.0 on c; none on a, b",
    }


def test_a_power_limit_of_one_gpu_node_is_reported() -> None:
    def node(host: str, power_w: float) -> Node:
        limited = dataclasses.replace(gpu(), power_limit_w=power_w)
        return Node(host, dataclasses.replace(profile(gpus=(limited,)), hostname=host), 8)

    cpu, accelerated = classify([node("a", 700.0), node("b", 500.0)])
    assert accelerated.unlike == ("power limit: 500 W on b; 700 W on a",)
    assert cpu.unlike == ()
