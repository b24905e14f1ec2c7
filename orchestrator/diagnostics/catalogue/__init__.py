"""What can be put into a spec, and what of it runs here: workloads, settings, implementations."""

from orchestrator.diagnostics.catalogue.listing import Catalogue, as_json, whole
from orchestrator.diagnostics.catalogue.one_workload import one
from orchestrator.diagnostics.catalogue.text import as_text

__all__ = ["Catalogue", "as_json", "as_text", "one", "whole"]
