"""A rule that stops a sweep by its energy: the example of `docs/adding.md`.

`test_spec_key` copies this file into a copy of the packages.
"""

from orchestrator.core.stop_decision import StopDecision, StoppingRule
from orchestrator.core.trial import FinishedTrial

_KWH_J = 3.6e6


class EnergyBudget(StoppingRule):
    """The rule that the measured energy of all trials is to reach a budget.

    A trial whose energy was not measured counts nothing.
    """

    name = "limits.budget_kwh"

    def __init__(self, budget_kwh: float) -> None:
        self._budget_kwh = budget_kwh
        self._used_j = 0.0
        self._joules: dict[str, float] = {}

    def add_outcome(self, finished: FinishedTrial) -> StopDecision | None:
        # An outcome with the key of an earlier one replaces it.
        joules = finished.metrics.get("energy_j", 0.0)
        self._used_j += joules - self._joules.get(finished.key, 0.0)
        self._joules[finished.key] = joules
        used_kwh = self._used_j / _KWH_J
        if used_kwh < self._budget_kwh:
            return None
        return StopDecision(f"{used_kwh:.3g} kWh are used (limits.budget_kwh)", used_kwh)
