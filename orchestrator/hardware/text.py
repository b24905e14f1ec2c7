"""Hardware classes as text: nodes, their capabilities, and devices that do not answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from orchestrator.core.text import counted, folded
from orchestrator.hardware.classes import HardwareClass, no_gpu_class_reason
from orchestrator.hardware.peak import Peak, Rate
from orchestrator.hardware.profile import Gpu, Node, NodeProfile

_LABEL = 12
_FRAMEWORKS = ("tensorflow", "jax", "torch", "keras")
_DISTURBED = (
    "! rounds differ by more than half, because other work used the machine. Measure on an"
    " idle machine with --measure --fresh"
)
_HIDDEN_LABELS = ("ray.io/node-id",)


def describe_hardware(
    classes: Iterable[HardwareClass], peaks: Sequence[Peak] = (), width: int = 100
) -> str:
    """Return hardware classes and nodes in lines of at most `width` characters (at least 60).

    Nodes with equal details share one entry.
    """
    lines: list[str] = []
    listed = list(classes)
    described: set[Node] = set()
    for hardware in listed:
        own_peaks = [peak for peak in peaks if peak.hardware == hardware.id]
        lines += [*_class(hardware, own_peaks, described, width), ""]
        described |= set(hardware.nodes)
    lines += _without_gpus(listed, width)
    measured = {peak.hardware for peak in peaks}
    if lacking := [hardware.name for hardware in listed if hardware.id not in measured]:
        scope = "" if len(lacking) == len(listed) else f" of {', '.join(lacking)}"
        hint = f"peak speeds{scope} are not measured yet: run rnnsweep hardware --measure"
        lines += folded(hint, width)
    return "\n".join(lines).rstrip("\n")


def _class(
    hardware: HardwareClass, peaks: Sequence[Peak], described: Set[Node], width: int
) -> Iterator[str]:
    yield from folded(hardware.name, width)
    slots = sum(node.gpus for node in hardware.nodes)
    gpus = f", {counted(slots, 'GPU')}" if hardware.device == "gpu" else ""
    nodes = counted(len(hardware.nodes), "node")
    yield from folded(f"{hardware.device}, {nodes}{gpus}; slug {hardware.slug}", width, "  ")
    groups: dict[tuple[tuple[str, str], ...], list[Node]] = {}
    for node in hardware.nodes:
        details = _shortly(node) if node in described else _details(node, hardware)
        groups.setdefault(tuple(details), []).append(node)
    for rows, alike in groups.items():
        yield from folded(", ".join(_name(node) for node in alike), width, "  ")
        for label, text in rows:
            yield from _row(label, text, width, "    ")
    yield from _peaks(peaks, width)
    for difference in hardware.unlike:
        yield from folded(f"! its nodes differ in {difference}", width, "  ")


def _name(node: Node) -> str:
    return f"{node.profile.hostname} ({node.id[:8]})" if node.id else node.profile.hostname


def _details(node: Node, hardware: HardwareClass) -> Iterator[tuple[str, str]]:
    profile = node.profile
    yield "for trials", _given(node)
    yield "processor", _processor(profile)
    if profile.cpu.vectors:
        yield "vectors", _families(profile.cpu.vectors)
    if caches := ", ".join(
        f"{cache.level} {_size(cache.kib)}" + (f" × {cache.count}" if cache.count > 1 else "")
        for cache in profile.cpu.caches
    ):
        yield "caches", caches
    yield "memory", _memory(profile)
    yield "limits", _limits(profile)
    yield "machine", _machine(profile)
    reason = no_gpu_class_reason(node)
    if hardware.device == "gpu" or reason:
        yield from _gpus(profile)
    for fault in profile.gpu_faults:
        yield "! GPU", fault
    if reason:
        yield "! no class", f"no GPU class: {reason}"
    yield "software", _software(profile)
    labels = [f"{k}={v}" for k, v in sorted(node.labels.items()) if k not in _HIDDEN_LABELS]
    if labels:
        yield "Ray labels", ", ".join(labels)


def _shortly(node: Node) -> Iterator[tuple[str, str]]:
    """Return the details that an entry for an earlier class does not have."""
    yield "for trials", _given(node)
    yield from _gpus(node.profile)


def _given(node: Node) -> str:
    gpus = f", {counted(node.gpus, 'GPU')}" if node.profile.gpus else ""
    return f"{counted(node.cpus, 'CPU')}{gpus}, {_size(node.profile.usable_memory_mib * 1024)}"


def _processor(profile: NodeProfile) -> str:
    cpu = profile.cpu
    parts = []
    if cpu.sockets:
        parts.append(counted(cpu.sockets, "socket"))
    if cpu.cores:
        parts.append(counted(cpu.cores, "core"))
    if cpu.logical_cpus:
        parts.append(counted(cpu.logical_cpus, "thread"))
    if cpu.signature:
        parts.append(cpu.signature)
    return ", ".join(parts) or "unknown"


def _families(vectors: Sequence[str]) -> str:
    """Return `AVX2, AVX-512 (VNNI, BF16)` of `AVX2`, `AVX-512`, `AVX-512 VNNI`, `AVX-512 BF16`."""
    families: dict[str, list[str]] = {}
    for vector in vectors:
        family, _, member = vector.partition(" ")
        families.setdefault(family, [])
        if member:
            families[family].append(member)
    return ", ".join(
        f"{family} ({', '.join(members)})" if members else family
        for family, members in families.items()
    )


def _memory(profile: NodeProfile) -> str:
    parts = [_size(profile.memory_mib * 1024)]
    if numa := profile.cpu.numa:
        sizes = [_size(node.memory_mib * 1024) for node in numa if node.memory_mib]
        alike = f" ({', '.join(dict.fromkeys(sizes))} each)" if len(set(sizes)) == 1 else ""
        unlike = f" ({', '.join(sizes)})" if len(set(sizes)) > 1 else ""
        parts.append(counted(len(numa), "NUMA node") + (alike if len(numa) > 1 else "") + unlike)
    return ", ".join(parts)


def _limits(profile: NodeProfile) -> str:
    limits, logical = profile.limits, profile.cpu.logical_cpus
    parts = []
    if limits.cpus is not None:
        parts.append(f"{limits.cpus:g} CPUs' time")
    if limits.memory_mib is not None:
        parts.append(f"{_size(limits.memory_mib * 1024)} memory")
    if parts:
        parts = [f"{', '.join(parts)} (cgroup v{limits.version})"]
    quota = None if limits.cpus is None else max(1, int(limits.cpus))
    if logical is not None and profile.cpus < logical and profile.cpus != quota:
        parts.append(f"{profile.cpus} of {logical} CPUs by affinity")
    if not parts:
        return "none" if limits.version is None else f"none (cgroup v{limits.version})"
    return "; ".join(parts)


def _machine(profile: NodeProfile) -> str:
    machine = profile.machine
    kind = {
        True: f"virtual ({machine.hypervisor or 'hypervisor unknown'})",
        False: "no sign of a hypervisor",
        None: "virtual or not: unknown",
    }[machine.virtual]
    return f"{kind}, {machine.product}" if machine.product else kind


def _gpus(profile: NodeProfile) -> Iterator[tuple[str, str]]:
    for gpu in profile.gpus:
        yield f"GPU {gpu.index}", ", ".join(_gpu(gpu))
    if profile.driver:
        runs = f", runs CUDA up to {profile.cuda}" if profile.cuda else ""
        yield "driver", f"NVIDIA {profile.driver}{runs}"


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
    if gpu.ecc is not None:
        yield f"ECC {'on' if gpu.ecc else 'off'}"
    if gpu.mig is not None:
        yield f"MIG {'on' if gpu.mig else 'off'}"
    if gpu.pcie_generation is not None and gpu.pcie_lanes is not None:
        fewer = gpu.pcie_lanes_now is not None and gpu.pcie_lanes_now < gpu.pcie_lanes
        now = f" (now ×{gpu.pcie_lanes_now})" if fewer else ""
        yield f"PCIe {gpu.pcie_generation} ×{gpu.pcie_lanes}{now}"


def _software(profile: NodeProfile) -> str:
    frameworks = [f"{n} {profile.packages[n]}" for n in _FRAMEWORKS if n in profile.packages]
    return ", ".join([*frameworks, f"Python {profile.python}", profile.system])


def _peaks(peaks: Sequence[Peak], width: int) -> Iterator[str]:
    """Yield a heading for each time and place, and a row for each backend and precision."""
    groups: dict[str, list[Peak]] = {}
    for peak in peaks:
        groups.setdefault(f"on {peak.node} on {peak.at[:10]}", []).append(peak)
    for where, members in groups.items():
        heading = f"peak speeds, measured {where}: median of the rounds (slowest–fastest)"
        yield from folded(heading, width, "  ")
        named: set[str] = set()
        for peak in members:
            if peak.backend not in named:
                named.add(peak.backend)
                yield from _row(peak.backend, _versions(peak), width, "    ")
            text = f"{peak.precision:<8} product {_rate(peak.flops_per_s, 'FLOP/s')}"
            if peak.bytes_per_s:
                text += f", copy {_rate(peak.bytes_per_s, 'B/s')}"
            yield from _row("", text, width, "    ")
        if any(rate.disturbed for peak in members for rate in _rates(peak)):
            yield from folded(_DISTURBED, width, "  ")


def _rates(peak: Peak) -> list[Rate]:
    return [rate for rate in (peak.flops_per_s, peak.bytes_per_s) if rate is not None]


def _versions(peak: Peak) -> str:
    """Return `2.13.0, keras 3.15.1, cuda 12.8`: the backend's own first."""
    rest = [
        f"{name} {version}"
        for name, version in peak.versions.items()
        if name not in (peak.backend, "method", "devices")
    ]
    seen = peak.versions.get("devices")
    named = ", ".join([peak.versions.get(peak.backend, "?"), *rest])
    return f"{named}; on {seen}" if seen else named


def _rate(rate: Rate, unit: str) -> str:
    """Return `212 GFLOP/s (198–220)`: the median, with the slowest and the fastest round."""
    scale, prefix = next(
        (s, p) for s, p in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, "")) if rate.median >= s
    )
    scaled = [number / scale for number in (rate.median, rate.low, rate.high)]
    median, low, high = (f"{x:.0f}" if x >= 100 else f"{x:.3g}" for x in scaled)
    return f"{median} {prefix}{unit} ({low}–{high})"


def _without_gpus(classes: Sequence[HardwareClass], width: int) -> Iterator[str]:
    """Explain why there is no GPU, where there is none at all."""
    if any(hardware.device == "gpu" for hardware in classes):
        return
    nodes = {n.profile.hostname: n.profile for hardware in classes for n in hardware.nodes}
    reasons: dict[str, list[str]] = {}
    for host, profile in nodes.items():
        if profile.gpus or profile.gpu_faults:
            continue
        reason = profile.no_nvml or "NVML shows none to this process (is CUDA_VISIBLE_DEVICES set?)"
        reasons.setdefault(reason, []).append(host)
    for reason, hosts in reasons.items():
        where = f" on {', '.join(hosts)}" if len(nodes) > 1 else ""
        yield from folded(f"no GPU{where}: {reason}", width)


def _size(kib: float) -> str:
    """Return `48 KiB`, `1.5 MiB`, `23.5 GiB`, `140 GiB`."""
    size, unit = kib, "KiB"
    for larger in ("MiB", "GiB"):
        if size >= 1024:
            size, unit = size / 1024, larger
    return f"{round(size, 1):g} {unit}" if size < 100 else f"{size:.0f} {unit}"


def _row(label: str, text: str, width: int, indent: str) -> list[str]:
    first = f"{indent}{label:<{_LABEL}} "
    return folded(text, width, first, " " * len(first))
