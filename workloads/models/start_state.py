"""The state that every timed part starts from, kept and put back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from workloads.models.model import WitnessedModel


@dataclass(slots=True)
class StartState:
    """All that training changes, as it was: weights, optimizer, seeds, metrics, random state."""

    model: WitnessedModel
    values: list[np.ndarray[Any, Any]] = field(init=False)
    random_state: Any = field(init=False)

    def __post_init__(self) -> None:
        self.model.optimizer.build(self.model.trainable_variables)
        self.values = self.state()
        self.random_state = self.model.witness.framework.random_state()

    def state(self) -> list[np.ndarray[Any, Any]]:
        """Copies of the values as they are now."""
        return [
            np.array(keras.ops.convert_to_numpy(variable.value)) for variable in self._variables()
        ]

    def restore(self) -> None:
        """Put everything back."""
        for variable, value in zip(self._variables(), self.values, strict=True):
            variable.assign(value)
        self.model.reset_metrics()  # their variables appear with the first step, and start at zero
        self.model.witness.framework.restore_random_state(self.random_state)

    def _variables(self) -> list[Any]:
        return [*self.model.variables, *self.model.optimizer.variables]  # seeds are the model's
