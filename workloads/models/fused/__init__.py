"""A whole stack of recurrent layers in one library call: the kernel `fused`."""

from workloads.models.fused.fused_stack import FusedStack

__all__ = ["FusedStack"]
