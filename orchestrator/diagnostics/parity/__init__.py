"""`rnnsweep parity`: weights saved by one implementation are loaded by the others."""

from orchestrator.diagnostics.parity.listing import parity_document, parity_json
from orchestrator.diagnostics.parity.parity_check import check, devices

__all__ = ["check", "devices", "parity_document", "parity_json"]
