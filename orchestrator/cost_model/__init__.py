"""What a config that was not measured would take, from those that were: time, memory, energy."""

from orchestrator.cost_model.draws import draw_configs
from orchestrator.cost_model.fitting import (
    METHODS,
    MIN_GROUPS,
    CostModel,
    HeldOut,
    Method,
    NotPredicted,
    Prediction,
    fit,
)
from orchestrator.cost_model.observations import (
    MEMORY,
    TARGETS,
    Observation,
    observe,
    trial_seconds,
)

__all__ = [
    "MEMORY",
    "METHODS",
    "MIN_GROUPS",
    "TARGETS",
    "CostModel",
    "HeldOut",
    "Method",
    "NotPredicted",
    "Observation",
    "Prediction",
    "draw_configs",
    "fit",
    "observe",
    "trial_seconds",
]
