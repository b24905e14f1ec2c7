"""Factors: the choices that arms differ in, each with the value that an arm has of it."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.core.arms import Arm
from orchestrator.core.selectors import known_implementation
from orchestrator.core.text import counted
from workloads.implementations import PRECISIONS

FactorName = Literal["variant", "implementation", "precision", "hardware", "threads", "CPUs"]


@dataclass(frozen=True, slots=True)
class Factor:
    """One choice that arms differ in.

    `key` identifies an arm's value of it, and `text` is how that value reads: `gru`, `2 threads`.
    """

    name: FactorName
    key: Callable[[Arm], Hashable]
    text: Callable[[Arm], str]


def _implementation(arm: Arm) -> str:
    """Return the implementation without its precision."""
    known = known_implementation(arm)
    if known is None:
        return arm.implementation
    options = tuple(option for option in known.options if option not in PRECISIONS)
    return str(replace(known, options=options))


def _precision(arm: Arm) -> str:
    known = known_implementation(arm)
    return known.precision if known else ""


def _count_text(count: int | None, noun: str) -> str:
    return f"default {noun}s" if count is None else counted(count, noun)


FACTORS = (
    Factor(
        "variant",
        lambda arm: arm.variant.identity if arm.variant else None,
        lambda arm: arm.variant_name or "",
    ),
    Factor("implementation", _implementation, _implementation),
    Factor("precision", _precision, _precision),
    Factor("hardware", lambda arm: arm.hardware_class, lambda arm: str(arm.hardware_class)),
    Factor(
        "threads",
        lambda arm: arm.usage.threads,
        lambda arm: _count_text(arm.usage.threads, "thread"),
    ),
    Factor("CPUs", lambda arm: arm.usage.cpus, lambda arm: _count_text(arm.usage.cpus, "CPU")),
)
"""All factors, in the order in which a report answers them."""


def factor_named(name: FactorName) -> Factor:
    """Return the factor of this name."""
    return next(factor for factor in FACTORS if factor.name == name)


def other_choices(arm: Arm, factor: Factor) -> tuple[Hashable, ...]:
    """Return what identifies an arm apart from its value of this factor."""
    others = (other.key(arm) for other in FACTORS if other is not factor)
    return (*others, arm.work, arm.measure)
