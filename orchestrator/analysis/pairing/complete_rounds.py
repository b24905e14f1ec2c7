"""The rounds and blocks that may be compared: those that are complete on every arm.

`docs/trust.md` has the rules for failed, diverged and disturbed rounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from orchestrator.core.arms import Arm, HardwareRef
from orchestrator.core.disturbance import Disturbance
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import (
    Config,
    ConfigValue,
    FinishedTrial,
    is_number,
    pruned_blocks,
    value_text,
)

Round = tuple[int, int]
"""Block and repeat."""

_REASONS = ("complete", "failed", "wrong_kernel", "pruned")

Observations = Mapping[tuple[HardwareRef, str, Round], Disturbance]
"""What disturbed a round on one class of hardware of a node; empty for a quiet one."""


def typical_disturbance(disturbances: Iterable[Disturbance]) -> Disturbance:
    """Return the median figure of each cause, over the disturbances that have it."""
    figures: dict[str, list[float]] = defaultdict(list)
    for disturbance in disturbances:
        for cause, figure in disturbance.items():
            figures[cause].append(figure)
    return {cause: median(values) for cause, values in figures.items()}


def observe_rounds(trials: Iterable[FinishedTrial]) -> Observations:
    """Return what disturbed each round, by its trials of which that is known.

    One disturbed trial makes a round disturbed. Trials that were too short to observe other
    processes count as their round does (see `disturbance_of`).
    """
    observed: dict[tuple[HardwareRef, str, Round], list[Disturbance]] = defaultdict(list)
    for trial in trials:
        if trial.disturbance or "others_cpu_pct" in trial.metrics:
            observed[_place_of(trial)].append(trial.disturbance)
    return {
        round_key: typical_disturbance(disturbance for disturbance in of_round if disturbance)
        for round_key, of_round in observed.items()
    }


def disturbance_of(trial: FinishedTrial, observations: Observations) -> Disturbance:
    """Return what disturbed a trial; nothing for a quiet one, and where nothing is known."""
    was_too_short = trial.telemetry.was_recorded and "others_cpu_pct" not in trial.metrics
    if trial.disturbance or not was_too_short:
        return trial.disturbance
    return observations.get(_place_of(trial), {})


def _place_of(trial: FinishedTrial) -> tuple[HardwareRef, str, Round]:
    return trial.arm.hardware_class, trial.node, (trial.block, trial.repeat)


@dataclass(frozen=True, slots=True)
class BlockGap:
    """An excluded block, with the arms for which it is incomplete and the reasons."""

    block: int
    missing: tuple[tuple[Arm, str], ...]


@dataclass(frozen=True, slots=True)
class CompleteRounds:
    """The complete rounds of a sweep.

    `trials` are the trials of these rounds, by arm and round. `absent` are planned arms
    without a complete trial, `former` arms of earlier starts, and `gaps` the excluded blocks.
    `observations` are what is known of other processes in each round.
    """

    blocks: tuple[int, ...]
    rounds: frozenset[Round]
    absent: tuple[Arm, ...]
    gaps: tuple[BlockGap, ...]
    trials: Mapping[Arm, Mapping[Round, Sequence[FinishedTrial]]]
    former: tuple[Arm, ...] = ()
    observations: Observations = field(default_factory=dict)

    def comparable_trials(self, arm: Arm) -> list[FinishedTrial]:
        """Return an arm's trials of all complete rounds; none if it lacks some of these.

        Figures over fewer rounds would be of other configs than the other arms' figures.
        """
        is_whole = len(self.trials.get(arm, {})) == len(self.rounds)
        return self.all_trials(arm) if is_whole else []

    def all_trials(self, arm: Arm) -> list[FinishedTrial]:
        """Return an arm's trials of the complete rounds that it has."""
        return [trial for trials in self.trials.get(arm, {}).values() for trial in trials]

    def not_interleaved(self, arms: Sequence[Arm]) -> frozenset[Round]:
        """Return the rounds in which some of these arms should have taken turns and did not.

        Arms on one hardware class and node that are only timed must have: what is compared are
        short turns in one state of the machine.
        """
        ids: dict[tuple[HardwareRef, str, Round], set[str]] = defaultdict(set)
        for arm in arms:
            if arm.measure != "timing":
                continue
            for round_key, trials in self.trials.get(arm, {}).items():
                if trials and (round_id := trials[-1].round_id):
                    ids[arm.hardware_class, trials[-1].node, round_key].add(round_id)
        return frozenset(
            round_key for (*_, round_key), distinct in ids.items() if len(distinct) > 1
        )


@dataclass(frozen=True, slots=True)
class ParamRange:
    """The tried values of one param: the ends of its range if it is a number, else all values."""

    name: str
    low: float | None
    high: float | None
    values: tuple[str, ...]
    blocks: int


def match(
    record: SweepRecord,
    counts: Callable[[FinishedTrial], bool] = lambda trial: trial.status == "complete",
) -> CompleteRounds:
    """Find the rounds and blocks that are complete on every arm with a complete trial.

    If the last start ran only some of these arms, the rounds must be complete on those. Rounds with
    several configs (of two drivers) are excluded, as are blocks whose rounds differ. `counts`
    decides which trials are complete.
    """
    complete: dict[Arm, dict[Round, list[FinishedTrial]]] = {arm: {} for arm in record.arms}
    configs: dict[Round, list[Config]] = defaultdict(list)
    for trial in record.trials:
        rounds = complete.get(trial.arm) if counts(trial) else None
        if rounds is not None:
            round_key = trial.block, trial.repeat
            rounds.setdefault(round_key, []).append(trial)
            if trial.config not in configs[round_key]:
                configs[round_key].append(trial.config)
    able = {arm: rounds for arm, rounds in complete.items() if rounds}
    former = [arm for arm in record.former if arm in able]
    needed = [arm for arm in able if arm not in former] or former
    whole = set.intersection(*(set(able[arm]) for arm in needed)) if needed else set()
    mixed = _mixed({round_key: configs[round_key] for round_key in whole})
    shared = frozenset(whole - mixed)
    blocks = tuple(sorted({block for block, _ in shared}))
    order = sorted(shared)
    return CompleteRounds(
        blocks=blocks,
        rounds=shared,
        absent=tuple(arm for arm, rounds in complete.items() if not rounds),
        gaps=_gaps(record, needed, set(blocks), {block for block, _ in mixed}),
        trials={
            arm: {r: by_round[r] for r in order if r in by_round} for arm, by_round in able.items()
        },
        former=tuple(former),
        observations=observe_rounds(record.trials),
    )


def _mixed(configs: Mapping[Round, Sequence[Config]]) -> set[Round]:
    """Return the rounds with more than one config, and all rounds of a block if they differ."""
    mixed = {round_key for round_key, distinct in configs.items() if len(distinct) > 1}
    of_block: dict[int, list[Config]] = defaultdict(list)
    for round_key in configs.keys() - mixed:
        (config,) = configs[round_key]
        if config not in of_block[round_key[0]]:
            of_block[round_key[0]].append(config)
    return mixed | {round_key for round_key in configs if len(of_block[round_key[0]]) > 1}


def _gaps(
    record: SweepRecord, arms: Sequence[Arm], complete: set[int], mixed: set[int]
) -> tuple[BlockGap, ...]:
    blocks = set(range(record.blocks)) | {trial.block for trial in record.trials}
    pruned, statuses = pruned_blocks(record.trials), defaultdict[tuple[int, Arm], set[str]](set)
    for trial in record.trials:
        statuses[trial.block, trial.arm].add(trial.status)
    gaps = []
    for block in sorted(blocks - complete):
        never_run = "not planned" if block in record.left_blocks else "missing"
        absent = "pruned" if block in pruned else never_run
        reasons = (
            (arm, next((s for s in _REASONS if s in statuses[block, arm]), absent)) for arm in arms
        )
        lacking = tuple((arm, reason) for arm, reason in reasons if reason != "complete")
        common = "another config" if block in mixed else "no shared round"
        for_all = tuple((arm, common) for arm in arms)
        gaps.append(BlockGap(block, for_all if block in mixed or not lacking else lacking))
    return tuple(gaps)


def ranges(configs: Sequence[Config]) -> tuple[ParamRange, ...]:
    """Return the range of every param over the configs, sorted by name."""
    names = sorted({name for config in configs for name in config})
    return tuple(_range(name, [c[name] for c in configs if name in c]) for name in names)


def _range(name: str, values: Sequence[ConfigValue]) -> ParamRange:
    numbers = [v for v in values if is_number(v)]
    if len(numbers) == len(values):
        return ParamRange(name, min(numbers), max(numbers), (), len(values))
    return ParamRange(name, None, None, tuple(sorted(set(map(value_text, values)))), len(values))


def diverged(trial: FinishedTrial) -> bool:
    """Check that the training ended in numbers that are not finite."""
    return trial.failure is not None and trial.failure.reason == "non_finite"


def ended_rounds(record: SweepRecord) -> tuple[Mapping[Arm, set[Round]], Mapping[Arm, set[Round]]]:
    """Return the rounds that each arm completed, and those in which it only diverged."""
    complete: dict[Arm, set[Round]] = defaultdict(set)
    broken: dict[Arm, set[Round]] = defaultdict(set)
    for trial in record.trials:
        if trial.status == "complete":
            complete[trial.arm].add((trial.block, trial.repeat))
        elif diverged(trial):
            broken[trial.arm].add((trial.block, trial.repeat))
    return complete, {arm: rounds - complete[arm] for arm, rounds in broken.items()}
