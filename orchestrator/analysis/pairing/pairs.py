"""The arm that each arm is compared with, and their times and results, paired by block."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from orchestrator.analysis.measures import PER_STEP, TIMES, value_of
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round, RoundSelection
from orchestrator.analysis.statistics.estimates import (
    MIN_VALUES,
    Estimate,
    exponential,
    t_interval,
)
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.errors import Refusal
from orchestrator.core.factors import FACTORS, other_choices
from orchestrator.core.names import names_arm, split_arm_text
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial

Mean = Callable[[Sequence[float]], float]

_ROUNDING = 1e-6
"""Results that differ by less, as a share, differ by the rounding of float32."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One block's values of one metric on both sides, each the mean over its shared rounds.

    Times have their geometric mean, so that a round that was slow on both sides weighs no more than
    the others, results their arithmetic mean. `arm_runs` and `baseline_runs` are run ids. Where
    repeats of one config are compared, a pair is of one `repeat`; else that is None.
    """

    block: int
    repeat: int | None
    arm: float
    baseline: float
    rounds: int
    arm_runs: tuple[str, ...]
    baseline_runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RoundValue:
    """An arm's value in one round, and the ids of the runs that have it."""

    value: float
    runs: tuple[str, ...]


RoundValues = Mapping[Round, RoundValue]
"""One value for each of an arm's complete rounds that has it."""


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """The pairs of blocks of two arms by a time, over selected rounds."""

    pairs: tuple[Pair, ...] = ()
    selection: RoundSelection = field(default_factory=RoundSelection)

    @property
    def log_ratios(self) -> list[float]:
        """The logarithm of the baseline's time over the arm's, for each block."""
        return [math.log(pair.baseline) - math.log(pair.arm) for pair in self.pairs]

    def ratio(self, confidence: float) -> Estimate | None:
        """Return the geometric mean ratio of times; None for fewer than two blocks."""
        return exponential(t_interval(self.log_ratios, confidence))


def _pairs(
    values: tuple[RoundValues, RoundValues], selection: RoundSelection, mean: Mean
) -> tuple[Pair, ...]:
    pairs = []
    for (block, repeat), rounds in selection.by_unit.items():
        sides = [[by_place[place] for place in rounds] for by_place in values]
        means = [mean([item.value for item in side]) for side in sides]
        runs = [tuple(run for item in side for run in item.runs) for side in sides]
        pairs.append(Pair(block, repeat, means[0], means[1], len(rounds), runs[0], runs[1]))
    return tuple(pairs)


def round_values(
    rounds: Mapping[Round, Sequence[FinishedTrial]],
    value_of: Callable[[FinishedTrial], float | None],
    mean: Mean,
) -> dict[Round, RoundValue]:
    """Return the mean of the values of each round that has any, normally one."""
    means = {}
    for place, trials in rounds.items():
        values = [(value, t.run_id) for t in trials if (value := value_of(t)) is not None]
        if values:
            numbers, run_ids = zip(*values, strict=True)
            means[place] = RoundValue(mean(numbers), run_ids)
    return means


def positive_values(matched: CompleteRounds, arm: Arm, metric: str) -> dict[Round, RoundValue]:
    """Return the geometric mean of an arm's positive values, for each round that has any."""
    if (arm, metric) in matched.values:
        return matched.values[arm, metric]

    def positive(trial: FinishedTrial) -> float | None:
        value = value_of(trial, metric)
        return value if value and value > 0 else None

    values = round_values(matched.trials.get(arm, {}), positive, geometric)
    matched.values[arm, metric] = values
    return values


@dataclass(frozen=True, slots=True)
class PairedResults:
    """The pairs of blocks of two arms by one result of their training."""

    pairs: tuple[Pair, ...] = ()

    @property
    def differences(self) -> list[float]:
        """The arm's value minus the baseline's, for each block."""
        return [pair.arm - pair.baseline for pair in self.pairs]

    @property
    def difference(self) -> Estimate | None:
        """The mean difference; None for fewer than two blocks."""
        return t_interval(self.differences)

    @property
    def has_constant_difference(self) -> bool:
        """Whether all blocks have one difference that is not 0, where there is an interval.

        Then nothing decides this difference that varies between blocks on one arm alone: either
        there is no chance in the result, or all arms of a block share it (a noise that is drawn
        from the seed alone), and its share in a difference was not measured.
        """
        differences = self.differences
        if len(differences) < MIN_VALUES:
            return False
        largest = max(max(abs(pair.arm), abs(pair.baseline)) for pair in self.pairs)
        spread = max(differences) - min(differences)
        return spread <= _ROUNDING * largest < min(map(abs, differences))


def pair_results(matched: CompleteRounds, arm: Arm, base: Arm, metric: str) -> PairedResults:
    """Pair the blocks' values of a result of two arms that trained the same amount of work.

    They are compared over all rounds: a disturbance does not change them.
    """
    if arm.work != base.work or {arm.measure, base.measure} != {"full"}:
        return PairedResults()
    arm_values, base_values = (
        round_values(matched.trials.get(side, {}), lambda trial: value_of(trial, metric), fmean)
        for side in (arm, base)
    )
    shared = RoundSelection.of_all(arm_values.keys() & base_values.keys())
    return PairedResults(_pairs((arm_values, base_values), shared, fmean))


ComparedPair = tuple[Arm, Arm | None]
"""An arm, and the baseline that it is compared with; None if that cannot run."""


def pair_times(
    matched: CompleteRounds,
    sides: Sequence[ComparedPair],
    metric: str | None,
    different: Collection[Arm] = (),
) -> tuple[PairedTimes, ...]:
    """Pair the blocks' values of a time of each arm and its baseline.

    With different amounts of work or measuring modes only times per step or sample are compared.
    There are no pairs of arms that are `different`: they compute something else.
    """
    if metric is None:
        return (PairedTimes(),) * len(sides)
    bases = _comparable_bases(sides, metric, different)
    selections = compared_rounds(matched, sides, metric, different)
    return tuple(
        _paired(matched, arm, bases[arm], metric, selections) if arm in bases else PairedTimes()
        for arm, _ in sides
    )


def _comparable_bases(
    sides: Iterable[ComparedPair], metric: str, different: Collection[Arm]
) -> dict[Arm, Arm]:
    """Return the baseline of each arm whose times may be compared with it."""
    return {
        arm: base
        for arm, base in sides
        if base is not None
        and not {arm, base} & set(different)
        and (metric in PER_STEP or (arm.work == base.work and arm.measure == base.measure))
    }


def _paired(
    matched: CompleteRounds,
    arm: Arm,
    base: Arm,
    metric: str,
    selections: Mapping[Arm, RoundSelection],
) -> PairedTimes:
    values = positive_values(matched, arm, metric), positive_values(matched, base, metric)
    if arm in selections and base in selections:
        selection = selections[arm]
    else:
        selection = matched.select(values[0].keys() & values[1].keys(), (base, arm))
    return PairedTimes(_pairs(values, selection, geometric), selection)


def compared_rounds(
    matched: CompleteRounds,
    sides: Sequence[ComparedPair],
    metric: str | None,
    different: Collection[Arm] = (),
) -> dict[Arm, RoundSelection]:
    """Return the rounds over which `pair_times` pairs the times of each compared arm.

    Arms that are compared with each other, or through a common baseline, count the same rounds: so
    the ratio of two arms' geometric means is the geometric mean of their ratios. An arm that lacks
    some of the complete rounds, as one of an earlier start, has no entry, unless all do.
    """
    if metric is None:
        return {}
    groups: list[set[Arm]] = []
    for arm, base in _comparable_bases(sides, metric, different).items():
        if all(positive_values(matched, side, metric) for side in (arm, base)):
            joined = [group for group in groups if {arm, base} & group]
            groups = [group for group in groups if group not in joined]
            groups.append({arm, base}.union(*joined))
    selections: dict[Arm, RoundSelection] = {}
    for group in groups:
        arms = [arm for arm in matched.trials if arm in group]
        rounds = {arm: set(positive_values(matched, arm, metric)) for arm in arms}
        whole = [arm for arm in arms if len(rounds[arm]) == len(matched.rounds)]
        counted = whole if len(whole) > 1 else arms
        shared = set.intersection(*(rounds[arm] for arm in counted))
        selections |= dict.fromkeys(counted, matched.select(shared, counted))
    return selections


def time_metric(matched: CompleteRounds) -> str | None:
    """Return the metric of speed-ups: the first of `TIMES` that at least two arms measured.

    The arms of a block share the batch size, so that ratios of `step_ms` are ratios per sample.
    Where variants set it, times per sample are compared if they were measured.
    """
    has_sizes = any("batch_size" in arm.settings for arm in matched.trials)
    for metric in ("sample_us", "predict_sample_us", *TIMES) if has_sizes else TIMES:
        measured = [arm for arm in matched.trials if positive_values(matched, arm, metric)]
        if len(measured) >= 2:
            return metric
    return None


def geometric(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values; of one, itself."""
    if len(values) == 1:
        return values[0]
    return math.exp(math.fsum(map(math.log, values)) / len(values))


class BaselineError(Refusal, ValueError):
    """A requested baseline that is not an arm of the sweep; the message lists the choices."""

    __module__ = "rnnsweep"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baselines of the speed-ups.

    With scope `arm` every arm is compared with one arm; with `same hardware` each with the
    baseline's implementation on its own hardware. But an arm of another variant is compared with
    the baseline's variant on its own implementation and hardware, if that can run. `of` has no
    entry for an arm on hardware without this implementation. `instead_of` is the sentence that
    another baseline was asked for, which cannot run; empty if this one was.
    """

    name: str
    scope: Literal["arm", "same hardware"]
    of: Mapping[Arm, Arm]
    instead_of: str = ""

    def pairs(self, arms: Iterable[Arm]) -> list[tuple[Arm, Arm]]:
        """Return the other arms with their baselines."""
        sides = ((arm, self.of.get(arm, arm)) for arm in arms)
        return [(arm, base) for arm, base in sides if arm != base]


def pick_baseline(record: SweepRecord, asked: str | None) -> Baseline | None:
    """Return the baseline that `asked` names; by default the first arm that is still run.

    `asked` is an arm, an implementation, a variant, or the value of another factor (`1 thread`,
    `float32`, a hardware class). If it fits arms on several hardware classes, each class has its
    own baseline, the first one there. An arm with its hardware is the baseline of all others,
    whatever they differ in. A value of another factor gives each arm the baseline that has this
    value and is otherwise the same arm. None if no arm of the sweep can run. Raise `BaselineError`
    if `asked` names no arm that can run.
    """
    if asked is None and not record.arms:
        return None
    if asked is not None and (of_value := _with_value(record, asked)):
        return of_value
    text = str((record.current or record.arms)[0]) if asked is None else asked
    exact = [arm for arm in record.arms if str(arm) == text]
    candidates: dict[HardwareUse, Arm] = {}
    for arm in exact or [arm for arm in record.arms if names_arm(text, arm)]:
        candidates.setdefault(arm.hardware, arm)
    if not candidates:
        raise BaselineError(_unknown(record, text))
    if len(candidates) == 1:
        (only,) = candidates.values()
        is_for_all = asked is not None and split_arm_text(text)[1] is not None
        of = {arm: only if is_for_all else _reference(arm, only, record) for arm in record.arms}
        return Baseline(str(only), "arm", of)
    of = {
        arm: _reference(arm, candidates[arm.hardware], record)
        for arm in record.arms
        if arm.hardware in candidates
    }
    return Baseline(text, "same hardware", of)


def baseline_of_spec(record: SweepRecord) -> Baseline | None:
    """Return the baseline that the spec names; the first arm if that one cannot run any more."""
    try:
        return pick_runnable_baseline(record, record.criteria.baseline)
    except BaselineError:  # an arm of an earlier spec
        return pick_baseline(record, None)


def _with_value(record: SweepRecord, asked: str) -> Baseline | None:
    """Return the baselines that have this value of a factor; None if it is no such value.

    Variants and implementations are none of these: they name arms.
    """
    for factor in FACTORS:
        named = [arm for arm in record.arms if factor.text(arm) == asked]
        if not named or factor.name in ("variant", "implementation"):
            continue
        if len({factor.key(arm) for arm in record.arms}) == 1:
            continue  # all arms have it
        twins = {other_choices(arm, factor): arm for arm in named}
        of = {
            arm: twins[other_choices(arm, factor)]
            for arm in record.arms
            if other_choices(arm, factor) in twins
        }
        return Baseline(asked, "arm", of)
    return None


def pick_runnable_baseline(record: SweepRecord, asked: str | None) -> Baseline | None:
    """Return the baseline that `asked` names, or if it cannot run here, the first arm that can.

    Raise `BaselineError` if `asked` names no arm of the sweep at all, or none of them can run.
    """
    try:
        return pick_baseline(record, asked)
    except BaselineError:
        reasons = _reasons_of(record, asked or "")
        first = pick_baseline(record, None) if reasons else None
        if first is None:
            raise
        why = "; ".join(dict.fromkeys(reasons.values()))
        note = f"The baseline is {first.name}, because {asked} cannot run: {why}"
        return replace(first, instead_of=note)


def _reasons_of(record: SweepRecord, asked: str) -> dict[str, str]:
    """Return why the arms that `asked` names cannot run, by hardware."""
    return {
        excluded.arm.hardware: excluded.reason
        for excluded in record.impossible
        if asked in (str(excluded.arm), excluded.arm.short_name, excluded.arm.implementation)
    }


def _reference(arm: Arm, base: Arm, record: SweepRecord) -> Arm:
    """Return the arm to compare with: for another variant, the same arm in the baseline's."""
    twin = replace(arm, variant=base.variant)
    return twin if arm.variant != base.variant and twin in record.arms else base


def _unknown(record: SweepRecord, asked: str) -> str:
    reasons = _reasons_of(record, asked)
    problem = f"baseline {asked!r} is not an arm of sweep {record.name!r}"
    if len(set(reasons.values())) == 1:
        problem = f"baseline {asked!r} cannot run: {next(iter(reasons.values()))}"
    elif reasons:
        texts = (f"on {hardware}, {reason}" for hardware, reason in reasons.items())
        problem = f"baseline {asked!r} cannot run: {'; '.join(texts)}"
    choices = dict.fromkeys(a.variant.name for a in record.arms if a.variant)
    for factor in FACTORS:
        values = dict.fromkeys(map(factor.text, record.arms))
        if factor.name in ("threads", "CPUs") and len(values) > 1:
            choices |= values
    choices |= {a.implementation: None for a in record.arms} | {str(a): None for a in record.arms}
    if not choices:
        return f"{problem}; none of its arms can run, so there is nothing to choose from"
    return f"{problem}; choose one of: {'; '.join(choices)}"
