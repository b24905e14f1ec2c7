"""What earlier starts left: which sweep this is, whether it still is the same, what is done.

The journal beside the driver is written first and read first; the tracking store carries whole
outcomes, so that either is rebuilt from the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.errors import Refusal
from orchestrator.core.rounds import edition, reinstate, rerun_of, trials_to_rerun, trials_to_retime
from orchestrator.core.trial import (
    Block,
    Config,
    FinishedTrial,
    SweepIdentity,
    Trial,
    canonical,
    make_trial,
)
from orchestrator.planning.plan import Plan
from orchestrator.spec import SweepSpec
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import (
    BlockSuggested,
    Journal,
    Record,
    RoundFinished,
    SweepOpened,
    SweepState,
    TrialFinished,
    rebuild,
    replay,
)
from orchestrator.storage.tracking.manifest import FoundSweep
from workloads import registry


class Incomparable(Refusal):
    """The spec is another sweep than the one that has this name."""


class TwoConfigs(Refusal):
    """Trials of one block have different configs: they are no block, and compare with nothing."""

    def __init__(self, block: int, one: Config, other: Config) -> None:
        super().__init__(
            f"block {block}: expected one config for all of its trials, received "
            f"{canonical(one)} and {canonical(other)}, run from two homes that did not know of "
            "each other. Start anew beside these trials with --fresh"
        )


def generation(folder: SweepFolder, latest_stored: int, *, fresh: bool) -> int:
    """Return the generation to resume: the latest one here or in the store, or a new one."""
    latest = max(folder.latest(), latest_stored)
    return latest + 1 if fresh else max(latest, 1)


def identify(spec: SweepSpec, number: int) -> SweepIdentity:
    """The identity of generation `number` of a spec's sweep; reads the data's digest."""
    settings = spec.written_settings()
    return SweepIdentity(
        name=spec.name,
        generation=number,
        workload=spec.workload,
        settings=settings,
        search=spec.comparable_search(),
        seed=spec.seed,
        data_digest=registry.find_workload(spec.workload).data_digest(settings),
    )


def take_over(
    journal: Journal, found: FoundSweep | None, identity: SweepIdentity, spec: SweepSpec
) -> list[Record]:
    """Make the journal one of this sweep: as it is, or new. `agree` adds what the store has.

    Returns:
        The records that the journal now has.

    Raises:
        Incomparable: the trials that are there are those of another spec.
    """
    state = replay(journal.records)
    if state is not None:
        _expect_same(state.identity, identity)
        return list(journal.records)
    if found is not None and found.identity.generation == identity.generation:
        _expect_same(found.identity, identity)
    opened = SweepOpened(identity, spec.model_dump(mode="json"))
    journal.append(opened)
    return [opened]


def agree(journal: Journal, records: list[Record], stored: Iterable[FinishedTrial]) -> SweepState:
    """Add to the journal what the store has and it has not: trials that ended under another home.

    Of two outcomes of one trial the later counts. A block none of whose trials has an outcome
    here is the store's: it was suggested under another home too, and run there.

    Raises:
        TwoConfigs: trials of one block were run with different configs.
    """
    state = replay(records)
    assert state is not None  # take_over saw to a first record
    stored = list(stored)
    _expect_one_config([*state.finished.values(), *stored])
    newer = [each for each in stored if _is_later(each, state.finished.get(each.trial.key))]
    for record in rebuild(state.identity, state.spec, newer)[1:]:
        if isinstance(record, BlockSuggested):
            known = state.blocks.get(record.block)
            if known is not None and known.config == record.config:
                continue
        journal.append(record)
        records.append(record)
    return settle(journal, records)


def settle(journal: Journal, records: list[Record]) -> SweepState:
    """Have the journal say what stands of rounds that failed when they were done again.

    A driver that was killed just then had no time to. A round of which some trial is still to be
    done again is left as it is.
    """
    state = replay(records)
    assert state is not None  # take_over saw to a first record
    rounds: dict[tuple[int, int, str], list[FinishedTrial]] = defaultdict(list)
    for each in state.before.values():
        rounds[_round(each)].append(each)
    now = {key: each.outcome for key, each in state.finished.items()}
    for place, before in rounds.items():
        latest = max(rerun_of(now[each.trial.key]) for each in before)
        of_round = [each for each in _placed(state) if _round(each) == place]
        if any(rerun_of(each.outcome) < latest for each in of_round):
            continue
        if standing := reinstate(before, now):
            record = RoundFinished(list(standing))
            journal.append(record)
            records.append(record)
    return replay(records) or state


def kept(state: SweepState, again: Container[str]) -> dict[str, FinishedTrial]:
    """The complete outcomes, by key, that are to stand should doing their rounds again fail.

    Args:
        state: what is known.
        again: the keys of the trials that are to be done again.
    """
    due = {key: each for key, each in state.finished.items() if key in again}
    places = {_round(each) for each in due.values()}
    done = {key: each for key, each in state.before.items() if _round(each) in places}
    return {key: each for key, each in {**done, **due}.items() if each.outcome.status == "complete"}


def unrecorded(state: SweepState, stored: Iterable[FinishedTrial]) -> list[FinishedTrial]:
    """Trials whose outcome the store lacks, or has of an earlier try only.

    One that failed and was complete before is not the store's yet: its round is not settled.
    """
    there = {each.trial.key: each for each in stored}
    return [
        each
        for key, each in state.finished.items()
        if _is_later(each, there.get(key))
        and (each.outcome.status == "complete" or key not in state.before)
    ]


def suggested(records: Iterable[Record]) -> list[Block]:
    """The blocks that a journal has, each with its latest config."""
    configs = {each.block: each.config for each in records if isinstance(each, BlockSuggested)}
    return [Block(index, config) for index, config in configs.items()]


def past(
    state: SweepState, *, retry_failed: bool, again: Container[str] = ()
) -> Iterator[Block | FinishedTrial]:
    """What was suggested and what finished, in order.

    Failed trials are left out on request, and so are those that are to be done `again` (by key).
    """
    for record in state.order:
        if not isinstance(record, TrialFinished):
            yield state.blocks[record.block]
            continue
        finished = record.finished
        is_retried = retry_failed and finished.outcome.status == "failed"
        if not is_retried and finished.trial.key not in again:
            yield finished


def again(
    state: SweepState, plan: Plan, limits: DisturbanceLimits, *, retry_failed: bool
) -> dict[str, int]:
    """The trials that are to be done again with their rounds, by key, and which rerun that is.

    Those of disturbed rounds, and those that were timed in slices without the rest of their round:
    before the plan had some arm, or where the store kept only a part of what a lost journal had.
    """
    held = plan.resumed_from([*state.blocks.values(), *state.finished.values()])
    planned = (
        trial
        for block in state.blocks.values()
        if held.has_block(block.index)
        for trial in _trials(state.identity, plan, block)
    )
    apart = trials_to_retime(planned, state.finished, retry_failed=retry_failed)
    return {**apart, **trials_to_rerun(_placed(state), limits)}


def count_done(identity: SweepIdentity, plan: Plan, events: Iterable[Block | FinishedTrial]) -> int:
    """How many trials of the plan have an outcome."""
    blocks: list[Block] = []
    finished: set[str] = set()
    for each in events:
        if isinstance(each, FinishedTrial):
            finished.add(each.trial.key)
        elif plan.has_block(each.index):
            blocks.append(each)
    return sum(
        trial.key in finished for block in blocks for trial in _trials(identity, plan, block)
    )


def _trials(identity: SweepIdentity, plan: Plan, block: Block) -> Iterator[Trial]:
    return (
        make_trial(identity, block, arm, repeat)
        for arm in plan.arms
        for repeat in range(plan.repeats)
    )


def _expect_same(before: SweepIdentity, now: SweepIdentity) -> None:
    changes = before.differences(now)
    if changes:
        raise Incomparable(
            f"sweep {now.name!r}: expected the workload, settings, sampler, space, objectives, "
            "seed and data that its trials have, received\n"
            + "\n".join(f"  {change}" for change in changes)
            + "\nTrials before and after would not be comparable: give the sweep another name, "
            "or start anew beside it with --fresh. (More configs, arms or repeats extend it.)"
        )


def _expect_one_config(finished: Iterable[FinishedTrial]) -> None:
    configs: dict[int, Config] = {}
    for each in finished:
        known = configs.setdefault(each.trial.block, each.trial.config)
        if known != each.trial.config:
            raise TwoConfigs(each.trial.block, known, each.trial.config)


def _is_later(one: FinishedTrial, other: FinishedTrial | None) -> bool:
    return other is None or edition(one.outcome) > edition(other.outcome)


def _placed(state: SweepState) -> list[FinishedTrial]:
    """What finished, each of its round: one that failed in a rerun is of the node it was on before.

    The outcome of a lost worker knows no node, and the others of its round still are due.
    """
    return [
        replace(each, outcome=replace(each.outcome, node=state.before[key].outcome.node))
        if key in state.before and each.outcome.status != "complete"
        else each
        for key, each in state.finished.items()
    ]


def _round(finished: FinishedTrial) -> tuple[int, int, str]:
    trial = finished.trial
    return trial.block, trial.repeat, finished.outcome.node
