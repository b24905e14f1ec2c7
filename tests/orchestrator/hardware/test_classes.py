"""Which nodes and GPUs form hardware classes, and how those of one class may still differ."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from orchestrator import hardware
from orchestrator.hardware import (
    Gpu,
    HardwareClass,
    Node,
    NodeProfile,
    classify,
    no_gpu_class_reason,
    probing,
)
from orchestrator.hardware.profile import Cache, Cpu
from workloads.resources import CgroupLimits


def node(host: str, *gpus: Gpu, cpus: int = 8, memory_mib: int = 16_000, **facts: Any) -> Node:
    profile = NodeProfile(host, "AMD EPYC", cpus, memory_mib, gpus, None, "Linux", "3.11", **facts)
    return Node(host, profile, cpus)


def hosts(of: HardwareClass) -> list[str]:
    return [one.id for one in of.nodes]


def gpu(index: int = 0, name: str = "NVIDIA H200") -> Gpu:
    return Gpu(index, name, f"GPU-{index}", 140_000)


TWO = ({"index": 0, "uuid": "GPU-aaaa"}, {"index": 1, "uuid": "GPU-abbb"})


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        (None, [0, 1]),
        ("", []),
        ("NoDevFiles", []),
        (" 1 , 0 ", [1, 0]),
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
    small, large = classify([node("a"), node("b"), node("c", cpus=4)])
    assert (small.name, large.name) == ("AMD EPYC, 4 CPUs", "AMD EPYC, 8 CPUs")
    assert large.slug == "amd-epyc-8-cpus"
    assert hosts(large) == ["a", "b"]


def test_unlike_gpus_of_a_node_form_no_class() -> None:
    mixed = node("a", gpu(0), gpu(1, "NVIDIA T4"))
    assert [hardware.name for hardware in classify([mixed])] == ["AMD EPYC, 8 CPUs"]
    assert list(map(hosts, classify([mixed, node("b", gpu(0))]))) == [["a"], ["b"]]
    reason = no_gpu_class_reason(mixed) or ""
    assert reason.startswith("a has unlike GPUs (NVIDIA H200, NVIDIA T4)")
    given_none = dataclasses.replace(node("b", gpu(0)), gpu_limit=0)
    assert list(map(hosts, classify([given_none]))) == [["b"]]
    assert no_gpu_class_reason(given_none) == "Ray has no GPU of b to give, which NVML shows there"


def test_differences_between_nodes_of_a_class_are_reported() -> None:
    nodes = [node("a", memory_mib=64_000), node("b", memory_mib=66_000)]
    assert classify(nodes)[0].unlike == ()  # by less than a tenth
    other = node(
        "c",
        limits=CgroupLimits(memory_mib=16_384, version=2),
        cpu=Cpu(
            signature="GenuineIntel 6/79/1",
            vectors=("AVX2",),
            cores=4,
            logical_cpus=8,
            caches=(Cache("L2", 512, 4),),
        ),
        packages={"torch": "2.14.0"},
    )
    (only,) = classify([*nodes, other])
    assert only.unlike == (
        "memory: 16 GiB on c; 62 GiB on a; 64 GiB on b",
        "CPU: GenuineIntel 6/79/1 on c; unknown on a, b",
        "vector extensions: AVX2 on c; none on a, b",
        "threads per core: 2 on c; unknown on a, b",
        "caches: L2 512 KiB on c; unknown on a, b",
        "torch: 2.14.0 on c; none on a, b",
    )
    limited = (dataclasses.replace(gpu(), power_limit_w=power_w) for power_w in (700.0, 500.0))
    cpu, accelerated = classify(map(node, "ab", limited))
    assert accelerated.unlike == ("power limit: 500 W on b; 700 W on a",)
    assert cpu.unlike == ()
