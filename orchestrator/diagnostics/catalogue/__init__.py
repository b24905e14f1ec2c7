"""The choices of a spec and which of them run here: workloads, settings, implementations."""

from orchestrator.diagnostics.catalogue.listing import (
    Catalogue,
    as_json,
    full_catalogue,
    workload_catalogue,
)
from orchestrator.diagnostics.catalogue.text import as_text

__all__ = ["Catalogue", "as_json", "as_text", "full_catalogue", "workload_catalogue"]
