"""Two sweeps as one record: a block for each config, and an arm for each arm of either side."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, match, observe_rounds
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config, FinishedTrial, canonical
from orchestrator.report.compare.sides import Side
from orchestrator.report.names import grouped


@dataclass(frozen=True, slots=True)
class ArmPair:
    """An arm of both sides: as each sweep has it, and as the joint record has it.

    In the joint record the arms differ by the id and the name of their hardware.
    """

    before: Arm
    after: Arm
    early: Arm
    late: Arm


def pair_arms(before: Side, after: Side) -> tuple[ArmPair, ...]:
    """Pair equal arms; others by their name, if one arm of either side has it on other hardware."""
    gone, new = (
        grouped(((arm.short_name, arm.variant, arm.device, str(arm.usage)), arm) for arm in arms)
        for arms in (
            [arm for arm in before.arms if arm not in after.arms],
            [arm for arm in after.arms if arm not in before.arms],
        )
    )
    moved = {
        arms[0]: new[key][0]
        for key, arms in gone.items()
        if len(arms) == len(new.get(key, ())) == 1
    }
    pairs = ((arm, moved.get(arm, arm)) for arm in before.arms if arm in after.arms or arm in moved)
    return tuple(
        ArmPair(arm, now, _labelled(arm, before), _labelled(now, after)) for arm, now in pairs
    )


def _labelled(arm: Arm, side: Side) -> Arm:
    ref = arm.hardware_class
    of_side = replace(ref, id=f"{ref.id} {side.record.run_id}", name=f"{ref.name} in {side.label}")
    return replace(arm, hardware=replace(arm.hardware, hardware_class=of_side))


def join_sides(before: Side, after: Side, pairs: Sequence[ArmPair]) -> SweepRecord:
    """Return the trials of the paired arms of both sweeps as one record, with a block per config.

    Configs include the settings that the other side searches. Repeats of the only config that both
    sides completed stay apart; otherwise the repeats of a config are one round.
    """
    trials: list[FinishedTrial] = []
    blocks: dict[str, int] = {}
    searched = {n for side in (before, after) for t in side.record.trials for n in t.config}
    arms_of = (
        (before, {pair.before: pair.early for pair in pairs}),
        (after, {pair.after: pair.late for pair in pairs}),
    )
    for side, labelled in arms_of:
        fixed = {n: value for n, value in side.record.settings.items() if n in searched}
        for trial in side.record.trials:
            if trial.arm not in labelled:
                continue
            config: Config = dict(sorted({**fixed, **trial.config}.items()))
            block = blocks.setdefault(canonical(config), len(blocks))
            moved = replace(trial.trial, arm=labelled[trial.arm], block=block, config=config)
            trials.append(FinishedTrial(moved, trial.outcome, trial.run_id))
    completed = [
        {trial.block for trial in trials if trial.status == "complete" and trial.arm in arms}
        for arms in ({pair.early for pair in pairs}, {pair.late for pair in pairs})
    ]
    if len(completed[0] & completed[1]) != 1:
        trials = _in_one_round(trials)
    datasets = (*before.record.datasets, *after.record.datasets)
    return replace(after.record, trials=tuple(trials), current=(), datasets=datasets)


def _in_one_round(trials: Sequence[FinishedTrial]) -> list[FinishedTrial]:
    """Return the repeats of each config as one round: the quiet ones, if there are any."""
    quiet = {(t.arm, t.block) for t in trials if t.status == "complete" and not t.disturbance}
    return [
        replace(t, trial=replace(t.trial, repeat=0))
        for t in trials
        if not t.disturbance or (t.arm, t.block) not in quiet
    ]


def match_pairs(joint: SweepRecord, pairs: Sequence[ArmPair]) -> tuple[CompleteRounds, ...]:
    """Return the complete rounds of each pair by itself: a failure of one arm concerns no other."""
    complete = [trial for trial in joint.trials if trial.status == "complete"]
    by_arm = grouped((trial.arm, trial) for trial in complete)
    observations = observe_rounds(complete)
    matched = []
    for pair in pairs:
        arms = (pair.early, pair.late)
        trials = tuple(trial for arm in arms for trial in by_arm.get(arm, ()))
        of_pair = match(replace(joint, arms=arms, blocks=0, trials=trials))
        matched.append(replace(of_pair, observations=observations))
    return tuple(matched)


def all_rounds(matched: Sequence[CompleteRounds]) -> CompleteRounds:
    """Return the complete rounds of all pairs together."""
    return CompleteRounds(
        blocks=tuple(sorted({block for of_pair in matched for block in of_pair.blocks})),
        rounds=frozenset().union(*(of_pair.rounds for of_pair in matched)),
        absent=tuple(arm for of_pair in matched for arm in of_pair.absent),
        gaps=(),
        trials={arm: trials for of_pair in matched for arm, trials in of_pair.trials.items()},
    )
