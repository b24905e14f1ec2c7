"""The state that every timed part starts from, saved and restored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from workloads.models.model import WitnessedModel


@dataclass(slots=True)
class StartState:
    """A copy of all that training changes: weights, optimizer, seeds, metrics, random state."""

    model: WitnessedModel
    values: list[np.ndarray[Any, Any]] = field(init=False)
    random_state: Any = field(init=False)

    def __post_init__(self) -> None:
        self.model.optimizer.build(self.model.trainable_variables)
        self.values = self.current_values()
        self.random_state = self.model.witness.framework.random_state()

    def current_values(self) -> list[np.ndarray[Any, Any]]:
        """Return copies of the current values of all variables."""
        return [
            np.array(keras.ops.convert_to_numpy(variable.value)) for variable in self._variables()
        ]

    def restore(self) -> None:
        """Restore the saved state."""
        for variable, value in zip(self._variables(), self.values, strict=True):
            variable.assign(value)
        self.model.reset_metrics()  # the first step makes their variables, which start at zero
        self.model.witness.framework.restore_random_state(self.random_state)

    def _variables(self) -> list[Any]:
        return [
            *self.model.variables,
            *self.model.optimizer.variables,
        ]  # the model's have the seeds
