"""The questions about arms: each against its baseline, and the best one against each other.

A pair of arms has one comparison by a metric, whichever question asked for it: the baseline's
family decides, then the arms of one hardware class, then all arms.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from orchestrator.analysis.contrasts.contrast import Contrast, Question, between
from orchestrator.analysis.contrasts.families import Judging, judge_family, pair, work_of
from orchestrator.analysis.contrasts.matrix import Matrix
from orchestrator.analysis.pairing.baselines import Baseline
from orchestrator.core.arms import Arm


@dataclass(frozen=True, slots=True)
class Leader:
    """The arm with the best mean by a metric on a hardware class, or on all (`hardware` is empty).

    `others` are the arms it was compared with, the best mean first.
    """

    metric: str
    hardware: str
    arm: str
    others: tuple[str, ...]

    def comparisons(self, contrasts: Iterable[Contrast]) -> list[Contrast]:
        """Return how the leader compares with each other arm, the nearest one first."""
        every = [contrast for contrast in contrasts if contrast.metric == self.metric]
        found = (between(every, self.arm, arm, self.metric) for arm in self.others)
        return [contrast for contrast in found if contrast is not None]


def against_baseline(
    matrix: Matrix, baseline: Baseline | None, judging: Judging
) -> tuple[Contrast, ...]:
    """Compare each arm with its baseline."""
    pairs = baseline.pairs(matrix.arms) if baseline else []
    rows = [pair(arm, base) for arm, base in pairs]
    return judge_family(matrix, Question.BASELINE, rows, judging)


def among_the_best(
    matrix: Matrix, judging: Judging, known: Sequence[Contrast]
) -> tuple[tuple[Contrast, ...], tuple[Leader, ...]]:
    """Compare the best arm of each group with the others of the group, unless that is `known`.

    All pairs of a group are one family, which allows for the leader being chosen by its own
    numbers. Return the contrasts that are new, and the leaders.
    """
    found, leaders = [*known], list[Leader]()
    for hardware, arms in _groups(matrix, judging):
        order = sorted(arms, key=matrix.mean, reverse=matrix.direction == "maximize")
        leader, *others = order
        rows = [pair(better, other) for better, other in combinations(order, 2)]
        judged = judge_family(matrix, Question.BEST, rows, judging)
        of_leader = judged[: len(others)]  # its pairs come first
        found += [
            contrast
            for contrast in of_leader
            if not between(found, contrast.subject, contrast.reference, matrix.metric)
        ]
        leaders.append(Leader(matrix.metric, hardware, str(leader), tuple(map(str, others))))
    return tuple(found[len(known) :]), tuple(leaders)


def _groups(matrix: Matrix, judging: Judging) -> list[tuple[str, list[Arm]]]:
    """Return the arms of each hardware class, then of all, that did like work and mathematics."""
    if not matrix.rows:
        return []
    comparable = [arm for arm in matrix.arms if arm not in judging.other_mathematics]
    by_hardware: dict[str, list[Arm]] = {}
    for arm in comparable:
        by_hardware.setdefault(str(arm.hardware), []).append(arm)
    groups = [(hardware, _of_usual_work(matrix, arms)) for hardware, arms in by_hardware.items()]
    every = _of_usual_work(matrix, comparable)
    if len({arm.hardware for arm in every}) > 1:
        groups.append(("", every))
    return [(hardware, arms) for hardware, arms in groups if len(arms) > 1]


def _of_usual_work(matrix: Matrix, arms: Sequence[Arm]) -> list[Arm]:
    """Return the arms that did the work which most of them did; the first one's of equally many."""
    works = [work_of(matrix, arm) for arm in arms]
    usual = max(works, key=works.count, default=None)
    return [arm for arm, work in zip(arms, works, strict=True) if work == usual]
