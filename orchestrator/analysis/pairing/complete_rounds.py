"""Which trials may be compared: rounds and blocks that are complete on every arm.

A round is one repeat of one block: every arm once, close in time, from the same start. Only
rounds that are complete on every arm enter comparisons, and a block is complete as soon as it has
one such round; a round in which one arm failed is left out for all arms, so that no arm is judged
on the configs, or the starts, that it alone survived. An arm none of whose trials completed can
be compared with nothing: it is set aside and does not hold up the others. Neither does one that an
earlier start ran and the last one does not: it will never have the blocks that came since, and is
compared over those of its rounds that the other arms completed too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.core.arms import HardwareRef
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Arm, Config, FinishedTrial, is_number

Round = tuple[int, int]
"""Block and repeat."""

Disturbance = Mapping[str, float]
"""A figure for each cause."""

Race = tuple[str, str]
"""A node, and the note that trials have in common that took turns on it."""


@dataclass(frozen=True, slots=True)
class BlockGap:
    """A block that is left out, and the arms for which it is not complete: arm and why."""

    block: int
    missing: tuple[tuple[Arm, str], ...]


@dataclass(frozen=True, slots=True)
class Matched:
    """The complete rounds of a sweep.

    `trials` are those of the complete rounds, by arm and round; `set_aside` the planned arms
    without one complete trial; `former` those of earlier starts, which may lack rounds; `gaps` the
    blocks left out; `disturbed` says by what an arm was disturbed in a complete round, for those
    rounds in which it was; `races` on which node, and in which race, an arm that is timed in slices
    took these, where that is known.
    """

    blocks: tuple[int, ...]
    rounds: frozenset[Round]
    set_aside: tuple[Arm, ...]
    gaps: tuple[BlockGap, ...]
    trials: dict[Arm, dict[Round, list[FinishedTrial]]]
    disturbed: Mapping[Arm, Mapping[Round, Disturbance]] = field(default_factory=dict)
    races: Mapping[Arm, Mapping[Round, Race]] = field(default_factory=dict)
    former: tuple[Arm, ...] = ()

    def beside(self, arm: Arm) -> list[FinishedTrial]:
        """An arm's trials of all complete rounds; none of one that lacks some of these.

        What is told of it without a partner would be told of other configs than the others' is.
        """
        rounds = self.trials.get(arm, {})
        whole = len(rounds) == len(self.rounds)
        return [trial for found in rounds.values() for trial in found] if whole else []

    def torn(self, arms: Sequence[Arm]) -> frozenset[Round]:
        """The rounds in which some of these arms should have taken turns, and did not.

        Arms on one hardware class and node are timed in turns: their slices share what the machine
        did. Of those from another race that is not so. Other hardware, and another node, has a race
        of its own.
        """
        races: dict[tuple[HardwareRef, str, Round], set[str]] = defaultdict(set)
        for arm in arms:
            for each, (node, race) in self.races.get(arm, {}).items():
                races[arm.hardware_class, node, each].add(race)
        return frozenset(each for (*_, each), found in races.items() if len(found) > 1)


@dataclass(frozen=True, slots=True)
class ParamRange:
    """What was tried of one param: its ends where it is a number, else its values."""

    name: str
    low: float | None
    high: float | None
    values: tuple[str, ...]
    blocks: int


def _is_complete(trial: FinishedTrial) -> bool:
    return trial.status == "complete"


def match(record: SweepRecord, counts: Callable[[FinishedTrial], bool] = _is_complete) -> Matched:
    """Find the rounds and blocks that are complete on every arm that completes at all.

    Where the last start was to run but some of these, those have to: the rounds of the others are
    those of them that they completed. A round whose trials differ in their config is none (drivers
    that did not know of each other made it), and neither is a block whose rounds do: both are left
    out. `counts` says which trials are complete, where others than those of that status are to
    count as such.
    """
    complete: dict[Arm, dict[Round, list[FinishedTrial]]] = {arm: {} for arm in record.arms}
    configs: dict[Round, list[Config]] = defaultdict(list)
    for trial in record.trials:
        rounds = complete.get(trial.arm) if counts(trial) else None
        if rounds is not None:
            each = trial.block, trial.repeat
            rounds.setdefault(each, []).append(trial)
            if trial.config not in configs[each]:
                configs[each].append(trial.config)
    able = {arm: rounds for arm, rounds in complete.items() if rounds}
    former = [arm for arm in record.former if arm in able]
    needed = [arm for arm in able if arm not in former] or former
    whole = set.intersection(*(set(able[arm]) for arm in needed)) if needed else set()
    mixed = _mixed({each: configs[each] for each in whole})
    shared = frozenset(whole - mixed)
    blocks = tuple(sorted({block for block, _ in shared}))
    order = sorted(shared)
    matched = {arm: {r: own[r] for r in order if r in own} for arm, own in able.items()}
    return Matched(
        blocks=blocks,
        rounds=shared,
        set_aside=tuple(arm for arm, rounds in complete.items() if not rounds),
        gaps=_gaps(record, needed, set(blocks), {block for block, _ in mixed}),
        trials=matched,
        disturbed={arm: _disturbed(rounds) for arm, rounds in matched.items()},
        races={arm: _races(rounds) for arm, rounds in matched.items() if _is_timed(arm)},
        former=tuple(former),
    )


def _disturbed(rounds: Mapping[Round, Sequence[FinishedTrial]]) -> dict[Round, Disturbance]:
    """Return the disturbance of the first disturbed trial of each round that has one."""
    disturbed = {
        round_: [trial.disturbance for trial in trials if trial.disturbance]
        for round_, trials in rounds.items()
    }
    return {round_: found[0] for round_, found in disturbed.items() if found}


def _races(rounds: Mapping[Round, Sequence[FinishedTrial]]) -> dict[Round, Race]:
    """Where, and in which race, an arm's slices were taken, in the rounds of which it is known."""
    last = {r: found[-1] for r, found in rounds.items()}
    return {r: (t.node, t.round_id) for r, t in last.items() if t.round_id}


def _is_timed(arm: Arm) -> bool:
    return arm.measure == "timing"


def _mixed(configs: Mapping[Round, Sequence[Config]]) -> set[Round]:
    """Rounds with more than one config, and the other rounds of a block if they differ too."""
    mixed = {each for each, found in configs.items() if len(found) > 1}
    of_block: dict[int, list[Config]] = defaultdict(list)
    for each in configs.keys() - mixed:
        (config,) = configs[each]
        if config not in of_block[each[0]]:
            of_block[each[0]].append(config)
    return mixed | {each for each in configs if len(of_block[each[0]]) > 1}


def _gaps(
    record: SweepRecord, arms: Sequence[Arm], complete: set[int], mixed: set[int]
) -> tuple[BlockGap, ...]:
    known = set(range(record.blocks)) | {trial.block for trial in record.trials}
    statuses: dict[tuple[int, Arm], Counter[str]] = defaultdict(Counter)
    for trial in record.trials:
        if trial.block not in complete:
            statuses[trial.block, trial.arm][trial.status] += 1
    return tuple(
        BlockGap(
            block,
            tuple((arm, "another config") for arm in arms)
            if block in mixed
            else _why_incomplete([(arm, statuses[block, arm]) for arm in arms]),
        )
        for block in sorted(known - complete)
    )


def _why_incomplete(arms: Sequence[tuple[Arm, Counter[str]]]) -> tuple[tuple[Arm, str], ...]:
    """The arms with no complete trial in the block; all of them where no round is shared."""
    order = ("failed", "wrong_kernel")
    lacking = tuple(
        (arm, next((status for status in order if seen[status]), "missing"))
        for arm, seen in arms
        if not seen["complete"]
    )
    return lacking or tuple((arm, "no shared round") for arm, _ in arms)


def ranges(configs: Sequence[Config]) -> tuple[ParamRange, ...]:
    """The range of every param over the configs, sorted by name."""
    names = sorted({name for config in configs for name in config})
    return tuple(_range(name, [c[name] for c in configs if name in c]) for name in names)


def _range(name: str, values: Sequence[bool | int | float | str]) -> ParamRange:
    numbers = [v for v in values if is_number(v)]
    if len(numbers) == len(values):
        return ParamRange(name, min(numbers), max(numbers), (), len(values))
    return ParamRange(name, None, None, tuple(sorted({str(v) for v in values})), len(values))
