"""Time, energy and cost to a target accuracy, by arm, and the times compared with the baseline's.

`docs/statistics.md` has the rules: what counts as reached, and which blocks revoke a verdict.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.measures import scopes_of
from orchestrator.analysis.pairing import complete_rounds, pairs
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round, diverged
from orchestrator.analysis.pairing.pairs import Baseline, Pair, PairedTimes
from orchestrator.analysis.statistics import estimates
from orchestrator.analysis.statistics.verdicts import Finding, inconclusive_reason, judge
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial

TargetVerdict = Literal["same", "less", "more", "inconclusive"]

_VERDICTS: Mapping[Finding, TargetVerdict] = {"same": "same", "more": "less", "less": "more"}
_ERROR = 1 - estimates.CONFIDENCE


@dataclass(frozen=True, slots=True)
class ExpenseToTarget:
    """Quartiles of an expense until a target, which `reached` of `trials` trials reached.

    A quartile is None if it lies among the trials that did not.
    """

    trials: int
    reached: int
    lower_quartile: float | None
    median: float | None
    upper_quartile: float | None


@dataclass(frozen=True, slots=True)
class TargetArm:
    """The expenses of an arm until the target; `energy_scope` is the scope of its energy.

    An expense is None unless every trial that reached the target recorded it. `diverged` counts the
    trials that ended in numbers that are not finite, and so never reached it.
    """

    arm: Arm
    time_s: ExpenseToTarget
    energy_j: ExpenseToTarget | None
    energy_scope: str
    cost_usd: ExpenseToTarget | None
    diverged: int


@dataclass(frozen=True, slots=True)
class TargetComparison:
    """An arm against its baseline, by the time until the target.

    `ratio` is the geometric mean over `pairs` of the baseline's time over the arm's, with its plain
    95 % interval: above 1 the arm needs `less`. The verdict follows from `corrected`, as a
    speed-up's does, unless the other blocks contradict it. `reason` explains an `inconclusive`
    verdict. `both`, `only_arm`, `only_baseline` and `neither` count blocks by the sides that
    reached it. A `provisional` verdict was measured on a busy machine.
    """

    arm: Arm
    baseline: Arm
    pairs: tuple[Pair, ...]
    ratio: estimates.Estimate | None
    corrected: estimates.Estimate | None
    confidence: float | None
    p_value: float | None
    verdict: TargetVerdict
    reason: str | None
    margin: float
    both: int
    only_arm: int
    only_baseline: int
    neither: int
    quiet_only: bool
    disturbed_blocks: tuple[int, ...]
    provisional: bool


@dataclass(frozen=True, slots=True)
class Target:
    """The expenses until one val_accuracy, and the comparisons of the times."""

    accuracy: float
    arms: tuple[TargetArm, ...]
    comparisons: tuple[TargetComparison, ...]


@dataclass(frozen=True, slots=True)
class Goal:
    """An accuracy to reach; `reported` if trainers had it as their `target_accuracy`."""

    accuracy: float
    reported: bool = False

    def seconds(self, trial: FinishedTrial) -> float | None:
        """Return the seconds of training until the trial reached it; infinite if it never did.

        They follow from the accuracies of its epochs or, if the trainer reported the goal, from
        `time_to_accuracy_s`. None without either.
        """
        if diverged(trial):
            return math.inf
        if not any("val_accuracy" in epoch.metrics for epoch in trial.epochs):
            if self.reported and "val_accuracy" in trial.metrics:
                return trial.metrics.get("time_to_accuracy_s", math.inf)
            return None
        seconds = 0.0
        for epoch in sorted(trial.epochs, key=lambda epoch: epoch.index):
            seconds += epoch.seconds
            if epoch.metrics.get("val_accuracy", -math.inf) >= self.accuracy:
                return seconds
        return math.inf


def reach(
    record: SweepRecord,
    matched: CompleteRounds,
    baseline: Baseline | None,
    asked: Iterable[float] = (),
) -> tuple[Target, ...]:
    """Return the expenses until the spec's `target_accuracy` and the requested accuracies.

    Without any data the spec's target is omitted, and a requested one has no arms.
    """
    own = record.settings.get("target_accuracy")
    wanted = dict.fromkeys(asked)
    goals = [Goal(float(own), reported=True)] if own is not None else []
    goals += [Goal(accuracy) for accuracy in wanted if accuracy != own]
    if not goals:
        return ()
    ended = complete_rounds.with_diverged(record, matched)
    targets = [_target(record, ended, baseline, goal) for goal in goals]
    return tuple(target for target in targets if target.arms or target.accuracy in wanted)


def _target(
    record: SweepRecord, ended: CompleteRounds, baseline: Baseline | None, goal: Goal
) -> Target:
    arms = [arm for arm in record.arms if arm.measure == "full"]
    own = [trial for trial in record.trials if trial.status == "complete" or diverged(trial)]
    trials = {arm: ended.all_trials(arm) or [t for t in own if t.arm == arm] for arm in arms}
    every = (trial for ended_ones in trials.values() for trial in ended_ones if not diverged(trial))
    if all(goal.seconds(trial) is None for trial in every):
        return Target(goal.accuracy, (), ())
    rows = [_arm(arm, trials[arm], goal) for arm in arms]
    sides = [
        (arm, base)
        for arm, base in (baseline.pairs(arms) if baseline else ())
        if base in arms and arm.work == base.work
    ]
    comparisons = _compare(record.criteria, ended, sides, goal)
    return Target(goal.accuracy, tuple(row for row in rows if row), comparisons)


def _arm(arm: Arm, trials: Sequence[FinishedTrial], goal: Goal) -> TargetArm | None:
    """Return the expenses of an arm, None without any data; only the time if all diverged."""
    timed = [(t, seconds) for t in trials if (seconds := goal.seconds(t)) is not None]
    time_s = expense_to_target([seconds for _, seconds in timed])
    if time_s is None:
        return None
    energy_j, cost_usd = (
        expense_to_target([_share(trial, metric, seconds) for trial, seconds in timed])
        for metric in ("energy_j", "train_cost_usd")
    )
    scopes = scopes_of(trial for trial, _ in timed) - {""}
    scope = min(scopes) if len(scopes) == 1 else ""
    broken = sum(diverged(trial) for trial, _ in timed)
    spent = cost_usd if broken < len(timed) else None
    return TargetArm(arm, time_s, energy_j if scope else None, scope, spent, broken)


def _share(trial: FinishedTrial, metric: str, seconds: float) -> float | None:
    """Return the share of an energy or a cost that these seconds of the timed epochs have."""
    whole, train_s = trial.metrics.get(metric), trial.metrics.get("train_s")
    if seconds == math.inf:
        return seconds
    if whole is None or not train_s or not math.isfinite(whole):
        return None
    return whole * min(1.0, seconds / train_s)


def expense_to_target(values: Sequence[float | None]) -> ExpenseToTarget | None:
    """Return the quartiles of expenses, which are infinite for trials that missed the target.

    None if one is missing, because the others would be a selection.
    """
    numbers = sorted(value for value in values if value is not None)
    if not numbers or len(numbers) < len(values):
        return None
    quartiles = (_quantile(numbers, q) for q in (0.25, 0.5, 0.75))
    return ExpenseToTarget(len(numbers), sum(map(math.isfinite, numbers)), *quartiles)


def _quantile(values: Sequence[float], share: float) -> float | None:
    """Return a quantile of sorted values as `estimates.spread` does; None if it is infinite."""
    place = share * (len(values) - 1)
    low, high = values[math.floor(place)], values[math.ceil(place)]
    return low + (high - low) * (place % 1) if math.isfinite(high) else None


def _compare(
    criteria: ReportCriteria, ended: CompleteRounds, sides: Sequence[tuple[Arm, Arm]], goal: Goal
) -> tuple[TargetComparison, ...]:
    """Compare the times of these pairs of arms, as one family."""

    def time_of(trial: FinishedTrial) -> float | None:
        seconds = goal.seconds(trial)
        return seconds if seconds is not None and 0 < seconds < math.inf else None

    counts, paired = [], []
    for pair in sides:
        rounds = [ended.trials.get(side, {}) for side in pair]
        ours, theirs = (_blocks_reached(own, goal) for own in rounds)
        reached = Counter((ours[block], theirs[block]) for block in ours.keys() & theirs.keys())
        both = {block for block in ours.keys() & theirs.keys() if ours[block] and theirs[block]}
        values = (
            pairs.round_values({r: own[r] for r in own if r[0] in both}, time_of, pairs.geometric)
            for own in rounds
        )
        counts.append(reached)
        paired.append(pairs.pair_times(ended, pair, (next(values), next(values))))
    confidence = estimates.confidence_for(criteria.auto_blocks)
    log_ratios, biases = [times.log_ratios for times in paired], [times.bias for times in paired]
    judged = judge(log_ratios, math.log1p(criteria.margins.speed), 1 - confidence, biases)
    comparisons = []
    for (arm, base), times, reached, judgement in zip(sides, paired, counts, judged, strict=True):
        only_arm, only_baseline = reached[True, False], reached[False, True]
        verdict, reason = _verdict(judgement.finding, times, only_arm, only_baseline)
        comparisons.append(
            TargetComparison(
                arm,
                base,
                pairs=times.pairs,
                ratio=times.ratio(confidence),
                corrected=estimates.exponential(judgement.corrected),
                confidence=judgement.confidence,
                p_value=judgement.p_value,
                verdict=verdict,
                reason=reason,
                margin=criteria.margins.speed,
                both=reached[True, True],
                only_arm=only_arm,
                only_baseline=only_baseline,
                neither=reached[False, False],
                quiet_only=times.selection.quiet_only,
                disturbed_blocks=tuple(sorted(times.selection.disturbed)),
                provisional=judgement.provisional and verdict != "inconclusive",
            )
        )
    return tuple(comparisons)


def _blocks_reached(rounds: Mapping[Round, Sequence[FinishedTrial]], goal: Goal) -> dict[int, bool]:
    """Return, for each block with recorded times, true if all its repeats reached the goal."""
    is_reached: dict[int, bool] = {}
    for (block, _), trials in rounds.items():
        for trial in trials:
            if (seconds := goal.seconds(trial)) is not None:
                is_reached[block] = is_reached.get(block, True) and math.isfinite(seconds)
    return is_reached


def _verdict(
    finding: Finding, times: PairedTimes, only_arm: int, only_baseline: int
) -> tuple[TargetVerdict, str | None]:
    """Return the verdict of the blocks that both reach, unless the others revoke it; its reason."""
    log_ratios = times.log_ratios
    if len(log_ratios) < estimates.MIN_BLOCKS:
        return "inconclusive", f"at least {estimates.MIN_BLOCKS} are needed"
    if finding == "inconclusive":
        return "inconclusive", inconclusive_reason(times.bias)
    sign = 1 if finding == "more" else -1
    is_lopsided = estimates.sign_test(only_arm, only_baseline) <= _ERROR
    first = only_arm + sum(ratio > 0 for ratio in log_ratios)
    second = only_baseline + sum(ratio < 0 for ratio in log_ratios)
    leads = sign * (first - second) > 0 and estimates.sign_test(first, second) <= _ERROR
    is_behind = finding != "same" and sign * (only_arm - only_baseline) < 0
    if (is_lopsided and finding == "same") or (is_behind and (is_lopsided or not leads)):
        return "inconclusive", "the blocks that only one of them reaches contradict it"
    return _VERDICTS[finding], None
