"""Arms that fail in the same way again and again, and are stopped."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FailureRecord, FinishedTrial

OF_A_NODE = ("crash", "data", "lost", "not_possible", "out_of_memory", "hung")
"""Failures that the node may have caused, and not the trial."""

_MAY_PASS = (*OF_A_NODE, "non_finite", "time_limit")  # the next trial may succeed
_NAMED = 8  # the most blocks of equal failures that are named


@dataclass(slots=True)
class FailureLimit:
    """The limit of equal failures in a row (`most`), after which an arm is stopped; None for none.

    Failures are equal if their reasons and the first lines of their messages are. Failures of other
    code than `code`, a digest, do not count. What is stopped follows from the outcomes and their
    order alone, so that each start comes to the same decision.
    """

    most: int | None = None
    code: str | None = None
    stopped: dict[Arm, FailureRecord] = field(default_factory=dict)
    _rows: dict[Arm, tuple[str, int]] = field(default_factory=dict)
    _added: dict[str, tuple[FinishedTrial, bool]] = field(default_factory=dict)

    def add_outcome(self, finished: FinishedTrial) -> bool:
        """Add the next outcome, or one that it had; return whether it stops its arm."""
        before, stops = self._added.get(finished.key, (None, False))
        if before is not finished:
            stops = self._reaches_limit(finished)
            self._added[finished.key] = finished, stops
        if stops and finished.failure is not None:
            self.stopped[finished.arm] = finished.failure
        return stops

    def replay(self) -> Self:
        """Return a limit that decides as this one at each outcome that was added to this one."""
        return replace(self, stopped={}, _rows=dict(self._rows), _added=dict(self._added))

    def _reaches_limit(self, finished: FinishedTrial) -> bool:
        """Count an outcome; return whether it is the last failure that the limit allows its arm."""
        failure, arm = finished.failure, finished.arm
        if finished.outcome.environment.get("code") != self.code:
            return False
        if failure is None or failure.reason in _MAY_PASS:
            self._rows.pop(arm, None)
            return False
        last, count = self._rows.get(arm, ("", 0))
        count = count + 1 if failure.text == last else 1
        self._rows[arm] = failure.text, count
        return count == self.most and arm not in self.stopped

    def describe(self, arm: Arm) -> str:
        """Return why a stopped arm is stopped."""
        return (
            f"{arm} was stopped: the same failure {self.most} times in a row (limits.failures): "
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
