"""A node's processors and machine, by `lscpu` where it is installed, and by `/proc` and `/sys`."""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from orchestrator.hardware.profile import Cache, Cpu, Machine, NumaNode

CpuFields = Mapping[str, str]

_NAMES = yaml.safe_load(Path(__file__).with_name("cpu_names.yaml").read_text())
_VECTORS: Mapping[str, str] = _NAMES["vectors"]
_MAKERS: Mapping[str, str] = _NAMES["hypervisors"]
_NO_PRODUCT = ("to be filled by o.e.m.", "system product name", "default string", "not specified")


def read_fields(root: Path) -> CpuFields:
    """Return the fields of the first processor in `/proc/cpuinfo`, and the fields of `lscpu`."""
    # Names of `lscpu` begin with a capital (`Model name`). On x86 the kernel's names do not.
    fields: dict[str, str] = {}
    for line in (text_of(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if value.strip():
            fields.setdefault(key.strip(), " ".join(value.split()))
    command, environ = ["lscpu", "--json", "--bytes"], {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=10, env=environ)
        listed = list(_flat(json.loads(done.stdout)["lscpu"]))
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return fields  # it is not installed, or too old for JSON
    return fields | dict(reversed(listed))  # the first of equal names counts


def _flat(entries: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield fields and values of `lscpu`; some versions nest them by topic."""
    for entry in entries:
        if entry.get("data") not in (None, "-"):
            yield entry["field"].removesuffix(":"), entry["data"]
        yield from _flat(entry.get("children", []))


def cpu_model(fields: CpuFields) -> str | None:
    """Return `AMD EPYC 9654 96-Core Processor` or `Neoverse-V1`; None where it is not known."""
    return fields.get("model name") or fields.get("Model name") or cpu_part(fields)


def cpu_part(fields: CpuFields) -> str | None:
    """Return `ARM 0x41 0xd40`, implementer and part; None where the kernel names the model."""
    implementer, part = fields.get("CPU implementer"), fields.get("CPU part")
    if "model name" in fields or implementer is None or part is None:
        return None
    return f"ARM {implementer.lower()} {part.lower()}"


def read_cpu(root: Path, fields: CpuFields) -> Cpu:
    """Return the machine's processors, from its `read_fields`; `root` holds `proc` and `sys`."""
    listed = text_of(root / "proc/cpuinfo") or ""
    processors = re.findall(r"^processor\s*:", listed, re.MULTILINE)
    packages = set(re.findall(r"^physical id\s*:.*", listed, re.MULTILINE))
    sockets = _number(fields, "Socket(s)") or len(packages) or None
    cores_each = _number(fields, "Core(s) per socket") or _number(fields, "cpu cores")
    flags = (fields.get("flags") or fields.get("Features") or fields.get("Flags") or "").split()
    return Cpu(
        signature=_signature(fields),
        sockets=sockets,
        cores=sockets * cores_each if sockets and cores_each else None,
        logical_cpus=len(processors) or None,
        vectors=tuple(dict.fromkeys(_VECTORS[flag] for flag in _VECTORS if flag in flags)),
        caches=tuple(_caches(fields)),
        numa=tuple(_numa(root)),
    )


def _signature(fields: CpuFields) -> str | None:
    """Return vendor, family, model and stepping, as far as reported: `AuthenticAMD 25/17/1`."""
    vendor = fields.get("Vendor ID") or fields.get("vendor_id")
    numbers = (
        fields.get("CPU family") or fields.get("cpu family"),
        fields.get("Model") or fields.get("model"),
        fields.get("Stepping") or fields.get("stepping"),
    )
    text = " ".join(filter(None, [vendor, "/".join(filter(None, numbers))]))
    return text or cpu_part(fields)


def _number(fields: CpuFields, name: str) -> int | None:
    text = fields.get(name, "")
    return int(text) or None if text.isdecimal() else None


def _caches(fields: CpuFields) -> Iterator[Cache]:
    """Yield L1d, L2, L3, …: `lscpu` has the size of all instances together."""
    for name, text in sorted(fields.items()):
        level = re.fullmatch(r"(L1d|L\d) cache", name)
        size = re.fullmatch(r"(\d+) \((\d+) instances?\)", text)
        if level and size and int(size[2]):
            yield Cache(level[1], int(size[1]) // int(size[2]) // 1024, int(size[2]))


def _numa(root: Path) -> Iterator[NumaNode]:
    folders = (root / "sys/devices/system/node").glob("node[0-9]*")
    for node in sorted(folders, key=lambda path: (len(path.name), path.name)):
        total = re.search(r"MemTotal:\s+(\d+) kB", text_of(node / "meminfo") or "")
        memory_mib = int(total[1]) // 1024 if total else None
        yield NumaNode(text_of(node / "cpulist") or "", memory_mib)


def read_machine(root: Path, fields: CpuFields) -> Machine:
    """Return the kind of machine that the node is."""
    # An x86 CPU reports a hypervisor; on ARM, without a sign of one, the answer is unknown.
    texts = [text_of(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name")]
    names = [text for text in texts if text and text.lower() not in _NO_PRODUCT]
    if len(names) == 2 and names[1].startswith(names[0]):  # "Google", "Google Compute Engine"
        names = names[1:]
    product = " ".join(names) or None
    text = (product or "").lower()
    hypervisor = fields.get("Hypervisor vendor")
    if hypervisor is None and ".metal" not in text:  # a cloud's machine without a hypervisor
        hypervisor = next((name for maker, name in _MAKERS.items() if maker in text), None)
    virtual: bool | None = True if hypervisor else None
    if "flags" in fields:
        virtual = "hypervisor" in fields["flags"].split()
    return Machine(virtual, hypervisor if virtual else None, product)


def text_of(file: Path) -> str | None:
    """Return the text of a file, stripped; None where it is unreadable or empty."""
    try:
        return file.read_text(errors="replace").strip() or None
    except OSError:
        return None
