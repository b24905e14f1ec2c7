"""What each trial that was not measured is expected to take, of every target, or why not told."""

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
    """What a trial of the config on the arm takes of a target, and where 90 % of such trials lie.

    Where that cannot be told, `reason` says why, and there are no numbers.
    """

    config: Config
    arm: Arm
    target: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Models:
    """The models of some observations, each fitted when it is first asked for."""

    observations: Sequence[Observation]
    _fitted: dict[str, CostModel | NotPredicted] = field(default_factory=dict)

    def of(self, target: str) -> CostModel:
        """The model of a target.

        Raises:
            NotPredicted: too little of it was measured.
        """
        if target not in self._fitted:
            try:
                self._fitted[target] = fit(self.observations, target)
            except NotPredicted as refused:
                self._fitted[target] = refused
        found = self._fitted[target]
        if isinstance(found, NotPredicted):
            raise found
        return found

    def measured(self, target: str) -> bool:
        """Whether any trial has told it."""
        return any(target in each.took for each in self.observations)


def expect(
    models: Models,
    asked: Sequence[tuple[Config, Arm]],
    settings: Mapping[str, Any],
    targets: Sequence[str] = TARGETS,
) -> list[Expectation]:
    """What trials of these configs on these arms take, under the sweep's settings."""
    rows = [(params_of(settings, config, arm), arm) for config, arm in asked]
    found = [_expect(models, target, asked, rows) for target in targets]
    return [each for of_one in zip(*found, strict=True) for each in of_one]


def params_of(settings: Mapping[str, Any], config: Config, arm: Arm) -> Config:
    """All that a trial's time may depend on, beside its arm: also what the arm does otherwise."""
    return {**settings, **config, **arm.usage.settings}


def _expect(
    models: Models,
    target: str,
    asked: Sequence[tuple[Config, Arm]],
    rows: Sequence[tuple[Config, Arm]],
) -> list[Expectation]:
    try:
        found = models.of(target).predict_each(rows)
    except NotPredicted as refused:
        found = [refused] * len(rows)
    return [
        Expectation(config, arm, target, reason=str(each))
        if isinstance(each, NotPredicted)
        else Expectation(config, arm, target, each.value, each.low, each.high)
        for (config, arm), each in zip(asked, found, strict=True)
    ]
