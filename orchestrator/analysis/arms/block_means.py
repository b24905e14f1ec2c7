"""The mean of each measure of an arm over the blocks that are compared, as tables show it.

Times, energies, costs and memory have their geometric mean, results of training their arithmetic
one: so the ratio (or the difference) of the figures of two arms is the one that is compared.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from statistics import fmean

from orchestrator.analysis.measures import PER_STEP, Measure, scopes_of, value_of
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round, RoundSelection
from orchestrator.analysis.pairing.pairs import Mean, geometric
from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial
from workloads.metrics import find_metric

_Values = Mapping[Round, Sequence[float]]


@dataclass(frozen=True, slots=True)
class BlockMean:
    """The mean of a measure over so many `blocks`, repeats averaged first."""

    value: float
    blocks: int


def block_means(
    measures: Iterable[Measure],
    ended: Mapping[Arm, Sequence[FinishedTrial]],
    matched: CompleteRounds,
    timed: CompleteRounds,
    selections: Mapping[Arm, RoundSelection],
) -> dict[Arm, dict[str, BlockMean]]:
    """Return the means of each arm's measures, by their metrics.

    Arms that share one of the `selections` have means over the same rounds: those of it on which
    all of them have the measure. Times per step are over rounds of `timed`, which include pruned
    trials, all others over rounds of `matched`; results are over all of these rounds, whatever is
    selected. An arm that lacks some of the complete rounds has means over all of its complete
    trials, and so have measures that only a fresh trainer has.
    """
    means: dict[Arm, dict[str, BlockMean]] = {arm: {} for arm in ended}
    for measure in measures:
        rounds = timed if measure.metric in PER_STEP else matched
        values = {
            arm: _values(measure, _trials(measure, arm, trials, rounds, selections.get(arm)))
            for arm, trials in ended.items()
        }
        shared = _shared_rounds(values, selections)
        for arm, of_arm in values.items():
            if of_arm:
                common = shared.get(id(selections.get(arm))) or of_arm.keys()
                means[arm][measure.metric] = _mean(measure, of_arm, sorted(common))
    return means


def _shared_rounds(
    values: Mapping[Arm, _Values], selections: Mapping[Arm, RoundSelection]
) -> dict[int, Set[Round]]:
    """Return the rounds on which all arms of a selection have values, by its `id`."""
    shared: dict[int, Set[Round]] = {}
    for arm, of_arm in values.items():
        if of_arm and arm in selections:
            group = id(selections[arm])
            shared[group] = shared.get(group, of_arm.keys()) & of_arm.keys()
    return shared


def _trials(
    measure: Measure,
    arm: Arm,
    ended: Sequence[FinishedTrial],
    rounds: CompleteRounds,
    selection: RoundSelection | None,
) -> list[FinishedTrial]:
    """Return the trials of an arm that a measure's mean is of."""
    comparable = rounds.comparable_trials(arm)
    if measure.trainer == "fresh" or not comparable:
        counted = [trial for trial in ended if trial.status == "complete"]
    elif selection is None or find_metric(measure.metric).is_result:
        counted = comparable
    else:
        places = set(selection.rounds)
        selected = [trial for trial in comparable if (trial.block, trial.repeat) in places]
        counted = selected or comparable
    return [trial for trial in counted if measure.counts(trial)]


def _values(measure: Measure, trials: Sequence[FinishedTrial]) -> _Values:
    """Return the values of each round; none for energies of several scopes."""
    values: dict[Round, list[float]] = defaultdict(list)
    if len(scopes_of(trials, (measure.metric,))) > 1:
        return values
    for trial in trials:
        value = value_of(trial, measure.metric)
        if value is not None:
            values[trial.block, trial.repeat].append(value)
    return values


def _mean(measure: Measure, values: _Values, rounds: Sequence[Round]) -> BlockMean:
    is_positive = all(value > 0 for place in rounds for value in values[place])
    is_geometric = is_positive and not find_metric(measure.metric).is_result
    mean: Mean = geometric if is_geometric else fmean
    blocks: dict[int, list[float]] = defaultdict(list)
    for place in rounds:
        blocks[place[0]].append(mean(values[place]))
    return BlockMean(mean([mean(of_block) for of_block in blocks.values()]), len(blocks))
