"""The spec of a sweep: YAML in, one frozen, checked SweepSpec out."""

from orchestrator.spec.errors import Problem, SpecError
from orchestrator.spec.reading import load, parse
from orchestrator.spec.sections import Arms, HardwareEntry, Limits, Price
from orchestrator.spec.space import Choices, Dimension, Objective, Range, Sampler, Search
from orchestrator.spec.sweep_spec import SweepSpec

__all__ = [
    "Arms",
    "Choices",
    "Dimension",
    "HardwareEntry",
    "Limits",
    "Objective",
    "Price",
    "Problem",
    "Range",
    "Sampler",
    "Search",
    "SpecError",
    "SweepSpec",
    "load",
    "parse",
]
