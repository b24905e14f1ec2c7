"""`rnnsweep parity`: weights saved by one implementation are loaded by the others."""

from orchestrator.diagnostics.parity.check import check, devices, load, save
from orchestrator.diagnostics.parity.request import ask
from orchestrator.diagnostics.parity.text import as_json, as_text

__all__ = ["as_json", "as_text", "ask", "check", "devices", "load", "save"]
