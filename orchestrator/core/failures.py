"""Arms that fail in the same way again and again, and are stopped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FailureRecord, FinishedTrial

_OF_CONFIG = ("non_finite", "not_possible", "out_of_memory", "time_limit")
"""Failures that depend on the config: the next one may succeed."""

_NAMED = 8
"""The most blocks of equal failures that are named."""


@dataclass(slots=True)
class FailureLimit:
    """The limit of equal failures in a row, after which an arm is stopped.

    Failures are equal if their reasons and the first lines of their messages are. Reasons that
    depend on the config never stop an arm. What is stopped follows from the outcomes and their
    order alone, so that each start comes to the same decision.

    Args:
        most: the number of failures; None for no limit.
        code: the digest of the workload's own code; failures of other code do not count.
    """

    most: int | None = None
    code: str | None = None
    stopped: dict[Arm, FailureRecord] = field(default_factory=dict)
    _rows: dict[Arm, tuple[str, int]] = field(default_factory=dict)

    def take(self, finished: FinishedTrial) -> bool:
        """Take the next outcome; return whether it stops its arm."""
        failure, arm = finished.failure, finished.arm
        if finished.outcome.environment.get("code") != self.code:
            return False
        if failure is None or failure.reason in _OF_CONFIG:
            self._rows.pop(arm, None)
            return False
        last, count = self._rows.get(arm, ("", 0))
        count = count + 1 if failure.text == last else 1
        self._rows[arm] = failure.text, count
        if count != self.most or arm in self.stopped:
            return False
        self.stopped[arm] = failure
        return True

    def describe(self, arm: Arm) -> str:
        """Return why a stopped arm is stopped."""
        return (
            f"{arm} is stopped after {self.most} equal failures in a row (limits.failures): "
            f"{self.stopped[arm].text}"
        )


def describe_failures(finished: Iterable[FinishedTrial]) -> list[str]:
    """Return a paragraph for each arm and kind of failure, with the whole message of the last."""
    blocks: dict[tuple[Arm, str], dict[int, FailureRecord]] = {}
    for trial in finished:
        if trial.failure is not None:
            blocks.setdefault((trial.arm, trial.failure.text), {})[trial.block] = trial.failure
    paragraphs = []
    for (arm, text), failures in blocks.items():
        numbers = [*map(str, failures)][:_NAMED] + ["…"] * (len(failures) > _NAMED)
        *_, calls = (failure.message.splitlines()[1:] for failure in failures.values())
        lines = [f"failed: {arm}, block {', '.join(numbers)}: {text}", *(f"  {c}" for c in calls)]
        paragraphs.append("\n".join(lines))
    return paragraphs
