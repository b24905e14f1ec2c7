"""Sweeps read back from a store, from any machine that can reach it.

Most trials are read from the parent run's table, the others from their runs. The tag `table` of a
run is the number of the first table that has it as it is now. Runs that were deleted in MLflow are
left out. Every function raises `TrackingError`, and `WrongVersion` for another version's store.
"""

import difflib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast, get_args

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import (
    Block,
    DatasetRecord,
    FinishedTrial,
    SweepIdentity,
    Telemetry,
    count_spared,
    make_trial,
)
from orchestrator.storage.tracking import errors, records
from orchestrator.storage.tracking.mlflow_store import MlflowStore, StoredRun
from orchestrator.storage.tracking.records import Manifest, SweepState
from orchestrator.storage.tracking.run_content import CURVES, PARENT_TAG, PARENTS, all_settings
from orchestrator.storage.tracking.trial_table import TABLE_FILE, read_table

Environment: TypeAlias = Mapping[str, str | int | float | bool | None]

MANIFEST_FILE = "sweep.json"
TABLE_TAG = "table"

_log = logging.getLogger(__name__)


def read_sweep(tracking_uri: str, name: str, generation: int | None = None) -> SweepRecord:
    """Return a sweep and its finished trials; without `generation`, the latest.

    `name` may be a label too (`quickstart#2`). A sweep whose driver died reads as stopped. Raise
    `SweepNotFound` if the store has none of that name and generation.
    """
    store = MlflowStore(tracking_uri)
    name, generation = _split(name, generation)
    parent, manifest = _parent(store, name, generation)
    trials = own_trials(manifest.identity, read_trials(store, parent).finished.values())
    shared = _with_shared_parts(trials, manifest.arms)
    order = {arm: position for position, arm in enumerate(manifest.arms)}
    shared.sort(key=lambda trial: (trial.block, trial.repeat, order.get(trial.arm, len(order))))
    # With `blocks: auto` the number of blocks was not known when the sweep was opened.
    blocks = max([manifest.blocks, *(trial.block + 1 for trial in shared)])
    return SweepRecord(
        name=name,
        generation=manifest.identity.generation,
        run_id=parent.run_id,
        workload=manifest.identity.workload,
        objectives=manifest.objectives,
        arms=manifest.arms,
        impossible=manifest.impossible,
        blocks=blocks,
        repeats=manifest.repeats,
        expected_trials=_expected(manifest, blocks, shared),
        trials=tuple(shared),
        environment=_merged(shared),
        settings=_fixed_settings(manifest, shared),
        datasets=datasets(trials),
        sampler=str(manifest.identity.search.get("sampler", "")),
        seed=manifest.identity.seed,
        state=_state(store, parent),
        criteria=manifest.criteria,
        experiment_id=parent.experiment_id,
        current=manifest.current,
    )


def own_trials(identity: SweepIdentity, trials: Iterable[FinishedTrial]) -> list[FinishedTrial]:
    """Return the trials whose keys are those of the sweep: others are damaged, or no part of it."""
    own = []
    for trial in trials:
        block = Block(trial.block, trial.config)
        if trial.key == make_trial(identity, block, trial.arm, trial.repeat).key:
            own.append(trial)
        else:
            _log.warning("run %s is skipped: its trial has the key of another one", trial.run_id)
    return own


def find(tracking_uri: str, name: str, fresh: bool = False) -> tuple[int, Manifest | None]:
    """Return a sweep's highest generation, 0 if it is new, and the manifest of the latest.

    With `fresh` there is no manifest, and a generation of any version is counted.
    """
    try:
        store = MlflowStore(tracking_uri)
    except errors.StoreMissing:
        return 0, None
    number = max(map(_generation, _parents(store, name)), default=0)
    try:
        return number, None if fresh else _parent(store, name, None)[1]
    except errors.SweepNotFound:
        return number, None


def list_sweeps(tracking_uri: str) -> list[StoredRun]:
    """Return the parent run of each generation of every sweep, the latest started first."""
    store = MlflowStore(tracking_uri)
    experiments = list(store.experiments().values())
    parents = store.search(experiments, PARENTS) if experiments else ()
    return sorted(parents, key=lambda run: run.start_ms, reverse=True)


def _split(name: str, generation: int | None) -> tuple[str, int | None]:
    head, _, tail = name.rpartition("#")
    is_label = generation is None and head and tail.isdecimal()
    return (head, int(tail)) if is_label else (name, generation)


def _parents(store: MlflowStore, name: str) -> list[StoredRun]:
    experiment = store.experiment(name)
    return list(store.search([experiment], PARENTS)) if experiment else []


def _parent(store: MlflowStore, name: str, generation: int | None) -> tuple[StoredRun, Manifest]:
    """Return the parent run of a generation, or of the latest; one without a manifest is none."""
    runs = _parents(store, name)
    generations = sorted({_generation(run) for run in runs})
    wanted = generations[::-1] if generation is None else [generation]
    for number in wanted:
        parent = first_parent(run for run in runs if _generation(run) == number)
        manifest = parent and read_manifest(store, parent)
        if parent and manifest:
            return parent, manifest
    if runs:
        nearest = [f"{name}#{number}" for number in generations]
        raise errors.SweepNotFound(f"{name}#{wanted[0]}", store.shown, nearest)
    names = [other for other in store.experiments() if other != "Default"]
    nearest = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    raise errors.SweepNotFound(name, store.shown, nearest or sorted(names)[:5])


def _expected(manifest: Manifest, blocks: int, trials: Sequence[FinishedTrial]) -> int:
    """Count all trials of the arms of the last start, and the finished ones of other arms."""
    # Trials of pruned blocks that never ran do not count.
    former = set(manifest.arms) - set(manifest.running)
    done = {(trial.block, trial.arm, trial.repeat) for trial in trials if trial.arm in former}
    spared = count_spared(trials, manifest.running, manifest.repeats)
    return blocks * len(manifest.running) * manifest.repeats - spared + len(done)


def _fixed_settings(manifest: Manifest, trials: Iterable[FinishedTrial]) -> Mapping[str, object]:
    """Return the settings that all trials share, defaults included: those that are not searched."""
    # A sweep of listed configs has no space: the trials' configs have the names that are searched.
    identity = manifest.identity
    searched = {*identity.search.get("space", {}), *(name for t in trials for name in t.config)}
    return {
        name: value
        for name, value in all_settings(identity, {}).items()
        if name not in searched and value is not None
    }


def datasets(trials: Iterable[FinishedTrial]) -> tuple[DatasetRecord, ...]:
    """Return the data that trials loaded: one, if all is well."""
    loaded = (trial.outcome.dataset for trial in trials)
    return tuple(dict.fromkeys(dataset for dataset in loaded if dataset is not None))


def _generation(run: StoredRun) -> int:
    text = run.tags.get("generation", "")
    return int(text) if text.isdecimal() else 0


def _state(store: MlflowStore, parent: StoredRun) -> SweepState:
    """Return the state of a sweep; one that nobody holds the lease of is stopped."""
    state = parent.tags.get("state", "")
    if state not in get_args(SweepState):
        return "stopped"
    if state == "running" and not lease_of(store, parent).is_held(time.time()):
        return "stopped"
    return cast(SweepState, state)


def _with_shared_parts(
    trials: Iterable[FinishedTrial], known_arms: Iterable[Arm]
) -> list[FinishedTrial]:
    """Return the trials with one object for equal arms and environments: fast and small."""
    arms = {arm: arm for arm in known_arms}
    environments: dict[str, Environment] = {}
    shared: list[FinishedTrial] = []
    for finished in trials:
        arm = arms.setdefault(finished.arm, finished.arm)
        environment = finished.outcome.environment
        environment = environments.setdefault(repr(environment), environment)
        outcome = replace(finished.outcome, environment=environment)
        shared.append(FinishedTrial(replace(finished.trial, arm=arm), outcome, finished.run_id))
    return shared


def _merged(trials: Iterable[FinishedTrial]) -> Mapping[str, str]:
    """Return one environment; where nodes differ, all values."""
    values: dict[str, set[str]] = {}
    for environment in {id(t.outcome.environment): t.outcome.environment for t in trials}.values():
        for key, value in environment.items():
            values.setdefault(key, set()).add(str(value))
    return {key: " | ".join(sorted(texts)) for key, texts in sorted(values.items())}


_ROUNDED_MS = 10
"""Half a unit, and more, of the times of a trial's telemetry, which are hundredths of a second."""


def read_curves(tracking_uri: str, run_ids: Iterable[str]) -> Mapping[str, Telemetry]:
    """Return the telemetry curves of a few trials by run id; those without any are left out.

    The run of a trial that was run more than once has the points of every attempt. Those of the
    attempt that counts are returned.
    """
    store = MlflowStore(tracking_uri)
    telemetry = {run_id: _curves(store, run_id) for run_id in run_ids}
    return {run_id: recorded for run_id, recorded in telemetry.items() if recorded.curves}


def _curves(store: MlflowStore, run_id: str) -> Telemetry:
    run = store.run(run_id)
    trial = finished_of(store, run)
    if trial is None:
        return Telemetry()
    start_ms, end_ms = (round(s * 1000) for s in (trial.started_s, trial.ended_s))
    values: dict[str, dict[int, float]] = {}  # by name and step
    times_s: dict[int, float] = {}
    for name in sorted(name for name in run.metrics if name.startswith(CURVES)):
        for point in store.history(run_id, name):
            if start_ms - _ROUNDED_MS <= point.at_ms <= end_ms + _ROUNDED_MS:
                values.setdefault(name, {})[point.step] = point.value
                times_s[point.step] = (point.at_ms - start_ms) / 1000
    steps = sorted(times_s)
    return Telemetry(
        at_s=tuple(times_s[step] for step in steps),
        curves={name: tuple(map(own.get, steps)) for name, own in values.items()},
    )


@dataclass(slots=True)
class StoredTrials:
    """The trials of a sweep by key, and runs that double one of them.

    Of two runs of one trial the first finished one is kept, else the first. `unfinished` are runs
    whose writer was stopped half-way. `table` is the number of the table that was read, or 0, and
    `late` the number of trials that it lacks or has otherwise. `needs_table` marks a table that
    could not be read or written: it is written before any run.
    """

    finished: dict[str, FinishedTrial] = field(default_factory=dict)
    unfinished: dict[str, StoredRun] = field(default_factory=dict)
    doubles: list[StoredRun] = field(default_factory=list)
    table: int = 0
    late: int = 0
    needs_table: bool = False


def first_parent(runs: Iterable[StoredRun]) -> StoredRun | None:
    """Return the parent that every reader agrees on, should two drivers have made one at once."""
    return min(runs, key=lambda run: (run.start_ms, run.run_id), default=None)


def read_manifest(store: MlflowStore, parent: StoredRun) -> Manifest | None:
    """Return the manifest of a parent run; None where its driver was killed while writing it."""
    if MANIFEST_FILE not in store.texts(parent.run_id):
        return None
    text = store.read_text(parent.run_id, MANIFEST_FILE)
    try:
        place = f"{MANIFEST_FILE} of run {parent.run_id} in {store.shown}"
        return records.MANIFEST.load(text, place)
    except errors.Damaged as error:
        _log.warning("%s", error)
        return None


def lease_of(store: MlflowStore, parent: StoredRun) -> records.Lease:
    """Return the lease of a parent run, also that of a driver of an earlier version."""
    text = parent.tags.get(records.LEASE_TAG, parent.tags.get("lease"))
    place = f"tag {records.LEASE_TAG} of run {parent.run_id} in {store.shown}"
    return records.Lease() if text is None else records.LEASE.load(text, place)


def trials_of(parent_id: str) -> str:
    """Return the search filter of the runs of a sweep's trials."""
    return f"tags.`{PARENT_TAG}` = '{parent_id}'"


def read_trials(store: MlflowStore, parent: StoredRun) -> StoredTrials:
    """Return the trials that the store has of a sweep."""
    query, experiment = trials_of(parent.run_id), [parent.experiment_id]
    stored = StoredTrials()
    table = _read_table(store, parent, stored)
    if table is None:
        _add_runs(store, stored, store.search(experiment, query))
        return stored
    deleted = {run.run_id for run in store.search(experiment, query, deleted=True)}
    stored.table, trials = table
    stored.finished = {trial.key: trial for trial in trials if trial.run_id not in deleted}
    stored.late = len(trials) - len(stored.finished)
    late = f"{query} and tags.{TABLE_TAG} = '{stored.table + 1}'"
    stored.late += _add_runs(store, stored, store.search(experiment, late))
    half_written = f"{query} and attributes.status = 'RUNNING'"
    _add_runs(store, stored, store.search(experiment, half_written))
    return stored


def _add_runs(store: MlflowStore, stored: StoredTrials, runs: Iterable[StoredRun]) -> int:
    """Add what is in these runs, and return their number; a run replaces its own row."""
    count = 0
    for run in runs:
        key = run.tags.get("trial_key")
        if key is None:
            continue
        count += 1
        trial = finished_of(store, run)
        kept = stored.finished.get(key) or stored.unfinished.get(key)
        if kept is not None and kept.run_id != run.run_id:
            if trial is None or key in stored.finished:
                stored.doubles.append(run)
                continue
            stored.doubles.append(stored.unfinished[key])
        stored.finished.pop(key, None)
        stored.unfinished.pop(key, None)
        if trial is None:
            stored.unfinished[key] = run
        else:
            stored.finished[key] = trial
    return count


def _read_table(
    store: MlflowStore, parent: StoredRun, stored: StoredTrials
) -> tuple[int, list[FinishedTrial]] | None:
    """Return the sweep's table; None if there is none, or one that is damaged."""
    if TABLE_FILE not in store.texts(parent.run_id):
        return None
    try:
        with store.file(parent.run_id, TABLE_FILE) as path:
            return read_table(path, f"{TABLE_FILE} of run {parent.run_id} in {store.shown}")
    except errors.Damaged as error:
        _log.warning("run %s: %s", parent.run_id, error)
        stored.needs_table = True
        return None


def finished_of(store: MlflowStore, run: StoredRun) -> FinishedTrial | None:
    """Return the trial of a run; None where its writer was stopped half-way, or it is damaged."""
    text = run.tags.get(records.RECORD_TAG, run.tags.get("record"))
    if not run.has_ended or text is None:
        return None
    try:
        if text == records.RECORD_FILE:
            text = store.read_text(run.run_id, records.RECORD_FILE)
        place = f"tag {records.RECORD_TAG} of run {run.run_id} in {store.shown}"
        trial = records.TRIAL.load(text, place)
        return replace(trial, run_id=run.run_id)
    except errors.WrongVersion:
        raise
    except errors.TrackingError as error:
        # One damaged run must not make a sweep unreadable: the trial is recorded or run once more.
        _log.warning("run %s is skipped: %s", run.run_id, error)
        return None
