"""Hardware as a document of 60 columns and more, and as JSON that its schema allows."""

import dataclasses
import json
from pathlib import Path

import jsonschema
import pytest

from orchestrator import hardware
from orchestrator.diagnostics import hardware_listing
from orchestrator.diagnostics.hardware_listing import hardware_document, hardware_json
from orchestrator.hardware import Node, NodeProfile, classify
from orchestrator.report.document import Document
from orchestrator.report.formats.text import to_text
from tests.nvml.simulated import GPU_IS_LOST, NOT_SUPPORTED, SimulatedGpu, SimulatedNvml
from tests.orchestrator.hardware.machines import MACHINES, present

SCHEMA = json.loads(Path(hardware_listing.__file__).with_name("hardware.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
NAME = "NVIDIA H200"


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Node]:
    """A Xeon with two GPUs (one lost, one that reports little), and other machines."""
    silent = {"nvmlDeviceGetEnforcedPowerLimit": NOT_SUPPORTED}
    gpus = [
        SimulatedGpu(name=NAME, uuid="GPU-aaaa"),
        SimulatedGpu(name=NAME, uuid="GPU-bbbb", errors=silent),
        SimulatedGpu(name=NAME, errors={"*": GPU_IS_LOST}),
    ]
    nodes = []
    for name in MACHINES:
        (tmp_path / name).mkdir()
        SimulatedNvml(gpus if name == "xeon" else ()).in_this_process(monkeypatch, tmp_path)
        profile = hardware.probe(root=present(name, monkeypatch, tmp_path / name))
        profile = dataclasses.replace(profile, hostname=f"host-{name}")
        labels = {"ray.io/node-id": name * 8, "ray.io/accelerator-type": "H200"}
        nodes.append(Node(name * 8, profile, profile.cpus, len(profile.gpus), labels))
    return nodes


def facts(document: Document, section: int) -> dict[str, str]:
    return {row[0]: row[1] for row in document.sections[section].tables[0].rows}


def test_the_object_is_what_its_schema_allows(nodes: list[Node]) -> None:
    body = hardware_json(classify(nodes))
    VALIDATOR.validate(body)
    (node,) = body["classes"][-1]["nodes"]
    assert node["gpu_faults"] == ["GPU 2 does not answer: GPU is lost"]
    assert [gpu["power_limit_w"] for gpu in node["gpus"]] == [70.0, None]
    properties = SCHEMA["$defs"]["node"]["properties"]
    assert {field.name for field in dataclasses.fields(NodeProfile)} < set(properties)


LISTED_FACTS = [
    "GPU 2 does not answer: GPU is lost",
    "NVIDIA 580.95.05, runs CUDA up to 13.0",
    "ray.io/accelerator-type=H200",
]


def test_a_document_has_the_facts_of_each_node(nodes: list[Node]) -> None:
    classes = classify(nodes)
    document = hardware_document(classes)
    hosts = [item.nodes[0].profile.hostname for item in classes]
    by_host = {host: facts(document, number) for number, host in enumerate(hosts, 1)}
    assert by_host["host-cloud_container"]["limits"] == "1.5 CPUs' time, 64 MiB memory (cgroup v2)"
    text = " ".join(to_text(document, 160).split())
    for part in LISTED_FACTS:
        assert part in text, text
    assert "None" not in text


def test_differences_between_nodes_of_a_class_are_listed(nodes: list[Node]) -> None:
    node, profile = nodes[0], nodes[0].profile
    gpus = tuple(dataclasses.replace(gpu, power_limit_w=500.0) for gpu in profile.gpus)
    changed = dataclasses.replace(profile, hostname="b", gpus=gpus, packages={"torch": "2.14.0"})
    other = dataclasses.replace(node, id="b", profile=changed, labels={"zone": "b"})
    cpu, gpu = (item["unlike"] for item in hardware_json(classify([node, other]))["classes"])
    assert [text.partition(":")[0] for text in gpu] == ["GPU 0", "GPU 1", "software"]
    assert "limit 500 W" in gpu[0]
    assert [text.partition(":")[0] for text in cpu] == ["software"]
    assert not any(item["unlike"] for item in hardware_json(classify([node]))["classes"])
