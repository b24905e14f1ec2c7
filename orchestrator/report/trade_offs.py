"""Accuracy against what it costs (time, energy, money, memory): one Pareto front for each."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.report.pareto import Front


@dataclass(frozen=True, slots=True)
class TradeOff:
    """The front of one accuracy against one expense, on one hardware class or (None) over all.

    Energies of unlike scopes are never on one front: `scope` is what the energy is that of.
    """

    accuracy: str
    expense: str
    hardware: str | None
    front: Front
    scope: str = ""
