"""The best config of each arm: the search's optimum, chosen after the fact, never a fair pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.report.records import Direction
from orchestrator.trial import Arm, Config


@dataclass(frozen=True, slots=True)
class Best:
    """The config by which an arm was best in one objective, out of `tried` configs.

    `value` is the mean over the config's repeats; `values` those of the report's other main
    metrics at the same config.
    """

    arm: Arm
    objective: str
    direction: Direction
    value: float
    block: int
    config: Config
    values: Mapping[str, float]
    tried: int
    run_ids: tuple[str, ...]
