"""The decision that a sweep needs no more blocks, and what a rule that makes it looks like."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial


@dataclass(frozen=True, slots=True)
class StopDecision:
    """The decision that a sweep needs no more blocks; those that have begun are finished.

    `reason` ends the sentence "enough after 12 blocks: …". `figure` is the number that the rule
    compares with its limit, in the rule's own unit. `blocks` is how many blocks the decision rests
    on, and `rule` the name of the rule; the ledger fills in these two where a rule leaves them out
    (`blocks` with the number of complete blocks).
    """

    reason: str
    figure: float | None = None
    blocks: int = 0
    rule: str = ""


@dataclass(frozen=True, slots=True)
class EarlierDecision:
    """A decision that an earlier start recorded, with that start's arms and baseline."""

    decision: StopDecision
    arms: Sequence[Arm]
    baseline: str | None


class StoppingRule(ABC):
    """A rule that stops a sweep. Subclass it; only `name` and `add_outcome` are required.

    The ledger of a sweep calls `add_outcome` once for each outcome, in the order in which the
    trials ended: while the sweep runs, and again when a resumed start replays the journal. So that
    both come to the same decision, a rule follows from the outcomes and their order alone. It reads
    no clock, no file and no verdict. After the first decision no rule is called any more.
    """

    name: ClassVar[str]
    """The spec key that asks for the rule, such as `blocks`; the journal has it."""

    @abstractmethod
    def add_outcome(self, finished: FinishedTrial) -> StopDecision | None:
        """Add the next outcome; return the decision if no more blocks are needed now.

        It may be of an arm or a repeat that the present plan no longer has, or an outcome that
        replaces an earlier one of the same trial (equal `key`).
        """

    def stop_arm(self, arm: Arm) -> None:
        """Note that the other trials of an arm are not run: it failed too often in a row.

        By default nothing changes.
        """
        del arm

    def still_holds(self, earlier: EarlierDecision) -> bool:
        """Return whether a recorded decision of this rule holds, though it was not made again.

        That happens where this start lacks the nodes of some arms, or where the spec has changed.
        By default it does not hold, and the sweep continues.
        """
        del earlier
        return False
