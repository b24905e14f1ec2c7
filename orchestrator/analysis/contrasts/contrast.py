"""The answer to "is A better than B by this metric?", the same type for every question.

The report, `compare`, `bench`, the live view, MLflow's metrics and the JSON format filter one list
of these. `docs/trust.md` has the rules.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import inverse, inverse_difference


class Question(StrEnum):
    """What is compared: arms, or some property of them."""

    BASELINE = "baseline"
    """An arm and its baseline."""
    BEST = "best"
    """The arm with the best mean, and each other arm."""
    FACTOR = "factor"
    """The best value of a factor and another one, averaged over all combinations of the rest."""
    INTERACTION = "interaction"
    """The effect of a factor at two values of another factor."""
    SIZE = "size"
    """A baseline, or an arm's speed-up, at two values of a param."""
    CHANGE = "change"
    """An arm in two sweeps, the later one first."""


class Scale(StrEnum):
    """How two values of a metric are compared."""

    RATIO = "ratio"
    DIFFERENCE = "difference"


class Verdict(StrEnum):
    """What a contrast shows of its subject: `same` is within the margin, `open` is undecided."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    OPEN = "open"


class Qualifier(StrEnum):
    """What limits a verdict. With any qualifier but `busy`, the verdict is open."""

    FEW = "few"
    """There are too few configs (or repeats of a single config) for a verdict."""
    BUSY = "busy"
    """Other processes disturbed some of the compared trials; too few were quiet."""
    UNLIKE_WORK = "unlike work"
    """The amounts of work differ, or the energies are of different devices."""
    OTHER_MATHEMATICS = "other mathematics"
    """One of the two computes something else than its reference."""


class Unit(StrEnum):
    """What an interval is over: configs, or the repeats of a single config."""

    CONFIG = "config"
    REPEAT = "repeat"


@dataclass(frozen=True, slots=True)
class Contrast:
    """A subject compared with a reference by one metric.

    With the scale `ratio`, the `estimate` is the reference's value divided by the subject's, as a
    geometric mean over `blocks`: above 1, the subject takes less. With the scale `difference`, it
    is the subject's value minus the reference's. Its interval decides the verdict, and is corrected
    for the other comparisons of its question and metric (Holm); without a verdict it is a plain
    95 % interval. `lowest` and `highest` are the extremes of the single blocks.

    The verdict is `same` if the whole interval is within the `margin`: a share for a ratio,
    otherwise in the metric's unit. `more_blocks` estimates how many more blocks would decide an
    open verdict.
    """

    question: Question
    subject: str
    reference: str
    metric: str
    scale: Scale
    estimate: Estimate
    lowest: float
    highest: float
    blocks: int
    unit: Unit
    margin: float
    verdict: Verdict
    qualifier: Qualifier | None = None
    more_blocks: int | None = None

    @property
    def is_decided(self) -> bool:
        """Whether the verdict is not open."""
        return self.verdict != Verdict.OPEN

    def turned(self) -> "Contrast":
        """Return the same comparison with subject and reference exchanged."""
        opposite = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
        turn = inverse if self.scale == Scale.RATIO else inverse_difference
        estimate = turn(self.estimate)
        ends = turn(replace(self.estimate, low=self.lowest, high=self.highest))
        return replace(
            self,
            subject=self.reference,
            reference=self.subject,
            estimate=estimate,
            lowest=ends.low,
            highest=ends.high,
            verdict=opposite.get(self.verdict, self.verdict),
        )


def between(
    contrasts: Iterable[Contrast], subject: str, reference: str, metric: str
) -> Contrast | None:
    """Return the comparison of these two by a metric, whichever of them is its subject.

    There is at most one. None if they were not compared.
    """
    for contrast in contrasts:
        if contrast.metric != metric:
            continue
        if (contrast.subject, contrast.reference) == (subject, reference):
            return contrast
        if (contrast.subject, contrast.reference) == (reference, subject):
            return contrast.turned()
    return None
