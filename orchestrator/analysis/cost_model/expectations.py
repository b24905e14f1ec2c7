"""The expected cost of trials that were not measured, for every target, or the reason for none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.analysis.cost_model.fitting import CostModel, NotPredicted, fit
from orchestrator.analysis.cost_model.observations import TARGETS, Observation
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected cost of a trial of the config on the arm, with its 90 % interval.

    Without a prediction there are no numbers, and `reason` explains it.
    """

    config: Config
    arm: Arm
    target: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Models:
    """The models of some observations, fitted on first use."""

    observations: Sequence[Observation]
    _fitted: dict[str, CostModel | NotPredicted] = field(default_factory=dict)

    def of(self, target: str) -> CostModel:
        """Return the model of a target.

        Raises:
            NotPredicted: there are too few measurements of it.
        """
        if target not in self._fitted:
            try:
                self._fitted[target] = fit(self.observations, target)
            except NotPredicted as error:
                self._fitted[target] = error
        model = self._fitted[target]
        if isinstance(model, NotPredicted):
            raise model
        return model

    def is_measured(self, target: str) -> bool:
        """Check that a trial measured the target."""
        return any(target in observation.took for observation in self.observations)


def expect(
    models: Models,
    asked: Sequence[tuple[Config, Arm]],
    settings: Mapping[str, Any],
    targets: Sequence[str] = TARGETS,
) -> list[Expectation]:
    """Return the expected costs of trials of these configs on these arms, under the sweep's
    settings.
    """
    rows = [(params_of(settings, config, arm), arm) for config, arm in asked]
    by_target = [_expect(models, target, asked, rows) for target in targets]
    return [expectation for of_trial in zip(*by_target, strict=True) for expectation in of_trial]


def params_of(settings: Mapping[str, Any], config: Config, arm: Arm) -> Config:
    """Return all that a trial's time may depend on except its arm, with the arm's own settings."""
    return {**settings, **config, **arm.usage.settings}


def _expect(
    models: Models,
    target: str,
    asked: Sequence[tuple[Config, Arm]],
    rows: Sequence[tuple[Config, Arm]],
) -> list[Expectation]:
    try:
        predictions = models.of(target).predict_each(rows)
    except NotPredicted as error:
        predictions = [error] * len(rows)
    return [
        Expectation(config, arm, target, reason=str(prediction))
        if isinstance(prediction, NotPredicted)
        else Expectation(config, arm, target, prediction.value, prediction.low, prediction.high)
        for (config, arm), prediction in zip(asked, predictions, strict=True)
    ]
