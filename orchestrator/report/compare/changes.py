"""Changes between two sweeps: each arm is compared with itself, over the configs of both sides.

Whatever else changed in between affects every ratio: hence a wider default margin than within a
sweep.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from orchestrator.analysis.contrasts.answers import divergence, time_metric_of
from orchestrator.analysis.contrasts.contrast import (
    Contrast,
    Qualifier,
    Question,
    Scale,
    Verdict,
)
from orchestrator.analysis.contrasts.families import Comparison, Judging, judge_over_own_blocks
from orchestrator.analysis.contrasts.matrix import Matrix, build_matrix
from orchestrator.analysis.measures import PER_STEP, Measure, measure_of
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, typical_disturbance
from orchestrator.analysis.pairing.margins import judged_margin
from orchestrator.analysis.results import result_metrics
from orchestrator.analysis.statistics.formatting import ABSENT
from orchestrator.core.arms import Arm
from orchestrator.core.caller import as_typed
from orchestrator.core.criteria import Margins, ReportCriteria, ResultMargin
from orchestrator.core.disturbance import Disturbance
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.core.text import joined
from orchestrator.core.trial import FinishedTrial, canonical
from orchestrator.report.compare.joint_record import (
    ArmPair,
    all_rounds,
    join_sides,
    match_pairs,
    pair_arms,
)
from orchestrator.report.compare.sides import InvalidSide, Side
from orchestrator.report.words import verdict_label
from workloads.metrics import find_metric

FailOn = Literal["slower", "faster", "worse", "larger", "changed", "open"]

MEMORY = ("peak_gpu_mib", "peak_rss_mib")
"""The memories that are compared: of fresh trainers."""

NEEDS = (*MEMORY, "compile_s")
"""The metrics that are compared besides times and results."""


@dataclass(frozen=True, slots=True)
class ArmChange:
    """An arm that both sides have.

    Attributes:
        lost: The number of configs that were complete before and fail now.
        other_mathematics: Labels of the sides on which it computes something else than the
            baseline.
        diverged: Labels of the sides on which it diverged at a config that the other side
            completed.
    """

    before: Arm
    after: Arm
    lost: int
    other_mathematics: tuple[str, ...]
    diverged: tuple[str, ...]

    @property
    def is_on_other_hardware(self) -> bool:
        """Whether the hardware differs, so that changes are not due to the code."""
        return self.before.hardware != self.after.hardware


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between the sides besides the code; `–` for a missing value."""

    subject: str
    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, repr=False)
class Changes:
    """What changed between two sweeps.

    Attributes:
        before: The label of the earlier side.
        after: The label of the later side.
        incomplete: The states of sides that are not complete, by label.
        margin: The share by which a time or a memory may change and still count as the same.
        time_metric: The metric of the compared times; None if no arm has a time.
        contrasts: At most one for each arm and metric (time, results, memory, time to compile). The
            subject is the arm after, the reference the arm before. A ratio above 1 takes less time
            or memory now. A change whose mean is within the margin is never worse or better.
        disturbance: What other processes took during the compared trials.
        arms: The arms of both sides.
        differences: What else differs between the sides.
        only_before: The arms of the earlier side alone.
        only_after: The arms of the later side alone.
        unlike_inputs: The inputs that differ, so that results cannot be compared; None if none do.
        busy_counts: Whether verdicts on a busy machine count.
    """

    before: str
    after: str
    workload: str
    incomplete: Mapping[str, str]
    margin: float
    time_metric: str | None
    contrasts: tuple[Contrast, ...]
    disturbance: Disturbance
    arms: tuple[ArmChange, ...]
    differences: tuple[Difference, ...]
    only_before: tuple[Arm, ...]
    only_after: tuple[Arm, ...]
    unlike_inputs: str | None
    busy_counts: bool = False

    def __repr__(self) -> str:
        """Return the two sides, and the verdict on the time of each arm."""
        verdicts = (f"{contrast.subject} {verdict_label(contrast)}" for contrast in self.of_time)
        return f"<Changes {self.before} to {self.after}: {', '.join(verdicts) or 'no times'}>"

    @property
    def of_time(self) -> tuple[Contrast, ...]:
        """The changes of time, one for each arm."""
        return tuple(c for c in self.contrasts if c.metric == self.time_metric)

    def contrast(self, arm: Arm, metric: str) -> Contrast | None:
        """Return the change of an arm of the later side by a metric."""
        changes = (c for c in self.contrasts if (c.subject, c.metric) == (str(arm), metric))
        return next(changes, None)

    @property
    def unjudged(self) -> tuple[tuple[Arm, str], ...]:
        """The arms without a verdict that counts, with reasons.

        Arms of the earlier side alone come last. Arms of the later side alone are left out, because
        they cannot have become slower.
        """
        reasons = ((arm.after, self._unjudged_reason(arm)) for arm in self.arms)
        return (
            *((arm, reason) for arm, reason in reasons if reason),
            *((arm, f"only {self.before} has it") for arm in self.only_before),
        )

    def _unjudged_reason(self, arm: ArmChange) -> str | None:
        """Return why an arm has no verdict on its time; without a time, none on any result."""
        own = [c for c in self.contrasts if c.subject == str(arm.after)]
        deciding = [c for c in own if c.metric == self.time_metric]
        deciding = deciding or [c for c in own if c.scale == Scale.DIFFERENCE]
        if arm.is_on_other_hardware:
            return f"before on {arm.before.hardware}"
        if not deciding:
            return "no config is complete on both sides"
        if not any(c.is_decided for c in deciding):
            return f"{deciding[0].metric} {verdict_label(deciding[0])}"
        if not any(map(self.counts, deciding)):
            return f"busy: {as_typed('--busy-counts', 'busy_counts=True')} counts it"
        is_open = any(c.scale == Scale.DIFFERENCE and not c.is_decided for c in own)
        return f"diverged in {joined(arm.diverged)}" if arm.diverged and is_open else None

    def counts(self, contrast: Contrast) -> bool:
        """Return True unless the verdict is of a busy machine, which is open by default."""
        return self.busy_counts or contrast.qualifier != Qualifier.BUSY

    @property
    def all_open(self) -> bool:
        """Whether no arm on the same hardware has a verdict on time or a result that counts."""
        moved = {str(arm.after) for arm in self.arms if arm.is_on_other_hardware}
        judged = (c for c in self.contrasts if c.metric not in NEEDS and c.subject not in moved)
        return not any(contrast.is_decided and self.counts(contrast) for contrast in judged)

    @property
    def moved_together(self) -> bool:
        """All of several arms changed by the same factor.

        The cause is then more likely the machine than the code.
        """
        if not any(c.verdict in (Verdict.BETTER, Verdict.WORSE) for c in self.of_time):
            return False
        factors = [c.estimate.value for c in self.of_time]
        return len(factors) > 1 and max(factors) / min(factors) < 1 + self.margin


def compare_sides(before: Side, after: Side, margin: float = 0.05) -> Changes:
    """Compare two sides; `margin` is the share of time, or of memory, that does not matter."""
    _expect_two_of_a_kind(before, after)
    differences = _differences(before.record, after.record)
    inputs = {"setting": "settings", "data": "data"}
    unlike = dict.fromkeys(inputs[d.subject] for d in differences if d.subject in inputs)
    pairs = pair_arms(before, after)
    joint = join_sides(before, after, pairs)
    criteria = ReportCriteria(margins=_narrower_margins(before, after, margin))
    comparison = _Comparison(
        record=replace(joint, criteria=criteria),
        pairs=pairs,
        matched=match_pairs(joint, pairs),
        other_mathematics=_different_on_one_side(before, after, pairs),
    )
    time_metric = comparison.time_metric(is_work_equal=not unlike)
    metrics: dict[str, Direction] = dict.fromkeys([time_metric] if time_metric else [], "minimize")
    metrics |= {} if unlike else comparison.results()
    metrics |= dict.fromkeys(NEEDS, "minimize")
    matrices = {metric: comparison.matrices(metric, better) for metric, better in metrics.items()}
    return Changes(
        before=before.label,
        after=after.label,
        workload=after.record.workload,
        incomplete={
            side.label: side.record.state
            for side in (before, after)
            if side.record.state != "complete"
        },
        margin=margin,
        time_metric=time_metric,
        contrasts=tuple(
            contrast
            for metric, of_pairs in matrices.items()
            for contrast in comparison.judge(metric, of_pairs)
        ),
        disturbance=typical_disturbance(
            disturbance
            for of_pairs in matrices.values()
            for matrix in of_pairs
            for disturbance in matrix.disturbances.values()
        ),
        arms=_arm_changes(joint, pairs, before, after),
        differences=differences,
        only_before=_without_pair(before, {pair.before for pair in pairs}),
        only_after=_without_pair(after, {pair.after for pair in pairs}),
        unlike_inputs=joined(unlike) or None,
    )


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The joint record of two sides, with the complete rounds of each pair of arms."""

    record: SweepRecord
    pairs: Sequence[ArmPair]
    matched: Sequence[CompleteRounds]
    other_mathematics: Collection[Arm]

    def time_metric(self, *, is_work_equal: bool) -> str | None:
        """Return the metric of times; only one of a single step compares unequal work."""
        metric = time_metric_of(all_rounds(self.matched))
        return metric if is_work_equal or metric in PER_STEP else None

    def results(self) -> dict[str, Direction]:
        """Return the results that complete trials have."""
        measured = {metric for trial in self._complete() for metric in trial.metrics}
        return result_metrics(self.record, measured)

    def matrices(self, metric: str, direction: Direction) -> tuple[Matrix, ...]:
        """Return the matrix of each pair by a metric: two columns over the rounds of the pair."""
        measure = self._measure(metric)
        return tuple(build_matrix(rounds, measure, direction) for rounds in self.matched)

    def judge(self, metric: str, matrices: Sequence[Matrix]) -> tuple[Contrast, ...]:
        """Return the changes of all arms by a metric."""
        rows = [
            Comparison(str(pair.after), str(pair.before), {pair.late: 1.0, pair.early: -1.0})
            for pair in self.pairs
        ]
        judged = judge_over_own_blocks(
            zip(matrices, rows, strict=True), Question.CHANGE, self._judging(metric, matrices)
        )
        return tuple(map(_open_within_margin, judged))

    def _judging(self, metric: str, matrices: Sequence[Matrix]) -> Judging:
        if not find_metric(metric).is_result:
            margin = self.record.criteria.margins.speed
            return Judging(margin, other_mathematics=self.other_mathematics)
        earlier = [
            matrix.mean(pair.early)
            for matrix, pair in zip(matrices, self.pairs, strict=True)
            if pair.early in matrix.arms and matrix.rows
        ]
        reference = fmean(earlier) if earlier else 0.0
        judged = judged_margin(self.record, all_rounds(self.matched), metric, reference)
        return Judging(judged.value, diverged=divergence(self.record))

    def _measure(self, metric: str) -> Measure:
        """Return the measure; where each trainer was fresh, all trials count."""
        measure = measure_of(find_metric(metric))
        are_all_fresh = not any(trial.trainer_trials for trial in self._complete())
        return replace(measure, trainer="any") if are_all_fresh else measure

    def _complete(self) -> list[FinishedTrial]:
        return [trial for trial in self.record.trials if trial.status == "complete"]


def _open_within_margin(contrast: Contrast) -> Contrast:
    """Return the contrast; open if its mean is within the margin and its interval is not."""
    change = contrast.estimate.value
    if contrast.scale == Scale.RATIO:
        is_small = abs(math.log(change)) <= math.log1p(contrast.margin)
    else:
        is_small = abs(change) <= contrast.margin
    is_changed = contrast.verdict in (Verdict.BETTER, Verdict.WORSE)
    return replace(contrast, verdict=Verdict.OPEN) if is_small and is_changed else contrast


def _different_on_one_side(before: Side, after: Side, pairs: Iterable[ArmPair]) -> frozenset[Arm]:
    """Return the arms that compute something else on their side only.

    Where both sides do, the arm may compute the same as before.
    """
    different = set[Arm]()
    for pair in pairs:
        early_differs = pair.before in before.different_mathematics
        late_differs = pair.after in after.different_mathematics
        if early_differs != late_differs:
            different.add(pair.early if early_differs else pair.late)
    return frozenset(different)


def _arm_changes(
    joint: SweepRecord, pairs: Iterable[ArmPair], before: Side, after: Side
) -> tuple[ArmChange, ...]:
    diverged = divergence(joint)
    return tuple(
        ArmChange(
            before=pair.before,
            after=pair.after,
            lost=_count_lost(joint, pair),
            other_mathematics=(
                *((before.label,) if pair.before in before.different_mathematics else ()),
                *((after.label,) if pair.after in after.different_mathematics else ()),
            ),
            diverged=(
                *((before.label,) if diverged(pair.early, pair.late) else ()),
                *((after.label,) if diverged(pair.late, pair.early) else ()),
            ),
        )
        for pair in pairs
    )


def _count_lost(joint: SweepRecord, pair: ArmPair) -> int:
    """Count the configs that the arm completed before, and only failed at after.

    None is lost if it completes nothing at all any more: then the arm is unjudged.
    """
    complete = [trial for trial in joint.trials if trial.status == "complete"]
    completed_before = {trial.block for trial in complete if trial.arm == pair.early}
    completed_after = {trial.block for trial in complete if trial.arm == pair.late}
    if not completed_after:
        return 0
    tried_after = {trial.block for trial in joint.trials if trial.arm == pair.late}
    return len((completed_before & tried_after) - completed_after)


def _without_pair(side: Side, paired: Collection[Arm]) -> tuple[Arm, ...]:
    return tuple(arm for arm in side.arms if arm not in paired)


def _narrower_margins(before: Side, after: Side, speed: float) -> Margins:
    """Return the narrower margin of each result of both specs; a report file has none."""
    given = [side.record.criteria.margins for side in (before, after) if not side.is_file]
    results = {
        metric: min((m.results[metric] for m in given if metric in m.results), key=_width)
        for metric in {metric for margins in given for metric in margins.results}
    }
    accuracies = [margins.accuracy for margins in given if margins.accuracy is not None]
    return Margins(speed, min(accuracies, default=None), results)


def _width(margin: ResultMargin) -> tuple[bool, float]:
    """Order margins of one metric: shares of the baseline after absolute ones."""
    return margin.is_share, margin.value


def failing(changes: Changes, requested: Iterable[FailOn]) -> tuple[Contrast, ...]:
    """Return the changes of arms on the same hardware in one of the requested ways.

    Arms without a verdict (`open`) are `Changes.unjudged`.
    """
    wanted = {*requested}
    moved = {str(arm.after) for arm in changes.arms if arm.is_on_other_hardware}
    return tuple(
        contrast
        for contrast in changes.contrasts
        if contrast.subject not in moved
        and changes.counts(contrast)
        and not wanted.isdisjoint(_ways(contrast, changes))
    )


def _ways(contrast: Contrast, changes: Changes) -> set[FailOn]:
    """Return the ways in which a comparison can fail on a change."""
    if contrast.verdict not in (Verdict.BETTER, Verdict.WORSE):
        return set()
    is_worse = contrast.verdict == Verdict.WORSE
    if contrast.metric == changes.time_metric:
        return {"changed", "slower" if is_worse else "faster"}
    if contrast.scale == Scale.DIFFERENCE:
        return {"changed", "worse"} if is_worse else {"changed"}
    if contrast.metric in MEMORY:
        return {"changed", "larger"} if is_worse else {"changed"}
    return set()


def _expect_two_of_a_kind(before: Side, after: Side) -> None:
    if before.record.workload != after.record.workload:
        raise InvalidSide(
            f"the sweeps have different workloads: {before.label} has {before.record.workload}, "
            f"{after.label} has {after.record.workload}"
        )
    if before.record.run_id == after.record.run_id:
        both = joined(dict.fromkeys((before.label, after.label)))
        fresh = as_typed("--fresh", "fresh=True")
        raise InvalidSide(
            f"both sides are the same sweep ({both}). Name an earlier generation, such as NAME#1 "
            f"({fresh} starts a new one), another sweep, or a saved report"
        )


def _differences(before: SweepRecord, after: SweepRecord) -> tuple[Difference, ...]:
    """List what differs besides the code, except params that one side searches and one fixes."""
    searched = {n for record in (before, after) for trial in record.trials for n in trial.config}
    earlier, later = _circumstances(before, searched), _circumstances(after, searched)
    return tuple(
        Difference(
            subject,
            name,
            before=earlier.get((subject, name), ABSENT),
            after=later.get((subject, name), ABSENT),
        )
        for subject, name in {**earlier, **later}
        if earlier.get((subject, name)) != later.get((subject, name))
    )


def _circumstances(record: SweepRecord, searched: Collection[str]) -> dict[tuple[str, str], str]:
    """Return everything but the code that may change a sweep's results, by subject and name."""
    settings = {name: value for name, value in record.settings.items() if name not in searched}
    hardware = sorted({str(arm.hardware_class) for arm in record.arms})
    return {
        ("search", "sampler"): record.sampler or ABSENT,
        ("search", "seed"): str(record.seed),
        **{("setting", name): canonical(value) for name, value in settings.items()},
        **{("data", item.name): item.digest for item in record.datasets},
        **{("version", name): version for name, version in record.environment.items()},
        ("hardware", "classes"): ", ".join(hardware),
    }
