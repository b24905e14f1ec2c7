"""Changes between two sweeps: the report's comparison of pairs, with arms `before` and `after`.

Each arm is compared with itself, and each config that both sides have is one block. Whatever else
changed in between affects every ratio: hence a wider default margin than within a sweep.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from orchestrator.analysis.comparisons.results import ResultComparison
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.comparisons.speed import compare_arms as compare_pairs
from orchestrator.analysis.measures import MEASURES
from orchestrator.analysis.pairing.baselines import Baseline
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, match, observe_rounds
from orchestrator.analysis.results import result_metrics
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import ABSENT
from orchestrator.core.arms import Arm
from orchestrator.core.caller import as_typed
from orchestrator.core.criteria import Margins, ReportCriteria, ResultMargin
from orchestrator.core.records import SweepRecord
from orchestrator.core.text import joined
from orchestrator.core.trial import Config, FinishedTrial, canonical
from orchestrator.report.compare.sides import InvalidSide, Side
from orchestrator.report.wording import grouped

FailOn = Literal["slower", "faster", "worse", "larger", "changed", "inconclusive"]

NEEDS = {"peak_gpu_mib": "GPU memory", "peak_rss_mib": "memory", "compile_s": "time to compile"}
"""The metrics that are compared besides speed and accuracy, with their names."""

_SIZES = {"faster": "larger", "slower": "smaller"}
"""The changes of memory that a comparison can fail on, by the verdict on the need."""

_Pairs: TypeAlias = Sequence[tuple[Arm, Arm]]


@dataclass(frozen=True, slots=True)
class ArmChange:
    """An arm on both sides; `comparison` has the one after as its arm, with configs as blocks.

    Its `speedup` is the time per step before divided by that after. A change within the margin is
    `inconclusive`. `needs` compares the memory of fresh trainers and the compile time of warm ones,
    with the arm before as its arm: a `speedup` above 1 (`faster`) is a need that grew. `lost`
    counts the configs that the arm completed before, and fails at now. `different_mathematics` are
    the labels of the sides on which the arm computes something else than the baseline there; if
    that is one side only, the arm's times are not compared.
    """

    before: Arm
    after: Arm
    comparison: Comparison
    needs: Mapping[str, Comparison]
    lost: int
    different_mathematics: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict on the arm's speed: `faster` is faster after."""
        return self.comparison.verdict

    @property
    def speedup(self) -> Estimate | None:
        """The time per step before divided by that after, with its plain 95 % interval."""
        return self.comparison.speedup

    @property
    def results(self) -> tuple[ResultComparison, ...]:
        """The comparisons of what training achieved."""
        return self.comparison.results

    @property
    def configs(self) -> int:
        """The number of configs over which it is compared."""
        return max([len(self.comparison.pairs), *(r.difference.n for r in self.results)])

    @property
    def is_of_results_alone(self) -> bool:
        """Whether no time was measured, but what training achieved was."""
        return bool(self.results) and not self.comparison.pairs

    @property
    def is_on_other_hardware(self) -> bool:
        """The hardware differs: a change is not one of the code."""
        return self.before.hardware != self.after.hardware

    @property
    def diverged_alone(self) -> str | None:
        """Why a result has no verdict, if only one side diverged at some config."""
        for result in self.results:
            if result.reason and (result.diverged or result.baseline_diverged):
                return result.reason.replace("the baseline's", "the earlier")
        return None

    @property
    def inconclusive_reason(self) -> str | None:
        """Why a change of speed or accuracy is inconclusive; None if it is not."""
        if self.is_on_other_hardware:
            return f"before on {self.before.hardware}"
        if self.is_of_results_alone:
            is_judged = any(result.verdict != "inconclusive" for result in self.results)
            return self.diverged_alone or (None if is_judged else self.results[0].reason)
        return self.comparison.reason or self.diverged_alone


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between the sides apart from the code; `–` for a missing value."""

    subject: str
    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, repr=False)
class Changes:
    """The labels of two sides, their differences, and the changes of all arms that both have.

    `configs` has the config of each block. `incomplete` has the states of sides that are not
    complete, `unlike_inputs` the inputs whose difference prevents a comparison of accuracies.
    With `busy_counts` verdicts on a busy machine count.
    """

    before: str
    after: str
    workload: str
    incomplete: Mapping[str, str]
    margin: float
    differences: tuple[Difference, ...]
    arms: tuple[ArmChange, ...]
    configs: tuple[Config, ...]
    only_before: tuple[Arm, ...]
    only_after: tuple[Arm, ...]
    unlike_inputs: str | None
    busy_counts: bool = False

    def __repr__(self) -> str:
        """Return the two sides, and the verdict on each arm."""
        arms = ", ".join(f"{arm.after.short_name} {arm.verdict}" for arm in self.arms)
        return f"<Changes {self.before} to {self.after}: {arms or 'no arm on both sides'}>"

    @property
    def unjudged(self) -> tuple[tuple[Arm, str], ...]:
        """The arms with an inconclusive verdict, with reasons; those only before come last.

        Arms that only the later side has are not among them: they cannot have become slower.
        """
        busy = f"busy: {as_typed('--busy-counts', 'busy_counts=True')} counts it"
        reasons = (
            (a.after, a.inconclusive_reason or ("" if self.counts(a.comparison) else busy))
            for a in self.arms
        )
        return (
            *((arm, reason) for arm, reason in reasons if reason),
            *((arm, f"only {self.before} has it") for arm in self.only_before),
        )

    def counts(self, comparison: Comparison) -> bool:
        """Return True unless the verdict is of a busy machine, which is open by default."""
        return self.busy_counts or comparison.qualifier != "busy"

    @property
    def all_inconclusive(self) -> bool:
        """No arm has a verdict, on its speed or on results alone, that concerns the code."""
        judged = [arm for arm in self.arms if self.counts(arm.comparison)]
        return all(
            bool(arm.inconclusive_reason)
            if arm.is_of_results_alone
            else arm.is_on_other_hardware or arm.comparison.verdict == "inconclusive"
            for arm in judged
        )

    @property
    def moved_together(self) -> bool:
        """All of several arms changed by the same factor.

        The cause is then more likely the machine than the code.
        """
        if not any(arm.comparison.verdict in ("faster", "slower") for arm in self.arms):
            return False
        speedups = [a.comparison.speedup.value for a in self.arms if a.comparison.speedup]
        return len(speedups) > 1 and max(speedups) / min(speedups) < 1 + self.margin


def compare_sides(before: Side, after: Side, margin: float = 0.05) -> Changes:
    """Compare two sides; `margin` is the share of time, or of memory, that does not matter."""
    _expect_two_of_a_kind(before, after)
    differences = _differences(before.record, after.record)
    inputs = {"setting": "settings", "data": "data"}
    unlike = dict.fromkeys(inputs[d.subject] for d in differences if d.subject in inputs)
    pairs = _named_pairs(before.arms, after.arms)
    record, configs = _as_one(before, after, pairs, is_accuracy_comparable=not unlike)
    criteria = ReportCriteria(margins=_narrower_margins(before, after, margin))
    record = replace(record, criteria=criteria)
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
        differences=differences,
        arms=_arm_changes(before, after, pairs, record),
        configs=configs,
        only_before=tuple(arm for arm in before.arms if arm not in {early for early, _ in pairs}),
        only_after=tuple(arm for arm in after.arms if arm not in {late for _, late in pairs}),
        unlike_inputs=joined(unlike) or None,
    )


def _arm_changes(
    before: Side, after: Side, pairs: _Pairs, record: SweepRecord
) -> tuple[ArmChange, ...]:
    """Compare the arms of each pair, by the trials of the joint record of both sides."""
    labelled = [(_labelled(early, before), _labelled(late, after)) for early, late in pairs]
    different_alone = set[Arm]()  # where both are different, they may compute the same as before
    for pair, (early, late) in zip(pairs, labelled, strict=True):
        early_differs = pair[0] in before.different_mathematics
        late_differs = pair[1] in after.different_mathematics
        if early_differs and not late_differs:
            different_alone.add(early)
        elif late_differs and not early_differs:
            different_alone.add(late)
    speeds = _compared(record, [(late, early) for early, late in labelled], None, different_alone)
    needs = {metric: _compared(record, labelled, metric) for metric in NEEDS}
    return tuple(
        ArmChange(
            before=pair[0],
            after=pair[1],
            comparison=speeds[late],
            needs={
                metric: comparisons[early]
                for metric, comparisons in needs.items()
                if comparisons[early].speedup
            },
            lost=_count_lost(record, early, late),
            different_mathematics=tuple(
                side.label
                for side, arm in zip((before, after), pair, strict=True)
                if arm in side.different_mathematics
            ),
        )
        for pair, (early, late) in zip(pairs, labelled, strict=True)
    )


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


def failing(changes: Changes, requested: Iterable[FailOn]) -> tuple[ArmChange, ...]:
    """Return the arms on the same hardware that changed in one of the requested ways."""
    wanted: set[str] = set(requested)
    if "changed" in wanted:
        wanted |= {"slower", "faster", "worse", "better", "larger", "smaller"}
    wanted -= {"inconclusive"}
    return tuple(
        arm for arm in changes.arms if not arm.is_on_other_hardware and wanted & _ways(arm, changes)
    )


def _ways(arm: ArmChange, changes: Changes) -> set[str]:
    """Return the ways in which an arm changed that a comparison can fail on."""
    memory = {
        _SIZES.get(need.verdict, "")
        for metric, need in arm.needs.items()
        if metric != "compile_s" and changes.counts(need)
    }
    speed = {arm.comparison.verdict} if changes.counts(arm.comparison) else set()
    return {*speed, *memory, *(result.verdict for result in arm.results)}


def _expect_two_of_a_kind(before: Side, after: Side) -> None:
    if before.record.workload != after.record.workload:
        raise InvalidSide(
            f"expected two sweeps of one workload; received {before.label} of "
            f"{before.record.workload} and {after.label} of {after.record.workload}"
        )
    if before.record.run_id == after.record.run_id:
        both = joined(dict.fromkeys((before.label, after.label)))
        fresh = as_typed("--fresh", "fresh=True")
        raise InvalidSide(
            "expected two sweeps, or two generations of one; received one sweep on both sides "
            f"({both}), so nothing can have changed. Name an earlier generation (such as NAME#1; "
            f"a start with {fresh} makes another), or a saved report of another one"
        )


def _named_pairs(before: Sequence[Arm], after: Sequence[Arm]) -> _Pairs:
    """Pair equal arms; others by their name, if one arm of either side has it on other hardware."""
    gone, new = (
        grouped(((arm.short_name, arm.variant, arm.device, str(arm.usage)), arm) for arm in arms)
        for arms in ([a for a in before if a not in after], [a for a in after if a not in before])
    )
    moved = {
        arms[0]: new[key][0]
        for key, arms in gone.items()
        if len(arms) == len(new.get(key, ())) == 1
    }
    return [(arm, moved.get(arm, arm)) for arm in before if arm in after or arm in moved]


def _labelled(arm: Arm, side: Side) -> Arm:
    """Return the arm of a side; the other side's arm differs by the id of its hardware."""
    ref = arm.hardware_class
    of_side = replace(ref, id=f"{ref.id} {side.record.run_id}", name=f"{ref.name} in {side.label}")
    return replace(arm, hardware=replace(arm.hardware, hardware_class=of_side))


def _as_one(
    before: Side, after: Side, pairs: _Pairs, *, is_accuracy_comparable: bool
) -> tuple[SweepRecord, tuple[Config, ...]]:
    """Return both sweeps as one, with a block for each config, and the configs.

    Configs include the settings that the other side searches. Repeats of the only config that both
    sides completed are compared; else the repeats of a config are one round.
    """
    trials: list[FinishedTrial] = []
    blocks: dict[str, int] = {}
    configs: dict[int, Config] = {}
    searched = {n for side in (before, after) for t in side.record.trials for n in t.config}
    sides = ((before, {early for early, _ in pairs}), (after, {late for _, late in pairs}))
    for side, compared in sides:
        fixed = {n: value for n, value in side.record.settings.items() if n in searched}
        for trial in side.record.trials:
            if trial.arm not in compared:
                continue
            config = dict(sorted({**fixed, **trial.config}.items()))
            block = blocks.setdefault(canonical(config), len(blocks))
            configs.setdefault(block, config)
            metrics = dict(trial.metrics)
            if not is_accuracy_comparable:
                for result in result_metrics(side.record, metrics):
                    del metrics[result]
            arm = _labelled(trial.arm, side)
            moved = replace(trial.trial, arm=arm, block=block, config=config)
            outcome = replace(trial.outcome, metrics=metrics)
            trials.append(FinishedTrial(moved, outcome, trial.run_id))
    completed = [
        {trial.block for trial in trials if trial.status == "complete" and trial.arm in arms}
        for arms in ({_labelled(arm, side) for arm in side.arms} for side in (before, after))
    ]
    if len(completed[0] & completed[1]) != 1:
        trials = _in_one_round(trials)
    datasets = (*before.record.datasets, *after.record.datasets)
    joint = replace(after.record, trials=tuple(trials), current=(), datasets=datasets)
    return joint, tuple(configs.values())


def _in_one_round(trials: Sequence[FinishedTrial]) -> list[FinishedTrial]:
    """Return the repeats of each config as one round: the quiet ones, if there are any."""
    quiet = {(t.arm, t.block) for t in trials if t.status == "complete" and not t.disturbance}
    return [
        replace(t, trial=replace(t.trial, repeat=0))
        for t in trials
        if not t.disturbance or (t.arm, t.block) not in quiet
    ]


def _matched(record: SweepRecord, sides: _Pairs, metric: str | None) -> CompleteRounds:
    """Match the configs of each pair of arms by itself: a failure of one arm concerns no other."""
    complete = [trial for trial in record.trials if trial.status == "complete"]
    measure = next((measure for measure in MEASURES if measure.metric == metric), None)
    if measure and any(trial.trainer_trials for trial in complete):
        complete = [trial for trial in complete if measure.counts(trial)]
    by_arm = grouped((trial.arm, trial) for trial in complete)
    matches = [
        match(
            replace(
                record,
                arms=(earlier, later),
                blocks=0,
                trials=(*by_arm.get(earlier, ()), *by_arm.get(later, ())),
            )
        )
        for earlier, later in sides
    ]
    return CompleteRounds(
        blocks=tuple(sorted({block for matched in matches for block in matched.blocks})),
        rounds=frozenset().union(*(matched.rounds for matched in matches)),
        set_aside=tuple(arm for matched in matches for arm in matched.set_aside),
        gaps=(),
        trials={arm: trials for matched in matches for arm, trials in matched.trials.items()},
        observations=observe_rounds(complete),
    )


def _compared(
    record: SweepRecord,
    sides: _Pairs,
    metric: str | None = None,
    different: Collection[Arm] = (),
) -> dict[Arm, Comparison]:
    """Compare the first arm of each pair with the second; nothing is shown within the margin.

    Arms that are `different` compute something else on the other side, and are not compared.
    """
    matched = _matched(record, sides, metric)
    record = replace(record, arms=tuple(arm for arm, _ in sides))
    comparisons = {}
    baseline = Baseline("", "arm", dict(sides))
    for judged in compare_pairs(record, matched, baseline, metric, different):
        change = abs(math.log(judged.speedup.value)) if judged.speedup else 0.0
        is_small = change <= math.log1p(judged.margin)
        comparison = judged
        if is_small and judged.verdict in ("faster", "slower"):
            reason = f"{judged.verdict}, but possibly within the margin"
            comparison = replace(judged, verdict="inconclusive", reason=reason)
        comparisons[judged.arm] = comparison
    return comparisons


def _count_lost(record: SweepRecord, earlier: Arm, later: Arm) -> int:
    """Count the configs that the arm completed before, and only failed at after.

    None is lost if it completes nothing at all any more: the reason of its comparison says that.
    """
    complete = [trial for trial in record.trials if trial.status == "complete"]
    completed_before = {trial.block for trial in complete if trial.arm == earlier}
    completed_after = {trial.block for trial in complete if trial.arm == later}
    if not completed_after:
        return 0
    tried_after = {trial.block for trial in record.trials if trial.arm == later}
    return len((completed_before & tried_after) - completed_after)


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
        **{("setting", name): canonical(value) for name, value in settings.items()},
        **{("data", item.name): item.digest for item in record.datasets},
        **{("version", name): version for name, version in record.environment.items()},
        ("hardware", "classes"): ", ".join(hardware),
    }
