"""`rnnsweep parity`: weights and outputs saved on one machine are compared on another."""

from orchestrator.diagnostics.parity.listing import parity_document, parity_json
from orchestrator.diagnostics.parity.parity_check import (
    ParityCheck,
    prepare_comparing,
    prepare_saving,
)

__all__ = ["ParityCheck", "parity_document", "parity_json", "prepare_comparing", "prepare_saving"]
