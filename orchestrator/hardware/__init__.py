"""Hardware of nodes: probe one node, and group equal ones into hardware classes."""

from orchestrator.hardware.classes import HardwareClass, classify, no_gpu_class_reason
from orchestrator.hardware.other_processes import (
    Look,
    OtherProcesses,
    ProcessAddress,
    observe_other_processes,
)
from orchestrator.hardware.probing import only_visible_environment, probe
from orchestrator.hardware.profile import Gpu, GpuReaderInfo, Node, NodeProfile, NoGpus

__all__ = [
    "Gpu",
    "GpuReaderInfo",
    "HardwareClass",
    "Look",
    "NoGpus",
    "Node",
    "NodeProfile",
    "OtherProcesses",
    "ProcessAddress",
    "classify",
    "no_gpu_class_reason",
    "observe_other_processes",
    "only_visible_environment",
    "probe",
]
