"""The largest bias that other work was measured to cause in a ratio of two arms' times.

Measured by `make benchmark-bias` on 2026-11-22, on two cores of an AMD EPYC without a GPU: five
implementations on TensorFlow, JAX and PyTorch, one LSTM of 320 units, with a busy process on one
core or on each, and in slices also with a second sweep, while tests ran. The figures are the
largest upper ends of 95 % intervals in `tests/benchmarks/results/bias.txt`, rounded up. PyTorch's
threads wait for each other many times a step: it took up to 41 times as long, the others up to 2.4.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from orchestrator.core.arms import Arm
from orchestrator.core.criteria import MeasureMode

LARGEST: Mapping[MeasureMode, Mapping[str, float]] = {
    "full": {"within": 2.7, "between": 3.0, "alone": 3.3, "between torch": 39, "alone torch": 40},
    "timing": {"within": 3.1, "between": 2.5, "alone": 3.8, "between torch": 44, "alone torch": 68},
}
"""A factor by which a ratio can be wrong, for whole trials and for interleaved slices.

The arms had the same other work, `within` one backend or `between` two, or one `alone` had it. With
`torch` one of them is on another backend than TensorFlow and JAX. The figures are also used for
GPUs, whose steps a CPU starts.
"""

_UNMEASURED = {"shared_gpu"}
_WITHOUT_BARRIERS = {"tensorflow", "jax"}


def largest_bias(arms: tuple[Arm, Arm], causes: Collection[str], *, alike: bool) -> float:
    """Return the largest bias of the logarithm of a ratio; infinite if it was not measured.

    The causes are those of `core.disturbance`; `alike` arms ran during the same other work.
    """
    if _UNMEASURED.intersection(causes):
        return math.inf
    mode: MeasureMode = "timing" if {arm.measure for arm in arms} == {"timing"} else "full"
    backends = {arm.implementation.partition("/")[0] for arm in arms}
    kind = ("within" if len(backends) == 1 else "between") if alike else "alone"
    if kind != "within" and not backends <= _WITHOUT_BARRIERS:
        kind += " torch"
    return math.log(LARGEST[mode][kind])


def inconclusive_reason(bias: float) -> str:
    """Return why an interval over enough blocks is inconclusive; `bias` is 0 for quiet ones."""
    if not bias:
        return "the interval includes 1 and exceeds the margin"
    if bias == math.inf:
        return "on a busy machine, and the effect of a shared GPU was not measured"
    return f"on a busy machine, where other work alone may cause up to {math.exp(bias):.2g} ×"
