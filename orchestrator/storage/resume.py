"""The resuming of a sweep: its identity, its finished trials, and the trials to run again.

The journal is written and read first; the store has whole outcomes too: each restores the other.
"""

import itertools
import secrets
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator

from orchestrator.core.arms import Arm, HardwareRef
from orchestrator.core.caller import as_typed
from orchestrator.core.errors import Refusal
from orchestrator.core.trial import (
    Block,
    Config,
    FinishedTrial,
    SweepIdentity,
    Trial,
    canonical,
    make_trial,
    pruned_blocks,
)
from orchestrator.core.version import workload_commit
from orchestrator.planning.plan import Plan
from orchestrator.spec import SweepSpec
from orchestrator.storage import journal
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.input_changes import input_changes
from orchestrator.storage.tracking import trackers
from orchestrator.storage.tracking.stored_records import Manifest
from workloads import registry
from workloads.own_code import read_code


class Incomparable(Refusal):
    """The sweep of this name has trials of another spec or other code, or of two configs."""

    __module__ = "rnnsweep"


def _new_generation() -> str:
    return f"run it with {as_typed('--fresh', 'fresh=True')} for a new generation"


def _other_spec(name: str, changes: Iterable[str]) -> Incomparable:
    lines = "".join(f"  {change}\n" for change in changes)
    return Incomparable(
        f"sweep '{name}' has trials with other inputs (before -> now):\n"
        f"{lines}Old and new trials would not be comparable. Give the sweep another name, or"
        f" {_new_generation()}."
        " (More configs, grid values, arms or repeats are fine.)"
    )


def _other_code(name: str, files: Iterable[str]) -> Incomparable:
    lines = "".join(f"  {file}\n" for file in files)
    same_code = as_typed("--same-code", "same_code=True")
    both = as_typed("--same-code --retry-failed", "same_code=True, retry_failed=True")
    fresh = _new_generation()
    return Incomparable(
        f"sweep '{name}': the code of its workload has changed since its trials ran\n{lines}"
        f"{fresh[:1].upper()}{fresh[1:]}. If the change does not matter, use {same_code}; after a"
        f" fix, {both}"
    )


def _other_variant(name: str, variant: str, before: str, now: str) -> Incomparable:
    return Incomparable(
        f"sweep '{name}': variant '{variant}' had other settings in earlier trials: {before}, now"
        f" {now}. Give it another name, or {_new_generation()}"
    )


def _two_configs(block: int, before: str, now: str) -> Incomparable:
    return Incomparable(
        f"block {block} has trials of two configs ({before} and {now}), because the sweep was run"
        f" from two homes. For comparable trials, {_new_generation()}; these trials are kept"
    )


def _other_journal(name: str, before: str) -> Incomparable:
    return Incomparable(
        f"sweep {name} has the journal of {before}. Move journal.jsonl of this generation away,"
        " and run the same command again: finished trials are read back from MLflow"
    )


def generation(folder: SweepFolder, latest_stored: int, *, fresh: bool) -> int:
    """Return the generation to resume: the latest one here or in the store, or a new one."""
    latest = max(folder.latest(), latest_stored)
    return latest + 1 if fresh else max(latest, 1)


def identify(spec: SweepSpec, number: int) -> SweepIdentity:
    """Return the identity of generation `number` of a spec's sweep; reads data and own code."""
    settings, workload = spec.written_settings(), registry.find_workload(spec.workload_name)
    if not workload.names_own_implementations:
        settings.pop("keep", None)  # it changes nothing that a trial measures
    code = read_code(spec.workload_name)
    return SweepIdentity(
        name=spec.name,
        generation=number,
        workload=spec.workload_name,
        settings=settings,
        search=spec.comparable_search(),
        seed=spec.seed,
        data_digest=(
            spec.model_facts.data_digest if spec.model_facts else workload.data_digest(settings)
        ),
        code=code.digests if code else {},
        code_commit=workload_commit(code.folder, code.digests) if code else None,
        timed_work=spec.measure.of,
    )


def take_over(
    draft: journal.Draft,
    stored: Manifest | None,
    identity: SweepIdentity,
    spec: SweepSpec,
    *,
    same_code: bool = False,
    sweep_id: str = "",
) -> journal.JournalState:
    """Open the sweep in the journal, unless it is there; `merge_stored` adds the store's trials.

    A journal without blocks gets the `sweep_id` of the store's parent run, or a random one: another
    home may have opened the sweep since. With `same_code`, changed code of a user's own workload
    counts as the same. Trials of another spec or code are `Incomparable`.
    """
    before = draft.state
    if before is not None and not before.order and sweep_id not in ("", before.sweep_id):
        draft.clear()
    if draft.state is not None:
        if draft.state.identity.label != identity.label:
            raise _other_journal(identity.label, draft.state.identity.label)
        has_result = any(t.status != "failed" for t in draft.state.finished.values())
        is_same = same_code or not has_result  # that results of other code could be compared with
        _expect_same(draft.state.identity, identity, same_code=is_same)
        _expect_same_variants((t.arm for t in draft.state.finished.values()), spec)
        draft.state.identity = identity
        return draft.state
    if stored is not None and stored.identity.generation == identity.generation:
        _expect_same(stored.identity, identity, same_code=same_code)
        _expect_same_variants(stored.arms, spec)
    sweep_id = sweep_id or secrets.token_hex(8)
    draft.append(journal.SweepOpened(identity, spec.model_dump(mode="json"), sweep_id))
    assert draft.state is not None
    return draft.state


def merge_stored(draft: journal.Draft, stored: Iterable[FinishedTrial]) -> None:
    """Add the trials to the journal that only the store has: those that ended under another home.

    Of two outcomes of one trial the later one counts. A block without outcomes in this journal
    takes the store's config: it was suggested under another home too, and run there. A block that
    was run with several configs is `Incomparable`.
    """
    state = draft.state
    assert state is not None  # take_over has written the first record
    stored = list(stored)
    _expect_one_config([*state.finished.values(), *stored])
    had = state.finished
    newer = [
        trial for trial in stored if trial.key not in had or trial.ended_s > had[trial.key].ended_s
    ]
    for record in rebuild(newer):
        if isinstance(record, journal.BlockSuggested):
            block = state.blocks.get(record.block)
            if block is not None and block.config == record.config:
                continue
        draft.append(record)


def rebuild(finished: Iterable[FinishedTrial]) -> Iterator[journal.Record]:
    """Yield the records of a lost journal, from the trials that the tracking store has.

    The sampler suggests blocks without an ended trial again: the store does not have them.
    """
    begun: set[int] = set()
    for trial in sorted(finished, key=lambda trial: trial.ended_s):
        if trial.block not in begun:
            begun.add(trial.block)
            yield journal.BlockSuggested(trial.block, trial.config, trial.started_s)
        yield journal.TrialFinished(trial)


def events(
    state: journal.JournalState, *, retry_failed: bool, retimed: Container[str] = ()
) -> Iterator[Block | FinishedTrial]:
    """Yield blocks and finished trials in order; not `retimed` keys, nor failed ones on request."""
    for event in state.order.values():
        if isinstance(event, FinishedTrial):
            is_retried = retry_failed and event.status == "failed"
            if is_retried or event.key in retimed:
                continue
        yield event


def trials_to_retime(state: journal.JournalState, plan: Plan, *, retry_failed: bool) -> set[str]:
    """Return the keys of the complete trials of incomplete rounds of timing arms.

    If an arm of a hardware class has no outcome, or one from another round on that node, all of
    them are timed again: slices from different times are not comparable. That happens where the
    plan had fewer arms before, or where the store has a part of a lost journal. Arms on different
    nodes take no turns. With `retry_failed`, failed trials count as missing.
    """
    resumed = plan.resumed_from([*state.blocks.values(), *state.finished.values()])
    pruned = pruned_blocks(state.finished.values())
    rounds: dict[tuple[int, int, HardwareRef], list[Trial]] = defaultdict(list)
    timed = [arm for arm in plan.arms if arm.measure == "timing"]
    for block in state.blocks.values():
        if resumed.has_block(block.index) and block.index not in pruned:
            for arm, repeat in itertools.product(timed, range(plan.repeats)):
                trial = make_trial(state.identity, block, arm, repeat)
                rounds[block.index, repeat, arm.hardware_class].append(trial)
    retimed: set[str] = set()
    for members in rounds.values():
        ended = [state.finished[trial.key] for trial in members if trial.key in state.finished]
        complete = [trial for trial in ended if trial.status == "complete"]
        is_incomplete = len(ended) < len(members) or (
            retry_failed and any(trial.status == "failed" for trial in ended)
        )
        round_ids = {(trial.node, trial.round_id) for trial in complete}
        if is_incomplete or len(round_ids) > len({node for node, _ in round_ids}):
            retimed |= {trial.key for trial in complete}
    return retimed


def preview(
    folder: SweepFolder, spec: SweepSpec, tracking_uri: str, *, same_code: bool = False
) -> journal.JournalState:
    """Return the state that a start of the spec would resume; write nothing.

    The store is read as well, unless it is in this home and the home has the sweep's journal. Raise
    `Incomparable` as `take_over` does, and `TrackingError` if the store cannot be used.
    """
    number, before, stored = max(folder.latest(), 1), None, list[FinishedTrial]()
    draft = journal.Draft(journal.read(folder.generation(number)))
    store_path = trackers.local_path(tracking_uri)
    is_store_of_home = store_path is not None and store_path.parent == folder.home
    is_complete = draft.state is not None and is_store_of_home
    if not is_complete and not trackers.is_missing(tracking_uri):
        from orchestrator.storage.tracking import reader  # noqa: PLC0415  (MLflow: seconds)

        found = reader.find(tracking_uri, spec.name)
        before, number = found.manifest, generation(folder, found.generation, fresh=False)
        draft = journal.Draft(journal.read(folder.generation(number)))
        if before is not None and before.identity.generation == number:
            stored += reader.read_stored_sweep(tracking_uri, spec.name, number).trials
    take_over(draft, before, identify(spec, number), spec, same_code=same_code)
    merge_stored(draft, stored)
    assert draft.state is not None
    return draft.state


def _expect_same(before: SweepIdentity, now: SweepIdentity, *, same_code: bool) -> None:
    if changes := input_changes(before, now):
        raise _other_spec(now.name, changes)
    files = before.code_changes(now)
    if files and not same_code:
        raise _other_code(now.name, files)


def _expect_same_variants(arms: Iterable[Arm], spec: SweepSpec) -> None:
    """Refuse a variant with the name of an earlier one and other settings: names show arms."""
    now = {entry.name: entry.variant for entry in spec.arms.variants}
    for before in dict.fromkeys(arm.variant for arm in arms if arm.variant):
        if now.get(before.name, before) != before:
            earlier, received = canonical(before.settings), canonical(now[before.name].settings)
            raise _other_variant(spec.name, before.name, earlier, received)


def _expect_one_config(finished: Iterable[FinishedTrial]) -> None:
    configs: dict[int, Config] = {}
    for trial in finished:
        config = configs.setdefault(trial.block, trial.config)
        if config != trial.config:
            raise _two_configs(trial.block, canonical(config), canonical(trial.config))
