"""Probes of this machine, and of others by what their `lscpu`, `/proc` and `/sys` hold."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pynvml
import pytest

from orchestrator import hardware
from orchestrator.hardware.profile import Cache, Cpu, Machine, NumaNode
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
    assert profile.cpu.logical_cpus is None or profile.cpu.logical_cpus >= profile.cpus
    assert profile.packages["tensorflow"]
    monkeypatch.setenv("PATH", str(tmp_path))
    bare = hardware.probe()
    assert (bare.cpu_part, bare.cpu.vectors) == (profile.cpu_part, profile.cpu.vectors)
    if profile.cpu_part is None:  # the kernel names the model: so it is the same class
        assert (bare.cpu_model, bare.cpu.signature) == (profile.cpu_model, profile.cpu.signature)


def test_a_machine_with_lscpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profile = hardware.probe(root=present("xeon", monkeypatch, tmp_path))
    cpu = profile.cpu
    assert profile.cpu_model == "Intel(R) Xeon(R) Platinum 8462Y+"
    assert (cpu.sockets, cpu.cores, cpu.logical_cpus) == (2, 16, 32)
    assert cpu.signature == "GenuineIntel 6/143/8"
    assert cpu.caches == (Cache("L1d", 48, 16), Cache("L2", 2048, 16), Cache("L3", 61440, 2))
    assert cpu.numa == (NumaNode("0-30:2/31", 257726), NumaNode("1-31:2/31", 257726))
    assert {"AVX2", "AVX-512", "AVX-512 BF16", "AMX", "AMX BF16"} <= set(cpu.vectors)
    assert profile.machine == Machine(False, None, "Dell Inc. PowerEdge R760")


def test_an_arm_class_keeps_its_id_without_lscpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named, silent = (
        hardware.probe(root=present("graviton", monkeypatch, tmp_path / f"{has}", has_lscpu=has))
        for has in (True, False)
    )
    assert (named.cpu_model, silent.cpu_model) == ("Neoverse-V1", "ARM 0x41 0xd40")
    assert named.cpu.vectors == ("NEON", "NEON BF16", "NEON I8MM", "SVE", "SVE BF16")
    assert named.machine == Machine(True, "KVM", "Amazon EC2 c7g.xlarge")
    ids = [hardware.Node("", one, 4).cpu_class.id for one in (named, silent)]
    assert ids == [f"ARM 0x41 0xd40/{named.cpus}"] * 2


def test_a_container_has_less_than_its_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profile = hardware.probe(root=present("cloud_container", monkeypatch, tmp_path))
    assert profile.cpus == 1
    assert profile.usable_memory_mib == 64 < profile.memory_mib
    assert (profile.cpu.sockets, profile.cpu.cores, profile.cpu.logical_cpus) == (1, 1, 2)
    assert profile.machine == Machine(True, "KVM", "Google Compute Engine")
    reason = "1 NVIDIA GPU is on the PCI bus, but"  # its sound is no GPU
    assert (profile.no_nvml or "").startswith(reason)


def test_what_cannot_be_read_is_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profile = hardware.probe(root=present("bare", monkeypatch, tmp_path))
    assert (profile.cpu, profile.machine) == (Cpu(), Machine())
    assert profile.cpu_model in (platform.processor(), platform.machine())
    assert profile.no_nvml == "no NVIDIA driver is installed (NVML's library is not there)"


@pytest.mark.parametrize("text", ["", "?", "-1", "0", "9" * 40, "a:b:c", "\udcff\x00", "\n\n:"])
@pytest.mark.parametrize("name", MACHINES)
def test_no_file_ends_a_probe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str
) -> None:
    root = present(name, monkeypatch, tmp_path)
    for file in filter(Path.is_file, list(root.rglob("*"))):
        file.write_text(text, errors="surrogateescape")
    profile = hardware.probe(root=root)
    assert profile.cpus >= 1
    assert 0 not in (profile.cpu.sockets, profile.cpu.cores, profile.cpu.logical_cpus)
