"""Hardware of nodes: probe one node, and group equal ones into hardware classes."""

from orchestrator.hardware.classes import HardwareClass, classify, no_gpu_class_reason
from orchestrator.hardware.probing import only_visible_environment, probe
from orchestrator.hardware.profile import Gpu, GpuReaderInfo, Node, NodeProfile, NoGpus

__all__ = [
    "Gpu",
    "GpuReaderInfo",
    "HardwareClass",
    "NoGpus",
    "Node",
    "NodeProfile",
    "classify",
    "no_gpu_class_reason",
    "only_visible_environment",
    "probe",
]
