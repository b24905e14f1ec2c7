"""Whether a trial had its node to itself: judged by what was seen of the node, in words.

Never by the trial's own step time, which is what is to be compared: leaving out the slow ones
would make any implementation look faster. A disturbance hits implementations unequally (a busy
core: JAX × 0.98, TensorFlow × 1.8, PyTorch × 3.7), so that it does not cancel within a block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles

from orchestrator.core.arms import HardwareUse
from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.trial import FinishedTrial

ON_THE_GPU = "on the GPU"
"""How the note `neighbours` ends what it says of a trial's GPU."""

_SHARES = (
    ("other processes", "others_cpu_pct", "others took {:.0f} % of the CPUs"),
    ("the machine's host", "steal_pct", "the machine's host took {:.0f} % of the CPUs"),
    ("throttling", "throttled_pct", "clocks were held back {:.0f} % of the time"),
    ("low clocks", "clock_drop_pct", "clocks lay {:.0f} % below what they may be"),
)
_CANARY = "a slow canary", "the canary took {:.2f} times its usual time"
_SHARED = "a shared GPU"

_OF_CPUS = ("others_cpu_pct", "steal_pct")
_RESOLVED_S = 1.0
"""How far the samples are apart from which a node's CPU time is told: of windows that are shorter,
its shares are in part of what came before and after them, such as keeping the last trial."""

_OWN_LIMIT = "sw_power_cap"
"""A GPU that is at its own power limit is so in every trial: nobody disturbs it."""

_LEAST_CANARIES = 5
"""How many canary times it takes to say what is usual."""

_REMEMBERED = 99
"""How many are remembered: what is usual changes, as with a node's temperature."""


def judge(
    metrics: Mapping[str, float],
    notes: Mapping[str, str],
    limits: DisturbanceLimits,
    expected_canary_ms: float | None,
) -> str:
    """By what a trial was disturbed, with figures; empty for a quiet one.

    What was not measured judges nothing. Other trainers on the node are none by themselves: those
    of the same sweep have CPUs of their own, of which `others_cpu_pct` knows nothing, and anybody
    else's show in it.

    Args:
        metrics: the trial's, those seen from outside among them.
        notes: of its telemetry (`trial.NOTES`).
        limits: what may be.
        expected_canary_ms: what `CanaryBaseline` expected before this trial, if it had an answer.
    """
    return "; ".join(_reasons(metrics, notes, limits, expected_canary_ms))


def causes(note: str) -> tuple[str, ...]:
    """What `judge` spoke of, in a word or two each, to count by: `other processes`."""
    starts = [(cause, sentence.partition("{")[0]) for cause, _, sentence in _SHARES]
    starts.append((_CANARY[0], _CANARY[1].partition("{")[0]))
    found = []
    for reason in filter(None, note.split("; ")):
        known = [cause for cause, start in starts if reason.startswith(start)]
        found += known or [_SHARED if reason.endswith(ON_THE_GPU) else reason]
    return tuple(found)


def _reasons(
    metrics: Mapping[str, float],
    notes: Mapping[str, str],
    limits: DisturbanceLimits,
    expected_canary_ms: float | None,
) -> Iterator[str]:
    for _, name, sentence in _SHARES:
        share = metrics.get(name, 0.0)
        if name == "throttled_pct" and _is_own_limit(notes.get("throttle_reasons", "")):
            continue
        if share > getattr(limits, name) * _blur(name, metrics):
            yield sentence.format(share)
    canary_ms = metrics.get("canary_ms")
    if (
        canary_ms is not None
        and expected_canary_ms
        and canary_ms > limits.canary * expected_canary_ms
    ):
        yield _CANARY[1].format(canary_ms / expected_canary_ms)
    for beside in notes.get("neighbours", "").split(", "):
        if beside.endswith(ON_THE_GPU):
            yield beside


def _blur(name: str, metrics: Mapping[str, float]) -> float:
    """By how much a limit is wider for a trial that was timed for less than a second."""
    timed_s = metrics.get("timed_s", metrics.get("train_s", _RESOLVED_S))
    return max(1.0, _RESOLVED_S / timed_s) if name in _OF_CPUS and timed_s > 0 else 1.0


def _is_own_limit(throttle_reasons: str) -> bool:
    """Whether nothing else than its own power limit slowed the GPU down."""
    told = [each.split() for each in throttle_reasons.split(", ")]
    return bool(throttle_reasons) and all(words[0] == _OWN_LIMIT for words in told)


_Place = tuple[str, HardwareUse, str]


@dataclass(slots=True)
class CanaryBaseline:
    """What the canary usually takes, by where it sings: learnt from a sweep's trials in turn.

    A place is a node, a hardware class and a backend: what a framework's idle threads do beside
    the canary is the backend's own. Usual is what three trials of four stay below, not the middle:
    virtual CPUs that share a core with a stranger's have two speeds by themselves, half as fast
    and back again, and the slower one is no disturbance where it is there all day. A disturbed
    trial's time counts like any other, and a node that has become slower for good is usual after
    a while.
    """

    _seen: dict[_Place, list[float]] = field(default_factory=lambda: defaultdict(list))

    def expected_ms(self, finished: FinishedTrial) -> float | None:
        """What three of four at a trial's place stayed below; None before there are enough."""
        seen = self._seen.get(_place(finished), ())
        return quantiles(seen, n=4)[2] if len(seen) >= _LEAST_CANARIES else None

    def add(self, finished: FinishedTrial) -> None:
        """Learn from a trial that has ended, or that a journal tells of; without one, nothing."""
        canary_ms = finished.outcome.metrics.get("canary_ms")
        if canary_ms is not None:
            seen = self._seen[_place(finished)]
            seen.append(canary_ms)
            del seen[:-_REMEMBERED]

    def learn(self, finished: Sequence[FinishedTrial]) -> CanaryBaseline:
        """The same, having learnt from those trials, in their order."""
        for each in finished:
            self.add(each)
        return self


def _place(finished: FinishedTrial) -> _Place:
    arm = finished.trial.arm
    return finished.outcome.node, arm.hardware, arm.implementation.partition("/")[0]
