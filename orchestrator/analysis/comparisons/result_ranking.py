"""Rankings of what training achieves: the arm with the best accuracy, loss or other objective.

All pairs of arms are one family, which accounts for the leader being chosen by its own numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from statistics import fmean

from orchestrator.analysis.comparisons.ranking import Standing, standing_of
from orchestrator.analysis.measures import value_of
from orchestrator.analysis.pairing.complete_rounds import (
    CompleteRounds,
    Round,
    RoundSelection,
    UnitKind,
)
from orchestrator.analysis.pairing.margins import judged_margin
from orchestrator.analysis.pairing.pairs import round_values
from orchestrator.analysis.results import result_metrics
from orchestrator.analysis.statistics import estimates
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import inverse_difference
from orchestrator.analysis.statistics.verdicts import judge
from orchestrator.core.arms import Arm
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.core.trial import FinishedTrial


@dataclass(frozen=True, slots=True)
class WorseResult:
    """An arm compared with the leader: how much better the leader's mean is, by its direction.

    `difference` is the leader's value minus the arm's. Its interval is the corrected one, or the
    plain one if the blocks are too few for a standing.
    """

    arm: Arm
    standing: Standing
    difference: Estimate | None


@dataclass(frozen=True, slots=True)
class ResultRanking:
    """The arms that do one amount of work, ranked by the mean of a result over their blocks.

    `blocks` counts repeats where the `unit` is a repeat of the only config.
    """

    metric: str
    direction: Direction
    leader: Arm
    value: float
    behind: tuple[WorseResult, ...]
    unit: UnitKind
    blocks: int
    margin: float

    @property
    def as_good(self) -> tuple[Arm, ...]:
        """The arms that are as good as the leader within the margin, or may be."""
        return tuple(other.arm for other in self.behind if other.standing != "worse")

    @property
    def worse(self) -> tuple[WorseResult, ...]:
        """The arms that are worse than the leader, the best of these first."""
        return tuple(other for other in self.behind if other.standing == "worse")


def rank_results(record: SweepRecord, matched: CompleteRounds) -> tuple[ResultRanking, ...]:
    """Rank whole trainings by each result of the sweep, trainings of unlike work apart."""
    every = [trial for arm in matched.trials for trial in matched.all_trials(arm)]
    measured = {metric for trial in every for metric in trial.metrics}
    found = []
    for metric, direction in result_metrics(record, measured).items():
        groups: dict[str, dict[Arm, dict[Round, float]]] = {}
        for arm, trials in matched.trials.items():
            values = round_values(trials, partial(_value, metric), fmean)
            if arm.measure == "full" and len(values) == len(matched.rounds) > 0:
                of_rounds = {place: item.value for place, item in values.items()}
                groups.setdefault(arm.work, {})[arm] = of_rounds
        found += [
            _rank(record, matched, metric, direction, values)
            for values in groups.values()
            if len(values) > 1
        ]
    return tuple(found)


def _value(metric: str, trial: FinishedTrial) -> float | None:
    return value_of(trial, metric)


def _rank(
    record: SweepRecord,
    matched: CompleteRounds,
    metric: str,
    direction: Direction,
    values: Mapping[Arm, Mapping[Round, float]],
) -> ResultRanking:
    selection = RoundSelection.of_all(matched.rounds)
    places = selection.by_unit.values()
    means = {
        arm: [fmean(of_rounds[place] for place in rounds) for rounds in places]
        for arm, of_rounds in values.items()
    }
    sign = 1.0 if direction == "maximize" else -1.0
    order = sorted(means, key=lambda arm: -sign * fmean(means[arm]))
    leader = order[0]
    margin = judged_margin(record, matched, metric, fmean(means[leader]))
    gains = [
        [sign * (a - b) for a, b in zip(means[first], means[second], strict=True)]
        for first, second in combinations(order, 2)
    ]
    behind = []  # the pairs of the leader come first
    for arm, gained, judgement in zip(order[1:], gains, judge(gains, margin.value), strict=False):
        shown = judgement.corrected or estimates.t_interval(gained)
        behind.append(
            WorseResult(
                arm,
                standing_of(judgement.conclusion),
                _as_difference(shown, direction),
            )
        )
    return ResultRanking(
        metric=metric,
        direction=direction,
        leader=leader,
        value=fmean(means[leader]),
        behind=tuple(behind),
        unit=selection.unit_kind,
        blocks=len(places),
        margin=margin.value,
    )


def _as_difference(gain: Estimate | None, direction: Direction) -> Estimate | None:
    """Return a gain as the difference of values: below 0 where less is better."""
    if gain is None or direction == "maximize":
        return gain
    return inverse_difference(gain)
