"""Probing this machine, and others from what they left of `/proc` and `/sys`."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from orchestrator import hardware
from orchestrator.hardware.cpu import read_cpu, read_cpuinfo
from orchestrator.hardware.profile import Cache, Cpu, Machine, NumaNode
from orchestrator.hardware.virtualization import read_machine
from tests.orchestrator.hardware import proc_trees


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_library)


def test_this_machine_is_probed() -> None:
    profile = hardware.probe()
    assert profile.hostname
    assert profile.cpu_model
    assert 1 <= profile.cpus <= (os.cpu_count() or 1)
    assert profile.memory_mib > 100
    assert profile.cpu.logical_cpus is None or profile.cpu.logical_cpus >= profile.cpus
    assert profile.packages["tensorflow"]


def test_two_sockets(tmp_path: Path) -> None:
    root = proc_trees.xeon(tmp_path)
    profile = hardware.probe(root=root)
    assert profile.cpu_model == "Intel(R) Xeon(R) Platinum 8462Y+"
    assert (profile.cpu.sockets, profile.cpu.cores, profile.cpu.logical_cpus) == (2, 16, 32)
    assert profile.cpu.signature == "GenuineIntel 6/143/8"
    assert profile.cpu.caches == (
        Cache("L1d", 48, 16),
        Cache("L2", 2048, 16),
        Cache("L3", 61440, 2),
    )
    assert profile.cpu.numa == (NumaNode("0-30:2/31", 257726), NumaNode("1-31:2/31", 257726))
    assert {"AVX2", "AVX-512", "AVX-512 BF16", "AMX", "AMX BF16"} <= set(profile.cpu.vectors)
    assert profile.machine == Machine(False, None, "Dell Inc. PowerEdge R760")
    assert (profile.limits.cpus, profile.limits.memory_mib, profile.limits.version) == (
        None,
        None,
        2,
    )


def test_an_arm_server_is_named_by_its_core(tmp_path: Path) -> None:
    profile = hardware.probe(root=proc_trees.graviton(tmp_path))
    assert profile.cpu_model == "Neoverse-V1"
    assert (profile.cpu.sockets, profile.cpu.cores, profile.cpu.logical_cpus) == (1, 4, 4)
    assert profile.cpu.signature == "0x41 0xd40/0x1/1"
    assert profile.cpu.vectors == ("NEON", "NEON BF16", "NEON I8MM", "SVE", "SVE BF16")
    assert profile.cpu.caches == (Cache("L1d", 64, 4), Cache("L3", 32768, 1))
    assert profile.machine == Machine(True, "KVM", "Amazon EC2 c7g.xlarge")


def test_a_container_has_less_than_its_machine(tmp_path: Path) -> None:
    profile = hardware.probe(root=proc_trees.cloud_container(tmp_path))
    assert profile.cpus == 1
    assert profile.usable_memory_mib == 64 < profile.memory_mib
    assert (profile.cpu.sockets, profile.cpu.cores, profile.cpu.logical_cpus) == (1, 1, 2)
    assert profile.machine == Machine(True, "KVM", "Google Compute Engine")
    assert profile.no_nvml is not None
    assert profile.no_nvml.startswith("1 NVIDIA GPU is on the PCI bus, but")  # its sound is no GPU


def test_what_cannot_be_read_is_absent(tmp_path: Path) -> None:
    profile = hardware.probe(root=tmp_path)
    assert profile.cpu == Cpu()
    assert profile.machine == Machine()
    assert profile.cpu_model in (platform.processor(), platform.machine())
    assert profile.no_nvml == "no NVIDIA driver is installed (NVML's library is not there)"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/cpuinfo": "flags\t: fpu hypervisor"}, Machine(True)),
        ({"sys/class/dmi/id/product_name": "a1.metal-24xl", "proc/cpuinfo": "flags\t: fpu"},
         Machine(False, None, "a1.metal-24xl")),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2",
          "sys/class/dmi/id/product_name": "c7g.metal"},
         Machine(None, None, "Amazon EC2 c7g.metal")),
        ({"sys/hypervisor/type": "xen", "proc/cpuinfo": "flags\t: hypervisor"},
         Machine(True, "Xen")),
        ({"sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock tsc",
          "proc/cpuinfo": "flags\t: hypervisor"}, Machine(True, "KVM")),
        ({"sys/devices/system/clocksource/clocksource0/available_clocksource":
          "hyperv_clocksource_tsc_page", "proc/cpuinfo": "flags\t: hypervisor"},
         Machine(True, "Hyper-V")),
        ({"sys/class/dmi/id/sys_vendor": "VMware, Inc.",
          "sys/class/dmi/id/product_name": "VMware7,1", "proc/cpuinfo": "flags\t: hypervisor"},
         Machine(True, "VMware", "VMware, Inc. VMware7,1")),
        ({"sys/class/dmi/id/sys_vendor": "To Be Filled By O.E.M."}, Machine()),
    ],
)  # fmt: skip
def test_hypervisors(tmp_path: Path, files: dict[str, str], expected: Machine) -> None:
    root = proc_trees.write(tmp_path, files)
    assert read_machine(root, read_cpuinfo(root)) == expected


def test_a_topology_is_read_from_cpuinfo_where_sys_has_none(tmp_path: Path) -> None:
    block = "processor\t: {}\nsiblings\t: 4\ncpu cores\t: 2\nflags\t: avx\n"
    root = proc_trees.write(
        tmp_path, {"proc/cpuinfo": "\n".join(block.format(i) for i in range(8))}
    )
    profile = read_cpu(root, read_cpuinfo(root))
    assert (profile.sockets, profile.cores, profile.logical_cpus) == (2, 4, 8)


@pytest.mark.parametrize("tree", proc_trees.TREES.values(), ids=proc_trees.TREES)
def test_nothing_is_zero_for_want_of_an_answer(
    tmp_path: Path, tree: Callable[[Path], Path]
) -> None:
    profile = hardware.probe(root=tree(tmp_path))
    numbers = [
        profile.cpu.sockets,
        profile.cpu.cores,
        profile.cpu.logical_cpus,
        profile.limits.cpus,
    ]
    numbers += [one.kib for one in profile.cpu.caches]
    assert 0 not in numbers


@pytest.mark.parametrize(
    "text", ["", "?", "-1", "0", "9" * 40, "K", "a:b:c", "\udcff\x00", "\n\n:"]
)
@pytest.mark.parametrize("tree", proc_trees.TREES.values(), ids=proc_trees.TREES)
def test_no_file_ends_a_probe(tmp_path: Path, tree: Callable[[Path], Path], text: str) -> None:
    root = tree(tmp_path)
    for file in filter(Path.is_file, list(root.rglob("*"))):
        file.write_text(text, errors="surrogateescape")
    profile = hardware.probe(root=root)
    assert profile.cpus >= 1
    assert profile.cpu.sockets != 0
    assert profile.cpu.logical_cpus != 0
    assert hardware.hardware_json(hardware.classify([hardware.Node("", profile, 1)]))
