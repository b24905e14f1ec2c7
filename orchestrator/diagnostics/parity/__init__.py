"""`rnnsweep parity`: weights saved by one implementation are loaded by the others."""

from orchestrator.diagnostics.parity.listing import as_json, to_document
from orchestrator.diagnostics.parity.parity_check import check, devices

__all__ = ["as_json", "check", "devices", "to_document"]
