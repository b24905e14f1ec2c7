"""Hardware of nodes: probe one node, and group equal ones into hardware classes."""

from orchestrator.hardware.classes import HardwareClass, classify, no_gpu_class_reason
from orchestrator.hardware.probing import probe, visible_gpus
from orchestrator.hardware.profile import Gpu, Node, NodeProfile

__all__ = [
    "Gpu",
    "HardwareClass",
    "Node",
    "NodeProfile",
    "classify",
    "no_gpu_class_reason",
    "probe",
    "visible_gpus",
]
