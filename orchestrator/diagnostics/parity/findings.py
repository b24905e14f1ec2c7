"""The result of a parity check: pairs with their differences, failures and impossible ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.diagnostics.parity.request import Impossible, Participant
from workloads.eligibility import Cell
from workloads.implementations import Precision

TOLERANCES: Mapping[Precision, float] = {
    "float32": 1e-5,
    "tf32": 2e-3,
    "fp16": 5e-3,
    "bf16": 3e-2,
}
"""The largest relative differences explained by rounding alone, by the coarser precision.

Observed between two-layer stacks on digits: 4e-7 in float32, 6e-4 in float16 and 5e-3 in bfloat16.
TF32 keeps as many bits of a factor as float16. Gates in another order, a transposed matrix or a
lost bias differ by more than 1e-3 in float32.
"""


@dataclass(frozen=True, slots=True)
class ParityPair:
    """Weights of one participant, loaded by another; see `workloads.settings.parity`."""

    saved: Participant
    loaded: Participant
    difference: float | None
    exact: bool
    tolerance: float

    @property
    def within(self) -> bool:
        """Return whether the outputs are within the tolerance and the weights exactly the same."""
        return self.exact and self.difference is not None and self.difference <= self.tolerance


@dataclass(frozen=True, slots=True)
class Failed:
    """A participant that failed to save or to load."""

    participant: Participant
    reason: str


@dataclass(frozen=True, slots=True)
class Findings:
    """All results of a check.

    `saved_on` is the machine where loaded weights had been saved, or None if this run saved them.
    `kept_in` is the folder of weights that were only saved.
    """

    machine: str
    saved_on: str | None
    kept_in: Path | None
    data: str
    settings: Mapping[str, Any]
    saved: tuple[Participant, ...]
    pairs: tuple[ParityPair, ...]
    failed: tuple[Failed, ...]
    impossible: tuple[Impossible, ...]

    @property
    def is_good(self) -> bool:
        """Return whether at least one pair was compared across, all are within and none failed.

        If weights were only saved: whether there are any and none are missing.
        """
        if self.kept_in is not None:
            return bool(self.saved) and not self.failed
        return (
            any(self.is_across(pair) for pair in self.pairs)
            and all(pair.within for pair in self.pairs)
            and not self.failed
        )

    def is_across(self, pair: ParityPair) -> bool:
        """Return whether the weights were loaded by another one than saved them."""
        return pair.saved != pair.loaded or self.saved_on is not None

    def of(self, cell: Cell) -> tuple[ParityPair, ...]:
        """Return the pairs of a cell."""
        return tuple(pair for pair in self.pairs if pair.saved.cell == cell)

    def cells(self) -> tuple[Cell, ...]:
        """Return the cells that have pairs, in order."""
        return tuple(dict.fromkeys(pair.saved.cell for pair in self.pairs))


def tolerance_of(saved: Participant, loaded: Participant) -> float:
    """Return the tolerance of the coarser of the two precisions."""
    participants = (saved, loaded)
    return max(TOLERANCES[participant.implementation.precision] for participant in participants)


def comparable(saved: Participant, loaded: Participant) -> bool:
    """Return whether both compute the same function of the same weights."""
    return (
        saved.cell == loaded.cell
        and saved.implementation.mathematics == loaded.implementation.mathematics
    )


def worst(pairs: tuple[ParityPair, ...]) -> Iterator[ParityPair]:
    """Yield pairs by difference over tolerance, the largest (or not finite) ones first."""
    yield from sorted(
        pairs,
        key=lambda pair: (
            float("inf") if pair.difference is None else pair.difference / pair.tolerance
        ),
        reverse=True,
    )
