"""The resuming of a sweep: its identity, its finished trials, and the trials to run again.

The journal on the driver's machine is written first and read first. The tracking store has whole
outcomes too, so that either is rebuilt from the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.errors import Refusal
from orchestrator.core.rounds import reinstate, trials_to_rerun, trials_to_retime
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
    read,
    rebuild,
    replay,
)
from orchestrator.storage.tracking.manifest import StoredSweep
from workloads import registry


class Incomparable(Refusal):
    """A spec of another sweep than the one that has this name."""


class TwoConfigs(Refusal):
    """A block whose trials have different configs, and so cannot be compared."""

    def __init__(self, block: int, config: Config, other: Config) -> None:
        super().__init__(
            f"block {block}: expected one config for all of its trials, received "
            f"{canonical(config)} and {canonical(other)}, run from two homes with separate "
            "journals. Start a new generation with --fresh; these trials are kept"
        )


def generation(folder: SweepFolder, latest_stored: int, *, fresh: bool) -> int:
    """Return the generation to resume: the latest one here or in the store, or a new one."""
    latest = max(folder.latest(), latest_stored)
    return latest + 1 if fresh else max(latest, 1)


def identify(spec: SweepSpec, number: int) -> SweepIdentity:
    """Return the identity of generation `number` of a spec's sweep; reads the data's digest."""
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
    journal: Journal, stored: StoredSweep | None, identity: SweepIdentity, spec: SweepSpec
) -> list[Record]:
    """Open the sweep in the journal, unless it is there; `merge_stored` adds the store's trials.

    Returns:
        The records that the journal now has.

    Raises:
        Incomparable: the existing trials are those of another spec.
    """
    state = replay(journal.records)
    if state is not None:
        _expect_same(state.identity, identity)
        return list(journal.records)
    if stored is not None and stored.identity.generation == identity.generation:
        _expect_same(stored.identity, identity)
    opened = SweepOpened(identity, spec.model_dump(mode="json"))
    journal.append(opened)
    return [opened]


def merge_stored(
    journal: Journal, records: list[Record], stored: Iterable[FinishedTrial]
) -> SweepState:
    """Add the trials to the journal that only the store has: those that ended under another home.

    Of two outcomes of one trial the later one counts. A block without outcomes in this journal
    takes the store's config: it was suggested under another home too, and run there.

    Raises:
        TwoConfigs: trials of one block were run with different configs.
    """
    state = replay(records)
    assert state is not None  # take_over has written the first record
    stored = list(stored)
    _expect_one_config([*state.finished.values(), *stored])
    newer = [trial for trial in stored if _is_later(trial, state.finished.get(trial.key))]
    for record in rebuild(state.identity, state.spec, newer)[1:]:
        if isinstance(record, BlockSuggested):
            block = state.blocks.get(record.block)
            if block is not None and block.config == record.config:
                continue
        journal.append(record)
        records.append(record)
    return settle_rounds(journal, records)


def settle_rounds(journal: Journal, records: list[Record]) -> SweepState:
    """Record the outcomes that count again because the re-run of their round failed.

    A driver that was killed at that moment has not recorded them. A round with a trial that still
    has to run again is left as it is.
    """
    state = replay(records)
    assert state is not None  # take_over has written the first record
    rounds: dict[tuple[int, int, str], list[FinishedTrial]] = defaultdict(list)
    for trial in state.earlier_complete.values():
        rounds[_round(trial)].append(trial)
    now = {key: trial.outcome for key, trial in state.finished.items()}
    for round_key, before in rounds.items():
        latest = max(now[trial.key].rerun for trial in before)
        members = [trial for trial in _on_first_nodes(state) if _round(trial) == round_key]
        if any(trial.outcome.rerun < latest for trial in members):
            continue
        if standing := reinstate(before, now):
            record = RoundFinished(list(standing))
            journal.append(record)
            records.append(record)
    return replay(records) or state


def kept_outcomes(state: SweepState, reruns: Container[str]) -> dict[str, FinishedTrial]:
    """Return the complete outcomes, by key, that count again if the re-run of their round fails.

    Args:
        state: the state of the sweep.
        reruns: the keys of the trials to run again.
    """
    rerun = {key: trial for key, trial in state.finished.items() if key in reruns}
    rounds = {_round(trial) for trial in rerun.values()}
    earlier = {
        key: trial for key, trial in state.earlier_complete.items() if _round(trial) in rounds
    }
    return {key: trial for key, trial in {**earlier, **rerun}.items() if trial.status == "complete"}


def unrecorded_trials(state: SweepState, stored: Iterable[FinishedTrial]) -> list[FinishedTrial]:
    """Return the trials whose latest outcome the store lacks.

    A trial that failed and was complete before is left out until its round is settled.
    """
    in_store = {trial.key: trial for trial in stored}
    return [
        trial
        for key, trial in state.finished.items()
        if _is_later(trial, in_store.get(key))
        and (trial.status == "complete" or key not in state.earlier_complete)
    ]


def suggested_blocks(records: Iterable[Record]) -> list[Block]:
    """Return the blocks of a journal, each with its latest config."""
    configs = {
        record.block: record.config for record in records if isinstance(record, BlockSuggested)
    }
    return [Block(index, config) for index, config in configs.items()]


def events(
    state: SweepState, *, retry_failed: bool, reruns: Container[str] = ()
) -> Iterator[Block | FinishedTrial]:
    """Yield the suggested blocks and the finished trials in order.

    Failed trials are left out on request, and so are those to run again (`reruns`, by key).
    """
    for record in state.order:
        if not isinstance(record, TrialFinished):
            yield state.blocks[record.block]
            continue
        finished = record.finished
        is_retried = retry_failed and finished.outcome.status == "failed"
        if not is_retried and finished.key not in reruns:
            yield finished


def planned_reruns(
    state: SweepState, plan: Plan, limits: DisturbanceLimits, *, retry_failed: bool
) -> dict[str, int]:
    """Return the trials to run again with their rounds, by key, and the number of that re-run.

    They are the trials of disturbed rounds, and those that were timed in slices without the rest
    of their round. The rest is missing where the plan had fewer arms before, or where the store
    has only a part of a lost journal.
    """
    resumed = plan.resumed_from([*state.blocks.values(), *state.finished.values()])
    planned = (
        trial
        for block in state.blocks.values()
        if resumed.has_block(block.index)
        for trial in _trials(state.identity, plan, block)
    )
    incomplete = trials_to_retime(planned, state.finished, retry_failed=retry_failed)
    return {**incomplete, **trials_to_rerun(_on_first_nodes(state), limits)}


def count_finished(
    identity: SweepIdentity, plan: Plan, events: Iterable[Block | FinishedTrial]
) -> int:
    """Count the trials of the plan that have an outcome."""
    blocks: list[Block] = []
    finished: set[str] = set()
    for event in events:
        if isinstance(event, FinishedTrial):
            finished.add(event.key)
        elif plan.has_block(event.index):
            blocks.append(event)
    return sum(
        trial.key in finished for block in blocks for trial in _trials(identity, plan, block)
    )


def _trials(identity: SweepIdentity, plan: Plan, block: Block) -> Iterator[Trial]:
    return (
        make_trial(identity, block, arm, repeat)
        for arm in plan.arms
        for repeat in range(plan.repeats)
    )


def expect_comparable(folder: SweepFolder, spec: SweepSpec) -> None:
    """Refuse a spec that cannot extend the latest generation in a folder; write nothing.

    Raises:
        Incomparable: the existing trials are those of another spec.
    """
    state = replay(read(folder.generation(folder.latest())))
    if state is not None:
        _expect_same(state.identity, identify(spec, state.identity.generation))


def _expect_same(before: SweepIdentity, now: SweepIdentity) -> None:
    changes = before.differences(now)
    if changes:
        raise Incomparable(
            f"sweep {now.name!r}: expected the workload, settings, sampler, space, objectives, "
            "seed and data that its trials have, received\n"
            + "\n".join(f"  {change}" for change in changes)
            + "\nTrials before and after would not be comparable: give the sweep another name, "
            "or start a new generation with --fresh. (More configs, arms or repeats extend it.)"
        )


def _expect_one_config(finished: Iterable[FinishedTrial]) -> None:
    configs: dict[int, Config] = {}
    for trial in finished:
        config = configs.setdefault(trial.block, trial.config)
        if config != trial.config:
            raise TwoConfigs(trial.block, config, trial.config)


def _is_later(trial: FinishedTrial, other: FinishedTrial | None) -> bool:
    return other is None or trial.outcome.revision > other.outcome.revision


def _on_first_nodes(state: SweepState) -> list[FinishedTrial]:
    """Return the finished trials; one that failed in a re-run has the node that it was on before.

    The outcome of a lost worker has no node, although the other trials of its round still have to
    run again with it.
    """
    return [
        replace(trial, outcome=replace(trial.outcome, node=state.earlier_complete[key].node))
        if key in state.earlier_complete and trial.status != "complete"
        else trial
        for key, trial in state.finished.items()
    ]


def _round(finished: FinishedTrial) -> tuple[int, int, str]:
    trial = finished.trial
    return trial.block, trial.repeat, finished.outcome.node
