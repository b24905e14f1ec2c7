"""Samples of `lscpu`, `/proc` and `/sys` on other machines; written from public knowledge."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

XEON_FLAGS = (
    "fpu vme sse sse2 ht sse4_1 sse4_2 avx f16c fma avx2 avx512f avx512dq avx_vnni avx512_bf16 "
    "avx512_vnni avx512_fp16 amx_bf16 amx_tile amx_int8"
)


@dataclass(frozen=True, slots=True)
class Sample:
    """Files of a machine, and the fields that `lscpu` prints there (None: not installed)."""

    files: Mapping[str, str] = field(default_factory=dict)
    lscpu: Mapping[str, str] | None = None

    def present(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
        """Put this machine's `lscpu` on the PATH; return the folder with its `proc` and `sys`."""
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text + "\n")
        commands = folder / "commands"
        commands.mkdir()
        if self.lscpu is not None:
            entries = [{"field": f"{name}:", "data": text} for name, text in self.lscpu.items()]
            nested = [*entries[:2], {"field": "Topology:", "data": None, "children": entries[2:]}]
            (commands / "lscpu.json").write_text(json.dumps({"lscpu": nested}))
            script = commands / "lscpu"
            script.write_text(f"#!/bin/sh\nexec /bin/cat {commands}/lscpu.json\n")
            script.chmod(0o755)
        monkeypatch.setenv("PATH", os.fspath(commands))
        return folder


def cpuinfo(number: int, **fields: str) -> str:
    """Return `/proc/cpuinfo` with equal processors. Names have `_` in the place of a blank."""
    rest = "".join(f"{name.replace('_', ' ')}\t: {text}\n" for name, text in fields.items())
    return "\n".join(f"processor\t: {cpu}\n{rest}" for cpu in range(number))


SAMPLES = {
    "xeon": Sample(
        {
            "proc/cpuinfo": cpuinfo(
                32, model_name="Intel(R) Xeon(R)  Platinum 8462Y+", flags=XEON_FLAGS
            ),
            "sys/class/dmi/id/sys_vendor": "Dell Inc.",
            "sys/class/dmi/id/product_name": "PowerEdge R760",
            "sys/devices/system/node/node0/cpulist": "0-30:2/31",
            "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       263911424 kB",
            "sys/devices/system/node/node1/cpulist": "1-31:2/31",
            "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:       263911424 kB",
            "proc/self/cgroup": "0::/user.slice",
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids",
        },
        {
            "Vendor ID": "GenuineIntel",
            "Model name": "Intel(R) Xeon(R) Platinum 8462Y+",
            "CPU family": "6",
            "Model": "143",
            "Stepping": "8",
            "Core(s) per socket": "8",
            "Socket(s)": "2",
            "L1d cache": "786432 (16 instances)",
            "L1i cache": "524288 (16 instances)",
            "L2 cache": "33554432 (16 instances)",
            "L3 cache": "125829120 (2 instances)",
        },
    ),
    "graviton": Sample(
        {
            "proc/cpuinfo": cpuinfo(
                4,
                Features="fp asimd sve svebf16 i8mm bf16",
                CPU_implementer="0x41",
                CPU_part="0xD40",
            ),
            "sys/class/dmi/id/sys_vendor": "Amazon EC2",
            "sys/class/dmi/id/product_name": "c7g.xlarge",
            "sys/devices/system/node/node0/cpulist": "0-3",
        },
        {
            "Vendor ID": "ARM",
            "Model name": "Neoverse-V1",
            "Model": "1",
            "Core(s) per socket": "4",
            "Socket(s)": "1",
            "Stepping": "r1p1",
            "L1d cache": "262144 (4 instances)",
            "L3 cache": "33554432 (1 instance)",
        },
    ),
    "cloud_container": Sample(  # with a quota, and a GPU that it was not given
        {
            "proc/cpuinfo": cpuinfo(
                2,
                vendor_id="GenuineIntel",
                model_name="Intel(R) Xeon(R) CPU @ 2.20GHz",
                physical_id="0",
                cpu_cores="1",
                flags="fpu sse4_2 avx avx2 hypervisor",
            ).replace("vendor id", "vendor_id"),
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids",
            "sys/fs/cgroup/cpu.max": "150000 100000",
            "sys/fs/cgroup/memory.max": "67108864",
            "sys/class/dmi/id/sys_vendor": "Google",
            "sys/class/dmi/id/product_name": "Google Compute Engine",
            "sys/bus/pci/devices/0000:00:04.0/vendor": "0x10de",
            "sys/bus/pci/devices/0000:00:04.0/class": "0x030200",
            "sys/bus/pci/devices/0000:00:05.0/vendor": "0x10de",
            "sys/bus/pci/devices/0000:00:05.0/class": "0x040300",
        }
    ),
    "bare": Sample(),
}
