"""Probes of machines by what their `lscpu`, `/proc` and `/sys` hold, and the classes of nodes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pynvml
import pytest

from orchestrator import hardware
from orchestrator.hardware import Gpu, classify, no_gpu_class_reason, probing
from orchestrator.hardware.gpu_readers.nvml import NvmlReader
from orchestrator.hardware.profile import NoGpus
from tests.building.hardware import build_gpu, build_node
from tests.orchestrator.hardware.machines import MACHINES, present


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_library)


def test_this_machine_is_probed_alike_with_and_without_lscpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profile = hardware.probe()
    assert profile.hostname
    assert 1 <= profile.cpus <= (os.cpu_count() or 1)
    assert profile.memory_mib > 100
    assert profile.packages["tensorflow"]
    monkeypatch.setenv("PATH", str(tmp_path))
    bare = hardware.probe()
    assert bare.cpu_part == profile.cpu_part
    if profile.cpu_part is None:  # the kernel names the model: so it is the same class
        assert bare.cpu_model == profile.cpu_model


@dataclass(frozen=True)
class Probed:
    """A machine of `machines.yaml`, and what a probe reads of it, by attributes of the profile."""

    machine: str
    attributes: Mapping[str, object]


PROBED = {
    "a server with two sockets": Probed(
        "xeon",
        {
            "cpu_model": "Intel(R) Xeon(R) Platinum 8462Y+",
        },
    ),
    "a container with limits, and a GPU that it was not given (its sound is none)": Probed(
        "cloud_container",
        {
            "cpus": 1,
            "usable_memory_mib": 64,
            "no_gpus": NoGpus(
                "1 NVIDIA GPU is on the PCI bus, but NVML's library is missing: install the"
                " driver, or start this container with its GPUs (--gpus all)",
                is_problem=True,
            ),
        },
    ),
    "a machine that tells nothing": Probed(
        "bare",
        {
            "no_gpus": NoGpus("no NVIDIA driver is installed (NVML's library is missing)"),
        },
    ),
}


@pytest.mark.parametrize("probed", PROBED.values(), ids=PROBED)
def test_a_machine_is_probed(
    probed: Probed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profile = hardware.probe(root=present(probed.machine, monkeypatch, tmp_path))
    assert {name: getattr(profile, name) for name in probed.attributes} == probed.attributes


def test_an_arm_class_keeps_its_id_without_lscpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named, silent = (
        hardware.probe(root=present("graviton", monkeypatch, tmp_path / f"{has}", has_lscpu=has))
        for has in (True, False)
    )
    assert (named.cpu_model, silent.cpu_model) == ("Neoverse-V1", "ARM 0x41 0xd40")
    ids = [hardware.Node("", profile, 4).cpu_class.id for profile in (named, silent)]
    assert ids == [f"ARM 0x41 0xd40/{named.cpus}"] * 2


@pytest.mark.parametrize("text", ["", "-1", "0", "9" * 40, "\udcff\x00"])
@pytest.mark.parametrize("name", MACHINES)
def test_no_file_ends_a_probe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str
) -> None:
    root = present(name, monkeypatch, tmp_path)
    for file in filter(Path.is_file, list(root.rglob("*"))):
        file.write_text(text, errors="surrogateescape")
    profile = hardware.probe(root=root)
    assert profile.cpus >= 1


def hosts(of: hardware.HardwareClass) -> list[str]:
    return [node.id for node in of.nodes]


TWO = ({"index": 0, "uuid": "GPU-aaaa"}, {"index": 1, "uuid": "GPU-abbb"})


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        pytest.param(None, [0, 1], id="not set"),
        pytest.param("", [], id="none"),
        pytest.param(" 1 , 0 ", [1, 0], id="in another order, with spaces"),
        pytest.param("0,-1,1", [0], id="the list ends at -1"),
        pytest.param("GPU-aa", [0], id="the beginning of one UUID"),
        pytest.param("GPU-a", [], id="the beginning of two UUIDs"),
        pytest.param("MIG-GPU-aaaa/1/0,1", [1], id="parts of GPUs, by their GPU"),
    ],
)
def test_only_visible_gpus_are_probed(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, indices: list[int]
) -> None:
    gpus = tuple(Gpu(name="NVIDIA T4", memory_mib=1, **fields) for fields in TWO)  # type: ignore[arg-type]
    read = {"gpus": gpus, "gpu_reader": NvmlReader.info}
    monkeypatch.setattr(probing, "with_gpus", lambda profile, root: replace(profile, **read))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.index for gpu in hardware.probe().gpus] == indices
    assert [gpu.index for gpu in hardware.probe(every_gpu=True).gpus] == [0, 1]


def test_equal_nodes_form_one_class_with_a_readable_name() -> None:
    small, large = classify(
        [build_node("a", cpus=4), build_node("b", cpus=4), build_node("c", cpus=2)]
    )
    assert (small.name, large.name) == ("CPU A, 2 CPUs", "CPU A, 4 CPUs")
    assert hosts(large) == ["a", "b"]


def test_unlike_gpus_of_a_node_form_no_class() -> None:
    mixed = build_node("a", gpus=[build_gpu(0), build_gpu(1, "NVIDIA T4")])
    alike = build_node("b", gpus=[build_gpu()], gpu_reader=NvmlReader.info)
    assert [hardware.name for hardware in classify([mixed])] == ["CPU A, 2 CPUs"]
    assert list(map(hosts, classify([mixed, alike]))) == [["a"], ["b"]]
    reason = no_gpu_class_reason(mixed) or ""
    assert reason.startswith("a has different GPUs (NVIDIA H200, NVIDIA T4)")
    given_none = replace(alike, gpu_limit=0)
    assert list(map(hosts, classify([given_none]))) == [["b"]]
    assert "its Ray node has none" in (no_gpu_class_reason(given_none) or "")
