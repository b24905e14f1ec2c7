"""The spec of a sweep: YAML in, one frozen, checked SweepSpec out."""

from orchestrator.spec.errors import Problem, SpecError
from orchestrator.spec.hardware import HardwareEntry
from orchestrator.spec.prices import Price
from orchestrator.spec.reading import load, parse
from orchestrator.spec.space import Choices, Dimension, Objective, Range, Sampler, Search
from orchestrator.spec.sweep_spec import Arms, Limits, SweepSpec

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
