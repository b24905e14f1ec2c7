"""What `docs/gpu.md` expects of the figures. Nobody has measured these limits yet.

A check fails if something is wrong. An expectation is missed if everything works, and a figure is
not what was expected: then either the code is slower than it should be, or the expectation is.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from infra.gpu.outcomes import Outcome

BY_HAND = "torch/by hand"
TWICE_THE_BATCH = ", twice the batch"

MAX_BY_HAND_RATIO = 1.05
"""`torch/fused` against the same work written by hand, where that takes `_LONG_STEP_MS`."""

MAX_SHORT_BY_HAND_RATIO = 3.0
"""The same where a step is so short that Keras' Python takes longer than the GPU."""

_LONG_STEP_MS = 1.0

MEMORY_RATIO = (3.0, 5.0)
"""GPU memory that one more sample takes, on JAX by that on PyTorch."""

MAX_DATA_RATIO = 1.1
"""GPU memory with many samples in the data, by that with few: no data stays on the GPU."""

MAX_WARMED_RATIO = 1.1
"""The slowest warmed step by the fastest, after any idleness."""

MAX_ENERGY_DIFFERENCE = 0.05
"""Energy by NVML's counter, by the integral of its power, less 1."""

Expectation: TypeAlias = Callable[[Sequence[Outcome]], Iterator[Outcome]]


def expect(check: str, outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
    """Judge the figures of the passed cases of a check, of all backends so far."""
    passed = [one for one in outcomes if one.status == "passed" and not one.judges]
    if check in EXPECTATIONS:
        yield from EXPECTATIONS[check](passed)


def _speed(passed: Sequence[Outcome]) -> Iterator[Outcome]:
    by_hand = {one.case: one.measured["step_ms"] for one in passed if one.implementation == BY_HAND}
    for one in passed:
        hand_ms = by_hand.get(one.case)
        if one.implementation != "torch/fused" or hand_ms is None:
            continue
        limit = MAX_BY_HAND_RATIO if hand_ms >= _LONG_STEP_MS else MAX_SHORT_BY_HAND_RATIO
        yield _at_most(one, "step_ms fused/by hand", one.measured["step_ms"] / hand_ms, limit)


def _memory(passed: Sequence[Outcome]) -> Iterator[Outcome]:
    per_batch = dict[tuple[str, str], float]()
    for single, double in _pairs(passed, TWICE_THE_BATCH):
        grown_mib = double.measured["peak_gpu_mib"] - single.measured["peak_gpu_mib"]
        per_batch[single.case, single.implementation] = grown_mib
    for single, _ in _pairs(passed, TWICE_THE_BATCH):
        torch_mib = per_batch.get((single.case, "torch/fused"))
        if single.implementation == "jax/fused" and torch_mib is not None:
            jax_mib = per_batch[single.case, "jax/fused"]
            ratio = jax_mib / torch_mib if torch_mib > 0 else math.inf
            least, most = MEMORY_RATIO
            is_met = least <= ratio <= most
            limits = {"at_least": least, "at_most": most}
            yield _expected(single, "peak_gpu_mib per sample jax/torch", ratio, is_met, limits)
    rows = [one for one in passed if "samples" in one.expected and "peak_gpu_mib" in one.measured]
    for few in rows:
        for many in rows:
            if few.implementation == many.implementation and (
                few.expected["samples"] < many.expected["samples"]
            ):
                ratio = many.measured["peak_gpu_mib"] / few.measured["peak_gpu_mib"]
                yield _at_most(many, "peak_gpu_mib many/few samples", ratio, MAX_DATA_RATIO)


def _clocks(passed: Sequence[Outcome]) -> Iterator[Outcome]:
    for one in passed:
        warmed = [value for name, value in one.measured.items() if "warmed" in name]
        if warmed:
            ratio = max(warmed) / min(warmed)
            yield _at_most(one, "warmed slowest/fastest", ratio, MAX_WARMED_RATIO)


def _telemetry(passed: Sequence[Outcome]) -> Iterator[Outcome]:
    for one in passed:
        difference = abs(one.measured["counter/power"] - 1)
        yield _at_most(one, "energy counter/power - 1", difference, MAX_ENERGY_DIFFERENCE)
        others = float(one.measured["processes of others"])
        yield _at_most(one, "processes of others", others, 0.0)


EXPECTATIONS: Mapping[str, Expectation] = {
    "speed": _speed,
    "memory": _memory,
    "clocks": _clocks,
    "telemetry": _telemetry,
}


def _pairs(passed: Sequence[Outcome], suffix: str) -> Iterator[tuple[Outcome, Outcome]]:
    """Yield the outcomes of a case, and of the case whose name has a suffix more."""
    by_case = {(one.case, one.implementation): one for one in passed}
    for (case, implementation), one in by_case.items():
        other = by_case.get((case + suffix, implementation))
        if other and "peak_gpu_mib" in one.measured and "peak_gpu_mib" in other.measured:
            yield one, other


def _at_most(of: Outcome, figure: str, value: float, limit: float) -> Outcome:
    return _expected(of, figure, value, value <= limit, {"at_most": limit})


def _expected(
    of: Outcome, figure: str, value: float, is_met: bool, limits: Mapping[str, Any]
) -> Outcome:
    """Return whether a figure is as expected, as an outcome next to the one that has it."""
    told = " and ".join(f"{name.replace('_', ' ')} {limit:g}" for name, limit in limits.items())
    return Outcome(
        of.name,
        f"{of.case}: {figure}",
        "passed" if is_met else "missed",
        of.backend,
        of.implementation,
        "" if is_met else f"{figure} is {value:.3g}; expected {told}",
        {figure: value},
        limits,
        judges=figure,
    )
