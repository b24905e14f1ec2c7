"""The arm that each arm is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal
from orchestrator.core.names import names_arm
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


def pick_baseline(record: SweepRecord, asked: str | None) -> Baseline | None:
    """Return the baseline that `asked` names; by default the sweep's first arm.

    `asked` is an arm or an implementation. If it fits arms on several hardware classes, each class
    has its own baseline. None if no arm of the sweep can run.

    Raises:
        BaselineError: `asked` names no arm that can run.
    """
    if asked is None:
        return _one(record, record.arms[0]) if record.arms else None
    for arm in record.arms:
        if str(arm) == asked:
            return _one(record, arm)
    candidates = {arm.hardware: arm for arm in record.arms if names_arm(asked, arm)}
    if len(candidates) == 1:
        return _one(record, *candidates.values())
    if not candidates:
        raise BaselineError(_unknown(record, asked))
    of = {arm: candidates[arm.hardware] for arm in record.arms if arm.hardware in candidates}
    return Baseline(asked, "same hardware", of)


def _one(record: SweepRecord, baseline: Arm) -> Baseline:
    return Baseline(str(baseline), "arm", dict.fromkeys(record.arms, baseline))


def _unknown(record: SweepRecord, asked: str) -> str:
    reasons = {
        excluded.arm.hardware: excluded.reason
        for excluded in record.impossible
        if asked in (str(excluded.arm), excluded.arm.implementation)
    }
    if reasons:
        problem = f"baseline {asked!r} cannot run: {_each_reason(reasons)}"
    else:
        problem = f"baseline {asked!r} is not an arm of sweep {record.name!r}"
    choices = {a.implementation: None for a in record.arms} | {str(a): None for a in record.arms}
    if not choices:
        return f"{problem}; none of its arms can run, so there is nothing to choose from"
    return f"{problem}; choose one of: {'; '.join(choices)}"


def _each_reason(reasons: Mapping[str, str]) -> str:
    """Return each hardware's reason, or the only one if all are equal."""
    if len(set(reasons.values())) == 1:
        return next(iter(reasons.values()))
    return "; ".join(f"on {hardware}, {reason}" for hardware, reason in reasons.items())
