"""Small trees of `/proc` and `/sys`, as other machines have them; written from public knowledge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

XEON_FLAGS = (
    "fpu vme sse sse2 ht sse4_1 sse4_2 avx f16c rdrand fma avx2 bmi2 avx512f avx512dq avx512bw "
    "avx512vl avx_vnni avx512_bf16 avx512_vnni avx512_fp16 amx_bf16 amx_tile amx_int8"
)
GRAVITON_FEATURES = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma "
    "lrcpc dcpop sha3 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs paca pacg dcpodp "
    "svei8mm svebf16 i8mm bf16 dgh rng"
)


def write(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


def xeon(root: Path) -> Path:
    """Two sockets of an Intel Xeon Platinum 8462Y+, 8 of its 32 cores each, on bare metal."""
    sockets, cores, threads = 2, 8, 2
    files: dict[str, str] = {
        "sys/class/dmi/id/sys_vendor": "Dell Inc.",
        "sys/class/dmi/id/product_name": "PowerEdge R760",
        "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm",
        "proc/self/cgroup": "0::/user.slice/user-1000.slice/session-3.scope",
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids",
        "sys/fs/cgroup/user.slice/user-1000.slice/memory.max": "max",
    }
    blocks = []
    for cpu in range(sockets * cores * threads):
        core, socket = cpu % (sockets * cores), cpu % sockets
        siblings = f"{core},{core + sockets * cores}"
        shared = ",".join(str(i) for i in range(32) if i % sockets == socket)
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        files |= {
            f"{folder}/topology/physical_package_id": str(socket),
            f"{folder}/topology/core_cpus_list": siblings,
        }
        for index, (level, kind, size, among) in enumerate(
            [
                ("1", "Data", "48K", siblings),
                ("1", "Instruction", "32K", siblings),
                ("2", "Unified", "2048K", siblings),
                ("3", "Unified", "61440K", shared),
            ]
        ):
            cache = f"{folder}/cache/index{index}"
            files |= {
                f"{cache}/level": level,
                f"{cache}/type": kind,
                f"{cache}/size": size,
                f"{cache}/shared_cpu_list": among,
            }
        blocks.append(
            f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
            "model name\t: Intel(R) Xeon(R)  Platinum 8462Y+\nstepping\t: 8\n"
            f"physical id\t: {socket}\nsiblings\t: 16\ncore id\t\t: {core}\ncpu cores\t: 8\n"
            f"flags\t\t: {XEON_FLAGS}\n"
        )
    for socket in range(sockets):
        node = f"sys/devices/system/node/node{socket}"
        files[f"{node}/cpulist"] = "0-30:2/31" if socket == 0 else "1-31:2/31"
        files[f"{node}/meminfo"] = f"Node {socket} MemTotal:       263911424 kB"
    files["proc/cpuinfo"] = "\n".join(blocks)
    return write(root, files)


def graviton(root: Path) -> Path:
    """An Amazon EC2 c7g.xlarge: four cores of a Graviton 3, a virtual machine."""
    files: dict[str, str] = {
        "sys/class/dmi/id/sys_vendor": "Amazon EC2",
        "sys/class/dmi/id/product_name": "c7g.xlarge",
        "sys/devices/system/node/node0/cpulist": "0-3",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:        8029184 kB",
    }
    blocks = []
    for cpu in range(4):
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        files |= {
            f"{folder}/topology/physical_package_id": "0",
            f"{folder}/topology/thread_siblings_list": str(cpu),
            f"{folder}/cache/index0/level": "1",
            f"{folder}/cache/index0/type": "Data",
            f"{folder}/cache/index0/size": "64K",
            f"{folder}/cache/index0/shared_cpu_list": str(cpu),
            f"{folder}/cache/index1/level": "3",
            f"{folder}/cache/index1/type": "Unified",
            f"{folder}/cache/index1/size": "32M",
            f"{folder}/cache/index1/shared_cpu_list": "0-3",
        }
        blocks.append(
            f"processor\t: {cpu}\nBogoMIPS\t: 2100.00\nFeatures\t: {GRAVITON_FEATURES}\n"
            "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\n"
            "CPU part\t: 0xd40\nCPU revision\t: 1\n"
        )
    files["proc/cpuinfo"] = "\n".join(blocks)
    return write(root, files)


def cloud_container(root: Path) -> Path:
    """A container with a quota and a GPU that it was not given, on a virtual machine of GCP."""
    return write(
        root,
        {
            "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\n"
            "model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\nphysical id\t: 0\nsiblings\t: 2\n"
            "cpu cores\t: 1\nflags\t\t: fpu sse4_2 avx avx2 hypervisor\n\n"
            "processor\t: 1\nvendor_id\t: GenuineIntel\n"
            "model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\nphysical id\t: 0\nsiblings\t: 2\n"
            "cpu cores\t: 1\nflags\t\t: fpu sse4_2 avx avx2 hypervisor\n",
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
        },
    )


def bare(root: Path) -> Path:
    """Nothing can be read at all."""
    return root


TREES: Mapping[str, Callable[[Path], Path]] = {
    "xeon": xeon,
    "graviton": graviton,
    "cloud_container": cloud_container,
    "bare": bare,
}
