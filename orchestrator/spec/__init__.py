"""The spec of a sweep: YAML in, one frozen, checked SweepSpec out."""

from orchestrator.spec.reading import load_spec, parse_spec
from orchestrator.spec.sections import HardwareEntry, Price
from orchestrator.spec.space import Choices, Dimension, Objective, Range, Search
from orchestrator.spec.spec_errors import Problem, SpecError
from orchestrator.spec.sweep_spec import SweepSpec

__all__ = [
    "Choices",
    "Dimension",
    "HardwareEntry",
    "Objective",
    "Price",
    "Problem",
    "Range",
    "Search",
    "SpecError",
    "SweepSpec",
    "load_spec",
    "parse_spec",
]
