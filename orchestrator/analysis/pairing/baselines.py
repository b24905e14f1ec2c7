"""The arm that each arm is compared with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.core.arm_factors import FACTORS, other_choices
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.errors import Refusal
from orchestrator.core.records import SweepRecord
from orchestrator.core.selectors import names_arm, split_arm_text


class BaselineError(Refusal, ValueError):
    """A baseline that is not an arm of the sweep, or cannot run; the message lists the choices."""

    __module__ = "rnnsweep"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baselines of the speed-ups.

    Attributes:
        name: The baseline as reports name it.
        scope: `arm`: every arm is compared with the same arm. `same hardware`: each arm is compared
            with the baseline's implementation on its own hardware. In both, an arm of another
            variant is compared with the baseline's variant of the same implementation and hardware,
            if that can run.
        of: Each arm's baseline; no entry for an arm on hardware without this implementation.
        instead_of: A note that the requested baseline cannot run; empty if this is it.
    """

    name: str
    scope: Literal["arm", "same hardware"]
    of: Mapping[Arm, Arm]
    instead_of: str = ""

    def pairs(self, arms: Iterable[Arm]) -> list[tuple[Arm, Arm]]:
        """Return the other arms with their baselines."""
        sides = ((arm, self.of.get(arm, arm)) for arm in arms)
        return [(arm, base) for arm, base in sides if arm != base]


def pick_baseline(record: SweepRecord, asked: str | None) -> Baseline | None:
    """Return the baseline that `asked` names; by default the first arm that is still run.

    `asked` is an arm, an implementation, a variant, or the value of another factor (`1 thread`,
    `float32`, a hardware class). If it fits arms on several hardware classes, each class has its
    own baseline, the first one there. An arm with its hardware is the baseline of all others,
    whatever they differ in. A value of another factor gives each arm the baseline that has this
    value and is otherwise the same arm. None if no arm of the sweep can run. Raise `BaselineError`
    if `asked` names no arm that can run.
    """
    if asked is None and not record.arms:
        return None
    if asked is not None and (of_value := _with_value(record, asked)):
        return of_value
    text = str((record.current or record.arms)[0]) if asked is None else asked
    exact = [arm for arm in record.arms if str(arm) == text]
    candidates: dict[HardwareUse, Arm] = {}
    for arm in exact or [arm for arm in record.arms if names_arm(text, arm)]:
        candidates.setdefault(arm.hardware, arm)
    if not candidates:
        raise BaselineError(_unknown(record, text))
    if len(candidates) == 1:
        (only,) = candidates.values()
        is_for_all = asked is not None and split_arm_text(text)[1] is not None
        of = {arm: only if is_for_all else _reference(arm, only, record) for arm in record.arms}
        return Baseline(str(only), "arm", of)
    of = {
        arm: _reference(arm, candidates[arm.hardware], record)
        for arm in record.arms
        if arm.hardware in candidates
    }
    return Baseline(text, "same hardware", of)


def baseline_of_spec(record: SweepRecord) -> Baseline | None:
    """Return the baseline that the spec names; the first arm if that one cannot run any more."""
    try:
        return pick_runnable_baseline(record, record.criteria.baseline)
    except BaselineError:  # an arm of an earlier spec
        return pick_baseline(record, None)


def _with_value(record: SweepRecord, asked: str) -> Baseline | None:
    """Return the baselines that have this value of a factor; None if it is no such value.

    Variants and implementations are none of these: they name arms.
    """
    for factor in FACTORS:
        named = [arm for arm in record.arms if factor.text(arm) == asked]
        if not named or factor.name in ("variant", "implementation"):
            continue
        if len({factor.key(arm) for arm in record.arms}) == 1:
            continue  # all arms have it
        twins = {other_choices(arm, factor): arm for arm in named}
        of = {
            arm: twins[other_choices(arm, factor)]
            for arm in record.arms
            if other_choices(arm, factor) in twins
        }
        return Baseline(asked, "arm", of)
    return None


def pick_runnable_baseline(record: SweepRecord, asked: str | None) -> Baseline | None:
    """Return the baseline that `asked` names, or if it cannot run here, the first arm that can.

    Raise `BaselineError` if `asked` names no arm of the sweep at all, or none of them can run.
    """
    try:
        return pick_baseline(record, asked)
    except BaselineError:
        reasons = _reasons_of(record, asked or "")
        first = pick_baseline(record, None) if reasons else None
        if first is None:
            raise
        why = "; ".join(dict.fromkeys(reasons.values()))
        note = f"the baseline is {first.name}, because {asked} cannot run: {why}"
        return replace(first, instead_of=note)


def _reasons_of(record: SweepRecord, asked: str) -> dict[str, str]:
    """Return why the arms that `asked` names cannot run, by hardware."""
    return {
        excluded.arm.hardware: excluded.reason
        for excluded in record.impossible
        if asked in (str(excluded.arm), excluded.arm.short_name, excluded.arm.implementation)
    }


def _reference(arm: Arm, base: Arm, record: SweepRecord) -> Arm:
    """Return the arm to compare with: for another variant, the same arm in the baseline's."""
    twin = replace(arm, variant=base.variant)
    return twin if arm.variant != base.variant and twin in record.arms else base


def _unknown(record: SweepRecord, asked: str) -> str:
    reasons = _reasons_of(record, asked)
    problem = f"baseline {asked!r} is not an arm of sweep {record.name!r}"
    if len(set(reasons.values())) == 1:
        problem = f"baseline {asked!r} cannot run: {next(iter(reasons.values()))}"
    elif reasons:
        texts = (f"on {hardware}, {reason}" for hardware, reason in reasons.items())
        problem = f"baseline {asked!r} cannot run: {'; '.join(texts)}"
    choices = dict.fromkeys(a.variant.name for a in record.arms if a.variant)
    for factor in FACTORS:
        values = dict.fromkeys(map(factor.text, record.arms))
        if factor.name in ("threads", "CPUs") and len(values) > 1:
            choices |= values
    choices |= {a.implementation: None for a in record.arms} | {str(a): None for a in record.arms}
    if not choices:
        return f"{problem}, and no other arm can run"
    return f"{problem}; choose one of: {'; '.join(choices)}"
