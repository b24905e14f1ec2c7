"""The arm that each arm is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.errors import Refusal
from orchestrator.core.names import names_arm
from orchestrator.core.records import SweepRecord


class BaselineError(Refusal, ValueError):
    """A requested baseline that is not an arm of the sweep; the message lists the choices."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baselines of the speed-ups.

    With scope `arm` every arm is compared with one arm; with `same hardware` each with the
    baseline's implementation on its own hardware. But an arm of another variant is compared with
    the baseline's variant on its own implementation and hardware, if that can run: so the two
    differ in one way only. `of` has no entry for an arm on hardware without this implementation.
    """

    name: str
    scope: Literal["arm", "same hardware"]
    of: Mapping[Arm, Arm]

    def pairs(self, arms: Iterable[Arm]) -> list[tuple[Arm, Arm]]:
        """Return the other arms with their baselines."""
        sides = ((arm, self.of.get(arm, arm)) for arm in arms)
        return [(arm, base) for arm, base in sides if arm != base]


def pick_baseline(record: SweepRecord, asked: str | None) -> Baseline | None:
    """Return the baseline that `asked` names; by default the first arm that is still run.

    `asked` is an arm, an implementation or a variant. If it fits arms on several hardware classes,
    each class has its own baseline; of several arms of one class, the first counts. None if no arm
    of the sweep can run.

    Raises:
        BaselineError: `asked` names no arm that can run.
    """
    if asked is None and not record.arms:
        return None
    text = str((record.current or record.arms)[0]) if asked is None else asked
    exact = [arm for arm in record.arms if str(arm) == text]
    candidates: dict[HardwareUse, Arm] = {}
    for arm in exact or [arm for arm in record.arms if names_arm(text, arm)]:
        candidates.setdefault(arm.hardware, arm)
    if not candidates:
        raise BaselineError(_unknown(record, text))
    if len(candidates) == 1:
        (only,) = candidates.values()
        of = {arm: _reference(arm, only, record) for arm in record.arms}
        return Baseline(str(only), "arm", of)
    of = {
        arm: _reference(arm, candidates[arm.hardware], record)
        for arm in record.arms
        if arm.hardware in candidates
    }
    return Baseline(text, "same hardware", of)


def _reference(arm: Arm, base: Arm, record: SweepRecord) -> Arm:
    """Return the arm to compare with: for another variant, the same arm in the baseline's."""
    twin = replace(arm, variant=base.variant)
    return twin if arm.variant != base.variant and twin in record.arms else base


def _unknown(record: SweepRecord, asked: str) -> str:
    reasons = {
        excluded.arm.hardware: excluded.reason
        for excluded in record.impossible
        if asked in (str(excluded.arm), excluded.arm.short_name, excluded.arm.implementation)
    }
    problem = f"baseline {asked!r} is not an arm of sweep {record.name!r}"
    if len(set(reasons.values())) == 1:
        problem = f"baseline {asked!r} cannot run: {next(iter(reasons.values()))}"
    elif reasons:
        texts = (f"on {hardware}, {reason}" for hardware, reason in reasons.items())
        problem = f"baseline {asked!r} cannot run: {'; '.join(texts)}"
    choices = dict.fromkeys(a.variant.name for a in record.arms if a.variant)
    choices |= {a.implementation: None for a in record.arms} | {str(a): None for a in record.arms}
    if not choices:
        return f"{problem}; none of its arms can run, so there is nothing to choose from"
    return f"{problem}; choose one of: {'; '.join(choices)}"
