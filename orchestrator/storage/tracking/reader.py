"""Sweeps read back from a tracker, from any machine that can reach it.

Every function raises `TrackingError`, and `WrongVersion` for a format that is not read.
"""

from __future__ import annotations

import difflib
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast, get_args

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord, SweepStatus
from orchestrator.core.trial import DatasetRecord, FinishedTrial, count_expected
from orchestrator.planning.pricing import repriced
from orchestrator.spec.space import size_of_space
from orchestrator.storage.tracking import stored_records, tracking_errors, trial_table
from orchestrator.storage.tracking.stored_records import FoundSweep, Manifest
from orchestrator.storage.tracking.tracker import StoredRun, Tracker, read_run_text
from orchestrator.storage.tracking.trackers import open_tracker
from orchestrator.storage.tracking.trial_content import all_settings

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST_FILE, SPEC_FILE = "sweep.json", "spec.yaml"

_log = logging.getLogger(__name__)


def read_stored_sweep(tracking_uri: str, name: str, generation: int | None = None) -> SweepRecord:
    """Return a sweep and its finished trials; without `generation`, the latest.

    `name` may be a label too (`quickstart#2`). A sweep whose driver died reads as stopped. Raise
    `SweepNotFound` if the tracker has none of that name and generation.
    """
    tracker, parent, manifest = _find_sweep(tracking_uri, name, generation)
    return _read(tracker, parent, manifest)


def read_rows(
    tracking_uri: str, name: str, generation: int | None = None
) -> tuple[SweepRecord, pa.Table]:
    """Return a sweep without its trials, and these as the table that `to_rows` makes.

    That is quicker than `read_stored_sweep` unless trials were recorded or deleted after the table
    was written.
    """
    tracker, parent, manifest = _find_sweep(tracking_uri, name, generation)
    rows = trial_table.read_table_rows(tracker, parent)
    if rows is None or manifest.criteria.prices:  # costs follow from the prices of the last start
        record = _read(tracker, parent, manifest)
        return replace(record, trials=()), trial_table.to_rows(record.trials)
    prefix = trial_table.CONFIG
    names = {n.removeprefix(prefix) for n in rows.column_names if n.startswith(prefix)}
    arm_settings = {name for arm in manifest.arms for name in arm.settings}
    return sweep_of(tracker, parent, manifest, (), names - arm_settings), rows


def _read(tracker: Tracker, parent: StoredRun, manifest: Manifest) -> SweepRecord:
    stored = trial_table.read_trials(tracker, parent, manifest.identity)
    return sweep_of(tracker, parent, manifest, list(stored.finished.values()))


def sweep_of(
    tracker: Tracker,
    parent: StoredRun,
    manifest: Manifest,
    trials: Sequence[FinishedTrial],
    searched: Collection[str] = (),
) -> SweepRecord:
    """Return the record of a sweep; `searched` are names of params that the trials do not show."""
    shared = in_order(repriced(trials, manifest.criteria.prices), manifest.arms)
    blocks = max([manifest.blocks, *(trial.block + 1 for trial in shared)])
    # With `search.configs: auto` the number of blocks was not known when the sweep was opened.
    planned = blocks if manifest.criteria.auto_blocks else manifest.blocks
    left_blocks = frozenset((*manifest.skipped_blocks, *range(planned, blocks)))
    planned_blocks = frozenset(range(blocks)) - left_blocks
    record = SweepRecord(
        name=manifest.identity.name,
        generation=manifest.identity.generation,
        run_id=parent.run_id,
        workload=manifest.identity.workload,
        objectives=manifest.objectives,
        arms=manifest.arms,
        impossible=manifest.impossible,
        blocks=blocks,
        repeats=manifest.repeats,
        expected_trials=count_expected(planned_blocks, manifest.running, manifest.repeats, shared),
        environment=_merged(shared),
        settings=_fixed_settings(manifest, {*searched, *(n for t in trials for n in t.config)}),
        datasets=datasets(trials),
        sampler=manifest.identity.sampler,
        seed=manifest.identity.seed,
        state=_state(tracker, parent),
        criteria=manifest.criteria,
        experiment_id=parent.experiment_id,
        current=manifest.current,
        answered=parent.tags.get(stored_records.SOURCE_TAG, ""),
        start=manifest.start,
        space_size=size_of_space(manifest.identity.search.get("space", {})),
        left_blocks=left_blocks,
    )
    return record.with_trials(shared)


def in_order(trials: Iterable[FinishedTrial], arms: Sequence[Arm]) -> list[FinishedTrial]:
    """Return the trials by block, repeat and arm."""
    order = {arm: position for position, arm in enumerate(arms)}
    return sorted(
        trials, key=lambda trial: (trial.block, trial.repeat, order.get(trial.arm, len(order)))
    )


def find(tracking_uri: str, name: str, *, fresh: bool = False) -> FoundSweep:
    """Return the latest generation of a sweep, its manifest and its id.

    With `fresh` there are no manifest and no id, and a generation of any version is counted.
    """
    try:
        tracker = open_tracker(tracking_uri)
    except tracking_errors.StoreMissing:
        return FoundSweep(0)
    parents = tracker.sweep_runs(name)
    number = max(map(_generation, parents), default=0)
    latest = first_parent(run for run in parents if _generation(run) == number)
    if fresh or latest is None:
        return FoundSweep(number)
    sweep_id = latest.tags.get(stored_records.ID_TAG, "")
    try:
        return FoundSweep(number, _parent(tracker, name, None)[1], sweep_id)
    except tracking_errors.SweepNotFound:
        return FoundSweep(number, None, sweep_id)


def list_sweeps(tracking_uri: str) -> list[StoredRun]:
    """Return the parent run of each generation of every sweep, the latest started first."""
    tracker = open_tracker(tracking_uri)
    return sorted(tracker.sweep_runs(), key=lambda run: run.start_ms, reverse=True)


def _find_sweep(
    tracking_uri: str, name: str, generation: int | None
) -> tuple[Tracker, StoredRun, Manifest]:
    """Return the tracker, the parent run and the manifest of a sweep, or raise `SweepNotFound`."""
    try:
        tracker = open_tracker(tracking_uri)
    except tracking_errors.StoreMissing as missing:
        raise tracking_errors.SweepNotFound(name, missing.args[0]) from missing
    return tracker, *_parent(tracker, *_split(name, generation))


def _split(name: str, generation: int | None) -> tuple[str, int | None]:
    head, _, tail = name.rpartition("#")
    is_label = generation is None and head and tail.isdecimal()
    return (head, int(tail)) if is_label else (name, generation)


def _parent(tracker: Tracker, name: str, generation: int | None) -> tuple[StoredRun, Manifest]:
    """Return the parent run of a generation, or of the latest; one without a manifest is none."""
    runs = tracker.sweep_runs(name)
    generations = sorted({_generation(run) for run in runs})
    wanted = generations[::-1] if generation is None else [generation]
    for number in wanted:
        parent = first_parent(run for run in runs if _generation(run) == number)
        manifest = parent and read_manifest(tracker, parent)
        if parent and manifest:
            return parent, manifest
    if runs:
        nearest = [f"{name}#{number}" for number in generations]
        raise tracking_errors.SweepNotFound(f"{name}#{wanted[0]}", tracker.shown, nearest)
    names = tracker.sweep_names()
    nearest = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    raise tracking_errors.SweepNotFound(name, tracker.shown, nearest or sorted(names)[:5])


def _fixed_settings(manifest: Manifest, searched: Collection[str]) -> Mapping[str, object]:
    """Return the settings that all trials share, defaults included: those that are not searched."""
    # A sweep of listed configs has no space: the trials' configs have the names that are searched.
    identity = manifest.identity
    searched = {*identity.search.get("space", {}), *searched}
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


def _state(tracker: Tracker, parent: StoredRun) -> SweepStatus:
    """Return the state of a sweep; one that nobody holds the lease of is stopped."""
    state = parent.tags.get("state", "")
    is_dead = state == "running" and not lease_of(tracker, parent).is_held(time.time())
    return "stopped" if is_dead or state not in get_args(SweepStatus) else cast(SweepStatus, state)


def _merged(trials: Iterable[FinishedTrial]) -> Mapping[str, str]:
    values: dict[str, set[str]] = {}
    for environment in {id(t.outcome.environment): t.outcome.environment for t in trials}.values():
        for key, value in environment.items():
            values.setdefault(key, set()).add(str(value))
    return {key: " | ".join(sorted(texts)) for key, texts in sorted(values.items())}


def first_parent(runs: Iterable[StoredRun]) -> StoredRun | None:
    """Return the parent that every reader agrees on, should two drivers have made one at once."""
    return min(runs, key=lambda run: (run.start_ms, run.run_id), default=None)


def read_manifest(tracker: Tracker, parent: StoredRun) -> Manifest | None:
    """Return the manifest of a parent run; None where its driver was killed while writing it."""
    if MANIFEST_FILE not in tracker.files(parent.run_id):
        return None
    text = read_run_text(tracker, parent.run_id, MANIFEST_FILE)
    try:
        source = f"{MANIFEST_FILE} of run {parent.run_id} in {tracker.shown}"
        return stored_records.MANIFEST.load(text, source)
    except tracking_errors.Damaged as error:
        _log.warning("%s", error)
        return None


def lease_of(tracker: Tracker, parent: StoredRun) -> stored_records.Lease:
    """Return the lease of a sweep's run; a damaged one is none."""
    text = parent.tags.get(stored_records.LEASE_TAG)
    source = f"tag {stored_records.LEASE_TAG} of run {parent.run_id} in {tracker.shown}"
    try:
        return stored_records.Lease() if text is None else stored_records.LEASE.load(text, source)
    except tracking_errors.Damaged as error:  # nobody could renew it
        _log.warning("%s", error)
        return stored_records.Lease()
