"""A node's processors, as Linux reports them in `/proc` and `/sys`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from orchestrator.hardware.profile import Cache, Cpu, NumaNode
from orchestrator.hardware.sysfs import number_of, numbered, text_of

CpuInfo = Mapping[str, str]

_VECTORS = {
    "sse4_2": "SSE4.2",
    "avx": "AVX",
    "avx2": "AVX2",
    "fma": "FMA",
    "avx_vnni": "AVX-VNNI",
    "avx512f": "AVX-512",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512_bf16": "AVX-512 BF16",
    "avx512_fp16": "AVX-512 FP16",
    "amx_tile": "AMX",
    "amx_int8": "AMX INT8",
    "amx_bf16": "AMX BF16",
    "amx_fp16": "AMX FP16",
    "neon": "NEON",
    "asimd": "NEON",
    "bf16": "NEON BF16",
    "i8mm": "NEON I8MM",
    "sve": "SVE",
    "sve2": "SVE2",
    "svebf16": "SVE BF16",
    "sme": "SME",
    "sme2": "SME2",
}
"""Linux' flag -> common name."""

_ARM = {
    "0x41": {
        "0xd07": "Cortex-A57",
        "0xd08": "Cortex-A72",
        "0xd0b": "Cortex-A76",
        "0xd0c": "Neoverse-N1",
        "0xd40": "Neoverse-V1",
        "0xd49": "Neoverse-N2",
        "0xd4f": "Neoverse-V2",
        "0xd84": "Neoverse-V3",
        "0xd8e": "Neoverse-N3",
    },
    "0x46": {"0x001": "A64FX"},
    "0x48": {"0xd01": "Kunpeng 920"},
    "0xc0": {"0xac3": "AmpereOne", "0xac4": "AmpereOne A"},
}
"""Implementer -> part -> name, of server cores. A 64-bit ARM kernel reports no model name."""

_SIZE = re.compile(r"(\d+)\s*([KMG]?)")
_KIB = {"": 1 / 1024, "K": 1, "M": 1024, "G": 1024**2}


def read_cpuinfo(root: Path) -> CpuInfo:
    """Return the fields of the first processor in `/proc/cpuinfo`, and those of the machine."""
    fields: dict[str, str] = {}
    for line in (text_of(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if value.strip():
            fields.setdefault(key.strip(), " ".join(value.split()))
    return fields


def cpu_model(info: CpuInfo) -> str | None:
    """Return `AMD EPYC 9654 96-Core Processor` or `Neoverse-V1`; None where it is not known."""
    ids = _part_ids(info)
    if ids is None:
        return info.get("model name") or info.get("Model")
    implementer, part = ids
    name = _ARM.get(implementer.lower(), {}).get(part.lower())
    return name or f"ARM implementer {implementer} part {part}"


def cpu_part(info: CpuInfo) -> str | None:
    """Return `ARM 0x41 0xd40`, implementer and part; None where the kernel names the model."""
    ids = _part_ids(info)
    return None if ids is None else f"ARM {' '.join(ids).lower()}"


def _part_ids(info: CpuInfo) -> tuple[str, str] | None:
    implementer, part = info.get("CPU implementer"), info.get("CPU part")
    if "model name" in info or "Model" in info or implementer is None or part is None:
        return None
    return implementer, part


def read_cpu(root: Path, info: CpuInfo) -> Cpu:
    """Return the processors of the machine.

    Args:
        root: the folder that holds `proc` and `sys`.
        info: what `read_cpuinfo` returned for it.
    """
    sockets, cores, logical = _topology(root, info)
    flags = (info.get("flags") or info.get("Features") or "").split()
    return Cpu(
        signature=_signature(info),
        sockets=sockets,
        cores=cores,
        logical_cpus=logical,
        vectors=tuple(dict.fromkeys(_VECTORS[flag] for flag in _VECTORS if flag in flags)),
        caches=_caches(root),
        numa=_numa(root),
    )


def _signature(info: CpuInfo) -> str | None:
    """Return vendor, family, model and stepping, as far as reported: `AuthenticAMD 25/17/1`."""
    x86 = [info.get(key) for key in ("cpu family", "model", "stepping")]
    arm = [info.get(key) for key in ("CPU part", "CPU variant", "CPU revision")]
    vendor = info.get("vendor_id") or info.get("CPU implementer")
    numbers = "/".join(filter(None, x86 if any(x86) else arm))
    return " ".join(filter(None, [vendor, numbers])) or None


def _topology(root: Path, info: CpuInfo) -> tuple[int | None, int | None, int | None]:
    """Return the numbers of sockets, cores and logical CPUs that are online."""
    processors = (text_of(root / "proc/cpuinfo") or "").split("\n\n")
    listed = sum(block.startswith("processor") for block in processors)
    online = [
        cpu / "topology"
        for cpu in numbered(root / "sys/devices/system/cpu", "cpu")
        if (cpu / "topology").is_dir()
    ]
    packages = {number_of(cpu / "physical_package_id") for cpu in online} - {None, -1}
    cores = {
        text_of(cpu / "core_cpus_list") or text_of(cpu / "thread_siblings_list") for cpu in online
    }
    if online and None not in cores:
        return len(packages) or None, len(cores), len(online)
    sockets = int(info["siblings"]) if info.get("siblings", "").isdigit() else 0
    cores_each = int(info["cpu cores"]) if info.get("cpu cores", "").isdigit() else 0
    if not listed or not sockets or not cores_each:
        return None, None, listed or None
    count = max(1, listed // sockets)
    return count, count * cores_each, listed


def _caches(root: Path) -> tuple[Cache, ...]:
    """Return L1d, L2, L3, …. A cache that CPUs share is counted once."""
    seen: set[tuple[str, int, str]] = set()
    for cpu in numbered(root / "sys/devices/system/cpu", "cpu"):
        for index in numbered(cpu / "cache", "index"):
            level, kind = text_of(index / "level"), text_of(index / "type")
            size = _SIZE.match(text_of(index / "size") or "")
            if level is None or size is None or kind == "Instruction":
                continue
            kib = round(int(size[1]) * _KIB[size[2]])
            name = f"L{level}d" if kind == "Data" else f"L{level}"
            if kib:
                seen.add((name, kib, text_of(index / "shared_cpu_list") or cpu.name))
    counts = Counter((name, kib) for name, kib, _ in seen)
    return tuple(Cache(name, kib, count) for (name, kib), count in sorted(counts.items()))


def _numa(root: Path) -> tuple[NumaNode, ...]:
    nodes = []
    for node in numbered(root / "sys/devices/system/node", "node"):
        total = re.search(r"MemTotal:\s+(\d+) kB", text_of(node / "meminfo") or "")
        memory_mib = int(total[1]) // 1024 if total else None
        nodes.append(NumaNode(text_of(node / "cpulist") or "", memory_mib))
    return tuple(nodes)
