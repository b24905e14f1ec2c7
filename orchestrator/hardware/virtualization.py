"""Detection of virtual machines from `/proc` and `/sys`, without special rights."""

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
"""Vendor and product name of the machine (in lower case) -> hypervisor."""

_CLOCKS = {"kvm-clock": "KVM", "hyperv_clocksource": "Hyper-V", "xen": "Xen"}
"""Clocks that only a hypervisor offers, by their first letters."""

_NO_PRODUCT = ("to be filled by o.e.m.", "system product name", "default string", "not specified")


def read_machine(root: Path, info: CpuInfo) -> Machine:
    """Return the kind of machine that the node is.

    An x86 CPU reports whether a hypervisor runs it. An ARM CPU does not: without a sign of a
    hypervisor the answer is unknown.

    Args:
        root: the folder that holds `proc` and `sys`.
        info: the fields of `/proc/cpuinfo`.
    """
    product = _product(root)
    hypervisor = _hypervisor(root, product)
    if "flags" in info:
        virtual: bool | None = "hypervisor" in info["flags"].split()
    else:
        virtual = True if hypervisor else None
    return Machine(virtual, hypervisor if virtual else None, product)


def _product(root: Path) -> str | None:
    texts = [text_of(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name")]
    names = [text for text in texts if text and text.lower() not in _NO_PRODUCT]
    if len(names) == 2 and names[1].startswith(names[0]):  # "Google", "Google Compute Engine"
        names = names[1:]
    return " ".join(names) or None


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
    text = (product or "").lower()
    return next((hypervisor for name, hypervisor in _MAKERS.items() if name in text), None)
