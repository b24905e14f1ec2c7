"""Hardware classes as a document and as one versioned object (`hardware.schema.json`)."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.core.text import counted
from orchestrator.diagnostics.peaks import Peak, Rate
from orchestrator.hardware import Gpu, HardwareClass, Node, NodeProfile, no_gpu_class_reason
from orchestrator.report.document import Column, Document, Section, Table, make_table

FORMAT, VERSION = "rnnsweep-hardware", 3
_FRAMEWORKS = ("tensorflow", "jax", "torch", "keras")
_DISTURBED = (
    "rounds differ by more than half, because other work used the machine. Measure on an"
    " idle machine with --measure --fresh"
)
_HIDDEN_LABELS = ("ray.io/node-id",)

Fact = tuple[str, str]


def hardware_document(classes: Sequence[HardwareClass], peaks: Sequence[Peak] = ()) -> Document:
    """Return hardware classes, their nodes and their peaks. Nodes with equal facts share a table.

    The details of a node are in the first class that has it.
    """
    overview: list[Column[HardwareClass]] = [
        Column("class", lambda item: item.name),
        Column("device", lambda item: item.device),
        Column("nodes", lambda item: len(item.nodes)),
        Column("GPUs", _gpu_count, optional=True),
        Column("slug", lambda item: item.slug),
    ]
    bullets = [("slower", text) for text in _faults(classes)]
    notes = tuple(_notes(classes, peaks))
    sections = [Section("", tuple(bullets), (make_table(overview, classes),), notes)]
    described: set[Node] = set()
    for item in classes:
        own_peaks = [peak for peak in peaks if peak.hardware == item.id]
        sections.append(_section(item, own_peaks, described))
        described |= set(item.nodes)
    return Document("Hardware", tuple(sections))


def hardware_json(classes: Sequence[HardwareClass], peaks: Sequence[Peak] = ()) -> dict[str, Any]:
    """Return hardware classes, their nodes and their measured peaks."""
    body = {
        "format": FORMAT,
        "version": VERSION,
        "classes": [
            {
                "id": item.id,
                "name": item.name,
                "slug": item.slug,
                "device": item.device,
                "unlike": list(item.unlike),
                "nodes": [_node_json(node) for node in item.nodes],
                "peaks": [peak.as_json() for peak in peaks if peak.hardware == item.id],
            }
            for item in classes
        ],
    }
    return dict(json.loads(json.dumps(body)))  # lists in the place of tuples, all the way down


def _node_json(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "cpus_given": node.cpus,
        "gpus_given": node.gpus,
        "labels": dict(node.labels),
        "no_gpu_class_reason": no_gpu_class_reason(node),
        **dataclasses.asdict(node.profile),
        "packages": dict(node.profile.packages),
    }


def _gpu_count(item: HardwareClass) -> int | None:
    return sum(node.gpus for node in item.nodes) if item.device == "gpu" else None


def _faults(classes: Sequence[HardwareClass]) -> Iterator[str]:
    """Yield GPUs that do not answer, and GPUs that form no class."""
    for node in dict.fromkeys(node for item in classes for node in item.nodes):
        for fault in node.profile.gpu_faults:
            yield f"{node.profile.hostname}: {fault}"
        if reason := no_gpu_class_reason(node):
            yield f"no GPU class: {reason}"


def _notes(classes: Sequence[HardwareClass], peaks: Sequence[Peak]) -> Iterator[str]:
    """Yield why there is no GPU, where there is none at all, and which peaks are missing."""
    nodes = {node.profile.hostname: node.profile for item in classes for node in item.nodes}
    reasons: dict[str, list[str]] = {}
    for host, profile in nodes.items():
        if not (profile.gpus or profile.gpu_faults):
            hidden = "NVML shows none to this process (is CUDA_VISIBLE_DEVICES set?)"
            reasons.setdefault(profile.no_nvml or hidden, []).append(host)
    if not any(item.device == "gpu" for item in classes):
        for reason, hosts in reasons.items():
            where = f" on {', '.join(hosts)}" if len(nodes) > 1 else ""
            yield f"no GPU{where}: {reason}"
    measured = {peak.hardware for peak in peaks}
    if lacking := [item.name for item in classes if item.id not in measured]:
        scope = "" if len(lacking) == len(classes) else f" of {', '.join(lacking)}"
        yield f"peak speeds{scope} are not measured yet: run rnnsweep hardware --measure"


def _section(item: HardwareClass, peaks: Sequence[Peak], described: set[Node]) -> Section:
    groups: dict[tuple[Fact, ...], list[str]] = {}
    for node in item.nodes:
        host = f"{node.profile.hostname} ({node.id[:8]})" if node.id else node.profile.hostname
        facts = _facts(node, item) if node not in described else _gpu_facts(node)
        groups.setdefault(tuple(facts), []).append(host)
    tables = [Table(("node", ", ".join(hosts)), facts) for facts, hosts in groups.items()]
    notes = [f"its nodes differ in {difference}" for difference in item.unlike]
    if any(peak.is_disturbed for peak in peaks):
        notes.append(_DISTURBED)
    bullets = tuple(("inconclusive", note) for note in notes)
    return Section(item.name, bullets, (*tables, *([_peaks(peaks)] if peaks else [])))


def _facts(node: Node, item: HardwareClass) -> Iterator[Fact]:
    """Yield the details of a node, without those that could not be read."""
    profile, cpu = node.profile, node.profile.cpu
    yield "for trials", _given(node)
    counts = [(cpu.sockets, "socket"), (cpu.cores, "core"), (cpu.logical_cpus, "thread")]
    parts = [counted(number, noun) for number, noun in counts if number]
    yield "processor", ", ".join([*parts, *filter(None, [cpu.signature])]) or "unknown"
    if cpu.vectors:
        yield "vectors", _families(cpu.vectors)
    if cpu.caches:
        caches = (f"{one.level} {_size(one.kib)} × {one.count}" for one in cpu.caches)
        yield "caches", ", ".join(cache.removesuffix(" × 1") for cache in caches)
    yield "memory", _memory(profile)
    yield "limits", _limits(profile)
    machine = profile.machine
    kind = {
        True: f"virtual ({machine.hypervisor or 'hypervisor unknown'})",
        False: "no sign of a hypervisor",
        None: "virtual or not: unknown",
    }[machine.virtual]
    yield "machine", ", ".join(filter(None, [kind, machine.product]))
    if item.device == "gpu" or no_gpu_class_reason(node):
        yield from list(_gpu_facts(node))[1:]
    frameworks = [f"{n} {profile.packages[n]}" for n in _FRAMEWORKS if n in profile.packages]
    yield "software", ", ".join([*frameworks, f"Python {profile.python}", profile.system])
    labels = [f"{k}={v}" for k, v in sorted(node.labels.items()) if k not in _HIDDEN_LABELS]
    if labels:
        yield "Ray labels", ", ".join(labels)


def _gpu_facts(node: Node) -> Iterator[Fact]:
    """Yield what trials get, each GPU, and the driver."""
    yield "for trials", _given(node)
    for gpu in node.profile.gpus:
        yield f"GPU {gpu.index}", ", ".join(_gpu(gpu))
    if node.profile.driver:
        runs = f", runs CUDA up to {node.profile.cuda}" if node.profile.cuda else ""
        yield "driver", f"NVIDIA {node.profile.driver}{runs}"


def _given(node: Node) -> str:
    gpus = f", {counted(node.gpus, 'GPU')}" if node.profile.gpus else ""
    return f"{counted(node.cpus, 'CPU')}{gpus}, {_size(node.profile.usable_memory_mib * 1024)}"


def _families(vectors: Sequence[str]) -> str:
    """Return `AVX2, AVX-512 (VNNI, BF16)` of `AVX2`, `AVX-512`, `AVX-512 VNNI`, `AVX-512 BF16`."""
    families: dict[str, list[str]] = {}
    for vector in vectors:
        family, _, member = vector.partition(" ")
        families.setdefault(family, []).extend(filter(None, [member]))
    return ", ".join(
        f"{family} ({', '.join(members)})" if members else family
        for family, members in families.items()
    )


def _memory(profile: NodeProfile) -> str:
    text, numa = _size(profile.memory_mib * 1024), profile.cpu.numa
    sizes = [_size(node.memory_mib * 1024) for node in numa if node.memory_mib]
    if not numa:
        return text
    text += f", {counted(len(numa), 'NUMA node')}"
    if len(numa) == 1 or not sizes:
        return text
    return f"{text} ({sizes[0]} each)" if len(set(sizes)) == 1 else f"{text} ({', '.join(sizes)})"


def _limits(profile: NodeProfile) -> str:
    limits, logical = profile.limits, profile.cpu.logical_cpus
    parts = []
    if limits.cpus is not None:
        parts.append(f"{limits.cpus:g} CPUs' time")
    if limits.memory_mib is not None:
        parts.append(f"{_size(limits.memory_mib * 1024)} memory")
    by_group = ", ".join(parts) or "none"
    if limits.version is not None:
        by_group += f" (cgroup v{limits.version})"
    quota = None if limits.cpus is None else max(1, int(limits.cpus))
    if logical is None or profile.cpus >= logical or profile.cpus == quota:
        return by_group
    affinity = f"{profile.cpus} of {logical} CPUs by affinity"
    return f"{by_group}; {affinity}" if parts else affinity


def _gpu(gpu: Gpu) -> Iterator[str]:
    yield gpu.name
    if gpu.memory_mib is not None:
        yield _size(gpu.memory_mib * 1024)
    if gpu.compute_capability:
        yield f"compute capability {gpu.compute_capability}"
    if gpu.power_limit_w is not None:
        yield f"limit {gpu.power_limit_w:.0f} W"
    clocks = {"SM": gpu.max_sm_clock_mhz, "memory": gpu.max_memory_clock_mhz}
    if limits := [f"{name} {mhz:.0f} MHz" for name, mhz in clocks.items() if mhz is not None]:
        yield f"up to {', '.join(limits)}"
    for name, mode in {"ECC": gpu.ecc, "MIG": gpu.mig}.items():
        if mode is not None:
            yield f"{name} {'on' if mode else 'off'}"
    if gpu.pcie_generation is not None and gpu.pcie_lanes is not None:
        fewer = gpu.pcie_lanes_now is not None and gpu.pcie_lanes_now < gpu.pcie_lanes
        now = f" (now ×{gpu.pcie_lanes_now})" if fewer else ""
        yield f"PCIe {gpu.pcie_generation} ×{gpu.pcie_lanes}{now}"


def _peaks(peaks: Sequence[Peak]) -> Table:
    """Return measured speeds: the median of the rounds, with the slowest and the fastest."""
    columns: list[Column[Peak]] = [
        Column("peak of", lambda peak: f"{peak.backend} {peak.precision}"),
        Column("product", lambda peak: _rate(peak.flops_per_s, "FLOP/s")),
        Column("copy", lambda peak: peak.bytes_per_s and _rate(peak.bytes_per_s, "B/s")),
        Column("with", _versions),
        Column("measured", lambda peak: f"on {peak.node} on {peak.at[:10]}"),
    ]
    return make_table(columns, peaks)


def _versions(peak: Peak) -> str:
    """Return `2.13.0, keras 3.15.1, cuda 12.8`: the backend's own first."""
    shown = {k: v for k, v in peak.versions.items() if k not in (peak.backend, "method", "devices")}
    rest = [f"{name} {version}" for name, version in shown.items()]
    named = ", ".join([peak.versions.get(peak.backend, "?"), *rest])
    seen = peak.versions.get("devices")
    return f"{named}; on {seen}" if seen else named


def _rate(rate: Rate, unit: str) -> str:
    """Return `212 GFLOP/s (198–220)`: the median, with the slowest and the fastest round."""
    scale, prefix = next(
        (s, p) for s, p in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, "")) if rate.median >= s
    )
    scaled = [number / scale for number in (rate.median, rate.low, rate.high)]
    median, low, high = (f"{x:.0f}" if x >= 100 else f"{x:.3g}" for x in scaled)
    return f"{median} {prefix}{unit} ({low}–{high})"


def _size(kib: float) -> str:
    """Return `48 KiB`, `1.5 MiB`, `23.5 GiB`, `140 GiB`."""
    size, unit = kib, "KiB"
    for larger in ("MiB", "GiB"):
        if size >= 1024:
            size, unit = size / 1024, larger
    return f"{round(size, 1):g} {unit}" if size < 100 else f"{size:.0f} {unit}"
