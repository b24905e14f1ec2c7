"""Whether a node is a virtual machine, told from `/proc` and `/sys` without special rights."""

from __future__ import annotations

from pathlib import Path

from orchestrator.hardware.cpu import CpuInfo
from orchestrator.hardware.profile import Machine
from orchestrator.hardware.sysfs import text_of

_MAKERS = {
    "amazon ec2": "KVM",
    "google compute engine": "KVM",
    "kvm": "KVM",
    "openstack": "KVM",
    "qemu": "QEMU",
    "microsoft corporation virtual machine": "Hyper-V",
    "vmware": "VMware",
    "virtualbox": "VirtualBox",
    "xen": "Xen",
    "parallels": "Parallels",
}
"""What the machine's maker and product say (in lower case) -> the hypervisor that says so."""

_CLOCKS = {"kvm-clock": "KVM", "hyperv_clocksource": "Hyper-V", "xen": "Xen"}
"""Clocks that only a hypervisor offers, by their first letters."""

_NO_PRODUCT = ("to be filled by o.e.m.", "system product name", "default string", "not specified")


def read_machine(root: Path, info: CpuInfo) -> Machine:
    """What kind of machine the node is.

    An x86 CPU says itself whether a hypervisor runs it. An ARM one does not: there, no sign of a
    hypervisor leaves it open.

    Args:
        root: the folder that holds `proc` and `sys`.
        info: what `/proc/cpuinfo` says.
    """
    product = _product(root)
    hypervisor = _hypervisor(root, product)
    if "flags" in info:
        virtual: bool | None = "hypervisor" in info["flags"].split()
    else:
        virtual = True if hypervisor else None
    return Machine(virtual, hypervisor if virtual else None, product)


def _product(root: Path) -> str | None:
    names = [text_of(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name")]
    told = [name for name in names if name and name.lower() not in _NO_PRODUCT]
    if len(told) == 2 and told[1].startswith(told[0]):  # "Google", "Google Compute Engine"
        told = told[1:]
    return " ".join(told) or None


def _hypervisor(root: Path, product: str | None) -> str | None:
    if product and ".metal" in product.lower():  # a cloud's machine without a hypervisor
        return None
    if kind := text_of(root / "sys/hypervisor/type"):
        return kind.capitalize()
    clocks = root / "sys/devices/system/clocksource/clocksource0/available_clocksource"
    for clock in (text_of(clocks) or "").split():
        for name, hypervisor in _CLOCKS.items():
            if clock.startswith(name):
                return hypervisor
    said = (product or "").lower()
    return next((hypervisor for name, hypervisor in _MAKERS.items() if name in said), None)
