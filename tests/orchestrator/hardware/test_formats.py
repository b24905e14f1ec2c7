"""Hardware as text in 100 columns, and as JSON that its schema allows."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from orchestrator import hardware
from orchestrator.hardware import Node, classify, describe_hardware, hardware_json
from orchestrator.hardware.peak import Peak, Rate
from orchestrator.hardware.profile import NodeProfile
from tests.nvml.simulated import GPU_IS_LOST, NOT_SUPPORTED, SimulatedGpu, SimulatedNvml
from tests.orchestrator.hardware import proc_trees

SCHEMA = json.loads(Path(hardware.__file__).with_name("schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
NAME = "NVIDIA H200"


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Node]:
    """A Xeon with two GPUs (one lost, one that reports little), and three other machines."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    silent = {
        "nvmlDeviceGetEnforcedPowerLimit": NOT_SUPPORTED,
        "nvmlDeviceGetEccMode": NOT_SUPPORTED,
    }
    gpus = [
        SimulatedGpu(name=NAME, uuid="GPU-aaaa"),
        SimulatedGpu(name=NAME, uuid="GPU-bbbb", errors=silent, pcie_lanes=None),
        SimulatedGpu(name=NAME, errors={"*": GPU_IS_LOST}),
    ]
    nodes = []
    for name, tree in proc_trees.TREES.items():
        (tmp_path / name).mkdir()
        SimulatedNvml(gpus if name == "xeon" else ()).in_this_process(monkeypatch, tmp_path)
        profile = hardware.probe(root=tree(tmp_path / name))
        profile = dataclasses.replace(profile, hostname=f"host-{name}")
        labels = {"ray.io/node-id": name * 8, "ray.io/accelerator-type": "H200"}
        nodes.append(Node(name * 8, profile, profile.cpus, len(profile.gpus), labels))
    return nodes


def peak(hardware: str, precision: str, *, copied: bool = True) -> Peak:
    return Peak(
        hardware,
        "torch",
        precision,
        Rate(2.12e11, 1.9e11, 2.2e11),
        Rate(1.8e10, 1.7e10, 1.85e10) if copied else None,
        {"torch": "2.13.0"},
        "host-xeon",
        "2026-11-21T16:20:00Z",
    )


def test_the_object_is_what_its_schema_allows(nodes: list[Node]) -> None:
    classes = classify(nodes)
    assert [item.device for item in classes].count("gpu") == 1
    peaks = [peak(classes[-1].id, "float32"), peak(classes[-1].id, "tf32", copied=False)]
    body = hardware_json(classes, peaks)
    VALIDATOR.validate(body)
    assert json.loads(json.dumps(body)) == body
    assert len(body["classes"][-1]["peaks"]) == 2
    (node,) = body["classes"][-1]["nodes"]
    assert node["gpu_faults"] == ["GPU 2 does not answer: GPU is lost"]
    assert [gpu["power_limit_w"] for gpu in node["gpus"]] == [70.0, None]


def test_the_schema_is_one_and_names_every_field() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    definitions = SCHEMA["$defs"]
    fields = {field.name for field in dataclasses.fields(NodeProfile)}
    assert fields < set(definitions["node"]["properties"])
    assert {f.name for f in dataclasses.fields(hardware.Gpu)} == set(
        definitions["gpu"]["properties"]
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body.update(version=1),
        lambda body: body.update(more=1),
        lambda body: body["classes"][0].pop("slug"),
        lambda body: body["classes"][0].update(device="tpu"),
        lambda body: body["classes"][-1]["nodes"][0]["gpus"][0].update(memory_mib=0),
        lambda body: body["classes"][-1]["nodes"][0]["cpu"].update(cores=0),
        lambda body: body["classes"][-1]["nodes"][0].pop("gpu_faults"),
    ],
)
def test_the_schema_refuses_what_is_otherwise(
    nodes: list[Node], spoil: Callable[[dict[str, Any]], object]
) -> None:
    body = copy.deepcopy(hardware_json(classify(nodes)))
    spoil(body)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(body)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_text_fits(nodes: list[Node], width: int) -> None:
    classes = classify(nodes)
    text = describe_hardware(classes, [peak(classes[-1].id, "bf16")], width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    for part in (
        "2 sockets, 16 cores, 32 threads",
        "AVX-512 (VNNI, BF16, FP16), AMX (INT8, BF16)",
        "L1d 48 KiB × 16, L2 2 MiB × 16, L3 60 MiB × 2",
        "2 NUMA nodes (252 GiB each)",
        "1.5 CPUs' time, 64 MiB memory (cgroup v2)",
        "virtual (KVM), Amazon EC2 c7g.xlarge",
        "no sign of a hypervisor, Dell Inc. PowerEdge R760",
        "GPU 0 NVIDIA H200, 15 GiB, compute capability 7.5, limit 70 W",
        "GPU 1 NVIDIA H200, 15 GiB, compute capability 7.5, up to SM 1590 MHz",
        "GPU 2 does not answer: GPU is lost",
        "NVIDIA 580.95.05, runs CUDA up to 13.0",
        "ray.io/accelerator-type=H200",
        "peak speeds, measured on host-xeon on 2026-11-21: median of the rounds",
        "torch 2.13.0 bf16 product 212 GFLOP/s (190–220), copy 18 GB/s (17–18.5)",
    ):
        assert part in words, text
    assert "None" not in text


def test_equal_nodes_share_an_entry(nodes: list[Node]) -> None:
    xeon = dataclasses.replace(nodes[0].profile, gpus=(), gpu_faults=())
    alike = [
        Node(f"{host}-id", dataclasses.replace(xeon, hostname=host), 8) for host in ("a", "b", "c")
    ]
    text = describe_hardware(classify(alike))
    assert "a (a-id), b (b-id), c (c-id)" in text
    assert text.count("2 sockets") == 1


def test_a_machine_with_a_gpu_is_described_once(nodes: list[Node]) -> None:
    text = describe_hardware(classify(nodes[:1]))
    assert text.count("2 sockets") == text.count("compute capability 7.5, limit") == 1
    assert "no GPU" not in text


@pytest.mark.parametrize(("slowest", "is_marked"), [(2.0e11, False), (1.0e11, True)])
def test_disturbed_peaks_are_marked(nodes: list[Node], slowest: float, is_marked: bool) -> None:
    classes = classify(nodes)
    one = peak(classes[-1].id, "tf32", copied=False)
    one = dataclasses.replace(one, flops_per_s=Rate(2.12e11, slowest, 2.2e11))
    assert ("! rounds differ" in describe_hardware(classes, [one])) is is_marked


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (Rate(9.5e11, 9e11, 1.2e12), "950 GFLOP/s (900–1200)"),
        (Rate(7.9e14, 7.8e14, 7.95e14), "790 TFLOP/s (780–795)"),
        (Rate(1.234e10, 1.2e10, 1.3e10), "12.3 GFLOP/s (12–13)"),
    ],
)
def test_rates(nodes: list[Node], rate: Rate, expected: str) -> None:
    classes = classify(nodes)
    one = dataclasses.replace(peak(classes[-1].id, "bf16"), flops_per_s=rate)
    assert expected in describe_hardware(classes, [one])


def test_missing_peaks_are_named(nodes: list[Node]) -> None:
    xeon, gpus = classify(nodes[:1])
    hint = "are not measured yet: run rnnsweep hardware --measure"
    assert f"peak speeds {hint}" in describe_hardware([xeon, gpus])
    one = describe_hardware([xeon, gpus], [peak(gpus.id, "bf16")])
    assert f"peak speeds of {xeon.name} {hint}" in " ".join(one.split())
    assert hint not in describe_hardware([gpus], [peak(gpus.id, "bf16")])
