"""Predictions for configs that a sweep did not run, from its trials."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.analysis.cost_model import (
    TARGETS,
    Expectation,
    Models,
    NotPredicted,
    expect,
    observe,
)
from orchestrator.core.names import names_arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config


def predict_from(
    record: SweepRecord, config: Config, arm: str = "*", targets: Sequence[str] = TARGETS
) -> list[Expectation]:
    """Predict what a trial of the config takes on arms of a sweep; see `orchestrator.api.predict`.

    Raises:
        NotPredicted: the sweep has no such arm, or there is no such target.
    """
    if unknown := [target for target in targets if target not in TARGETS]:
        raise NotPredicted(f"targets: expected of {', '.join(TARGETS)}; received {unknown[0]!r}")
    arms = [candidate for candidate in record.arms if names_arm(arm, candidate)]
    if not arms:
        choices = "; ".join(map(str, record.arms)) or "none, as none can run"
        raise NotPredicted(f"sweep {record.name!r}: expected an arm of it ({choices}); got {arm!r}")
    models = Models(observe(record.trials, record.settings))
    return expect(models, [(config, candidate) for candidate in arms], record.settings, targets)
