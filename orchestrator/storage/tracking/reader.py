"""Sweeps read back from a store, anywhere that it can be reached."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Mapping
from typing import cast, get_args

from orchestrator.core.records import SweepRecord, TrialRecord
from orchestrator.core.rounds import OWN_FACTS, edition
from orchestrator.core.trial import Arm, DatasetRecord
from orchestrator.storage.tracking import lease, sweep_runs
from orchestrator.storage.tracking.errors import StoreMissing, SweepNotFound
from orchestrator.storage.tracking.manifest import (
    FoundSweep,
    Manifest,
    SweepState,
    SweepSummary,
)
from orchestrator.storage.tracking.mlflow_store import Store, StoredRun
from orchestrator.storage.tracking.parquet_table import Environment
from orchestrator.storage.tracking.run_content import all_settings
from orchestrator.storage.tracking.trial_runs import Child, read_children


def read_sweep(tracking_uri: str, name: str, generation: int | None = None) -> SweepRecord:
    """A sweep and its finished trials; without `generation`, the latest.

    `name` may be a label too (`quickstart#2`). A sweep whose driver died reads as stopped.

    Raises:
        SweepNotFound: the store has none of that name and generation.
        TrackingError: the store cannot be reached or used.
    """
    store = Store(tracking_uri)
    name, generation = _split(name, generation)
    parent, manifest = _parent(store, name, generation)
    children = read_children(store, parent).kept
    # One object for each arm: what is grouped by it, again and again, is found by identity.
    arms = {arm: arm for arm in manifest.arms}
    records = [_trial_record(child, arms) for child in children.values() if child.finished]
    order = {arm: position for position, arm in enumerate(manifest.arms)}
    records.sort(key=lambda each: (each.block, each.repeat, order.get(each.arm, len(order))))
    # where blocks come, or came, until there are enough, nobody knew at the opening how many
    blocks = max([manifest.blocks, *(each.block + 1 for each in records)])
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
        expected_trials=_expected(manifest, blocks, records),
        trials=tuple(records),
        environment=_merged(
            child.finished.outcome.environment for child in children.values() if child.finished
        ),
        settings=_fixed_settings(manifest, records),
        datasets=_datasets(children.values()),
        sampler=str(manifest.identity.search.get("sampler", "")),
        seed=manifest.identity.seed,
        state=_state(parent),
        criteria=manifest.criteria,
        experiment_id=parent.experiment_id,
        current=manifest.current,
    )


def find_sweep(tracking_uri: str, name: str, *, trials: bool = True) -> FoundSweep | None:
    """The latest generation of a sweep, to go on with where the journal is lost; None if new.

    Without `trials` none are read: `Tracker.open_sweep` returns them too.

    Raises:
        TrackingError: the store cannot be reached or used.
    """
    try:
        store = Store(tracking_uri)
        parent, manifest = _parent(store, name, None)
    except (StoreMissing, SweepNotFound):
        return None
    children = read_children(store, parent).kept if trials else {}
    finished = [child.finished for child in children.values() if child.finished]
    finished.sort(key=lambda each: edition(each.outcome))
    return FoundSweep(
        manifest,
        store.read_text(parent.run_id, sweep_runs.SPEC_FILE),
        _state(parent),
        tuple(finished),
    )


def list_sweeps(tracking_uri: str) -> list[SweepSummary]:
    """Every sweep in the store and each of its generations, the latest started first.

    Raises:
        TrackingError: the store cannot be reached or used.
    """
    store = Store(tracking_uri)
    names = {experiment_id: name for name, experiment_id in store.experiments().items()}
    if not names:
        return []
    found = store.search(list(names), sweep_runs.OF_ANY_GENERATION)
    summaries = [_summary(names[run.experiment_id], run) for run in found]
    return sorted(summaries, key=lambda each: each.started_s, reverse=True)


def _summary(name: str, run: StoredRun) -> SweepSummary:
    return SweepSummary(
        name,
        _generation(run),
        run.run_id,
        _state(run),
        run.tags.get("workload", ""),
        run.start_ms / 1000,
        None if run.end_ms is None else run.end_ms / 1000,
        run.experiment_id,
    )


def _split(name: str, generation: int | None) -> tuple[str, int | None]:
    head, mark, tail = name.rpartition("#")
    return (
        (head, int(tail)) if generation is None and mark and tail.isdigit() else (name, generation)
    )


def _parent(store: Store, name: str, generation: int | None) -> tuple[StoredRun, Manifest]:
    """The parent run of a generation, or of the latest; one that was never described is none."""
    experiment = store.experiment(name)
    runs = list(store.search([experiment], sweep_runs.OF_ANY_GENERATION)) if experiment else []
    known = sorted({_generation(run) for run in runs})
    wanted = known[::-1] if generation is None else [generation]
    for number in wanted:
        parent = sweep_runs.first(run for run in runs if _generation(run) == number)
        manifest = parent and sweep_runs.read_manifest(store, parent)
        if parent and manifest:
            return parent, manifest
    if runs:
        nearest = [f"{name}#{each}" for each in known]
        raise SweepNotFound(f"{name}#{wanted[0]}", store.shown, nearest)
    names = [each for each in store.experiments() if each != "Default"]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    raise SweepNotFound(name, store.shown, near or sorted(names)[:5])


def _expected(manifest: Manifest, blocks: int, trials: Iterable[TrialRecord]) -> int:
    """All trials of the arms that the last start was to run, and what others have done."""
    current = manifest.current or manifest.arms
    former = set(manifest.arms) - set(current)
    done = {(each.block, each.arm, each.repeat) for each in trials if each.arm in former}
    return blocks * len(current) * manifest.repeats + len(done)


def _fixed_settings(manifest: Manifest, trials: Iterable[TrialRecord]) -> Mapping[str, object]:
    """What all trials share, defaults included: everything that is not searched.

    A sweep of listed configs has no space: there the trials' configs say what is searched.
    """
    identity = manifest.identity
    searched = {*identity.search.get("space", {}), *(name for t in trials for name in t.config)}
    return {
        name: value
        for name, value in all_settings(identity, {}).items()
        if name not in searched and value is not None
    }


def _datasets(children: Iterable[Child]) -> tuple[DatasetRecord, ...]:
    loaded = [child.finished.outcome.dataset for child in children if child.finished]
    return tuple(dict.fromkeys(each for each in loaded if each is not None))


def _generation(run: StoredRun) -> int:
    text = run.tags.get("generation", "")
    return int(text) if text.isdigit() else 0


def _state(parent: StoredRun) -> SweepState:
    state = parent.tags.get("state", "")
    if state not in get_args(SweepState) or (state == "running" and _is_deserted(parent)):
        return "stopped"
    return cast(SweepState, state)


def _is_deserted(parent: StoredRun) -> bool:
    until_s = float(parent.tags.get(lease.UNTIL_TAG) or 0)
    owner = lease.Owner.parse(parent.tags.get(lease.OWNER_TAG, ""))
    return until_s < time.time() or (owner is not None and owner.is_gone())


def _trial_record(child: Child, arms: dict[Arm, Arm]) -> TrialRecord:
    assert child.finished is not None
    trial, outcome = child.finished.trial, child.finished.outcome
    failure = outcome.failure
    return TrialRecord(
        run_id=child.run_id,
        trial_key=trial.key,
        block=trial.block,
        config=trial.config,
        arm=arms.setdefault(trial.arm, trial.arm),
        repeat=trial.repeat,
        status=outcome.status,
        metrics=outcome.metrics,
        kernel=outcome.kernel,
        failure=f"{failure.reason}: {failure.message}" if failure else "",
        node=outcome.node,
        trainer_trials=outcome.trainer_trials,
        notes=outcome.telemetry.notes if outcome.telemetry else {},
        epochs=outcome.epochs,
        started_s=outcome.started_s,
        ended_s=outcome.ended_s,
        attempt=outcome.attempt,
        seed=trial.seed,
    )


def _merged(environments: Iterable[Environment]) -> Mapping[str, str]:
    """One environment; where nodes differ, all their values. What is a trial's own is left out."""
    values: dict[str, dict[str, None]] = {}
    for environment in environments:
        for key, value in environment.items():
            if key in OWN_FACTS:
                continue
            values.setdefault(key, {})[str(value)] = None
    return {key: " | ".join(sorted(each)) for key, each in sorted(values.items())}
