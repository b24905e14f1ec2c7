"""Rows published elsewhere, beside what was measured here with the same implementation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.aims import PublishedRow
from orchestrator.trial import Arm, Config


@dataclass(frozen=True, slots=True)
class MeasuredBeside:
    """The config of an arm that is nearest to a published row's; `differs` where it is another."""

    arm: Arm
    block: int
    config: Config
    differs: tuple[str, ...]
    values: Mapping[str, float]
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishedBeside:
    """A published row, on other hardware and software, and the arms of its implementation."""

    row: PublishedRow
    measured: tuple[MeasuredBeside, ...]
