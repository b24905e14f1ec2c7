"""Prediction of the time, memory and energy of configs that were not measured."""

from orchestrator.analysis.cost_model.expectations import Expectation, Models, expect, params_of
from orchestrator.analysis.cost_model.fitting import (
    METHODS,
    MIN_GROUPS,
    CostModel,
    HeldOut,
    Method,
    NotPredicted,
    Prediction,
    fit,
)
from orchestrator.analysis.cost_model.observations import (
    MEMORY,
    TARGETS,
    Observation,
    observe,
    trial_seconds,
)
from orchestrator.analysis.cost_model.sampling import draw_configs

__all__ = [
    "MEMORY",
    "METHODS",
    "MIN_GROUPS",
    "TARGETS",
    "CostModel",
    "Expectation",
    "HeldOut",
    "Method",
    "Models",
    "NotPredicted",
    "Observation",
    "Prediction",
    "draw_configs",
    "expect",
    "fit",
    "observe",
    "params_of",
    "trial_seconds",
]
