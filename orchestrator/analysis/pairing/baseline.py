"""The arm that each arm is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal
from orchestrator.core.names import mathematics_of, names_arm
from orchestrator.core.records import SweepRecord


class BaselineError(Refusal, ValueError):
    """A requested baseline that is not an arm of the sweep; the message lists the choices."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baselines of the speed-ups.

    With scope `arm` every arm is compared with one arm; with `same hardware` each with the
    baseline's implementation on its own hardware. `of` has no entry for an arm on hardware without
    this implementation.
    """

    name: str
    scope: Literal["arm", "same hardware"]
    of: Mapping[Arm, Arm]

    def fair_pairs(self, arms: Iterable[Arm]) -> list[tuple[Arm, Arm]]:
        """Return the other arms with their baselines, where both compute the same."""
        sides = ((arm, self.of.get(arm, arm)) for arm in arms)
        return [(arm, base) for arm, base in sides if arm != base and not difference_of(arm, base)]


def difference_of(arm: Arm, other: Arm) -> str:
    """Return what only one of the two computes (`activation relu`); empty for a fair pair."""
    one, two = mathematics_of(arm), mathematics_of(other)
    return "" if one == two else " and ".join(filter(None, (one, two)))


def pick_baseline(record: SweepRecord, asked: str | None) -> Baseline | None:
    """Return the baseline that `asked` names; by default the sweep's first arm.

    `asked` is an arm or an implementation. If it fits arms on several hardware classes, each class
    has its own baseline. None if no arm of the sweep can run.

    Raises:
        BaselineError: `asked` names no arm that can run.
    """
    if asked is None and not record.arms:
        return None
    text = str(record.arms[0]) if asked is None else asked
    exact = [arm for arm in record.arms if str(arm) == text]
    candidates = {a.hardware: a for a in exact or record.arms if names_arm(text, a)}
    if not candidates:
        raise BaselineError(_unknown(record, text))
    if len(candidates) == 1:
        (only,) = candidates.values()
        return Baseline(str(only), "arm", dict.fromkeys(record.arms, only))
    of = {arm: candidates[arm.hardware] for arm in record.arms if arm.hardware in candidates}
    return Baseline(text, "same hardware", of)


def _unknown(record: SweepRecord, asked: str) -> str:
    reasons = {
        excluded.arm.hardware: excluded.reason
        for excluded in record.impossible
        if asked in (str(excluded.arm), excluded.arm.implementation)
    }
    problem = f"baseline {asked!r} is not an arm of sweep {record.name!r}"
    if len(set(reasons.values())) == 1:
        problem = f"baseline {asked!r} cannot run: {next(iter(reasons.values()))}"
    elif reasons:
        texts = (f"on {hardware}, {reason}" for hardware, reason in reasons.items())
        problem = f"baseline {asked!r} cannot run: {'; '.join(texts)}"
    choices = {a.implementation: None for a in record.arms} | {str(a): None for a in record.arms}
    if not choices:
        return f"{problem}; none of its arms can run, so there is nothing to choose from"
    return f"{problem}; choose one of: {'; '.join(choices)}"
