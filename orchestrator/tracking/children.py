"""The runs of a sweep's trials, as the store has them, each trial once."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from orchestrator.tracking.errors import TrackingError
from orchestrator.tracking.runs import PARENT_TAG, RECORD_FILE, RECORD_TAG, finished_trial
from orchestrator.tracking.store import Store, StoredRun
from orchestrator.trial import FinishedTrial

ENVIRONMENTS = "environment"
"""The folder of the parent run's artifacts that has one file per distinct environment."""

Environment: TypeAlias = Mapping[str, str | int | float | bool | None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Child:
    """A trial's run; `finished` is None where its writer was stopped half-way."""

    run: StoredRun
    finished: FinishedTrial | None


def read_children(store: Store, parent: StoredRun) -> tuple[dict[str, Child], list[StoredRun]]:
    """The sweep's trials by key, and runs that double one of them.

    Of two runs of one trial the first that is finished is kept, else the first.
    """
    environments = read_environments(store, parent.run_id)
    kept: dict[str, Child] = {}
    doubles: list[StoredRun] = []
    for run in store.search([parent.experiment_id], of_parent(parent.run_id)):
        key = run.tags.get("trial_key")
        if key is None:
            continue
        child = Child(run, _finished(store, run, environments))
        other = kept.get(key)
        if other is None:
            kept[key] = child
        elif other.finished is None and child.finished is not None:
            kept[key] = child
            doubles.append(other.run)
        else:
            doubles.append(run)
    return kept, doubles


def of_parent(run_id: str) -> str:
    """The search filter of a parent's children."""
    return f"tags.`{PARENT_TAG}` = '{run_id}'"


def read_environments(store: Store, parent_id: str) -> dict[str, Environment]:
    """The environments that the parent run keeps, by digest."""
    return dict(_environments(store, parent_id))


def _environments(store: Store, parent_id: str) -> Iterator[tuple[str, Environment]]:
    for path in store.texts(parent_id, ENVIRONMENTS):
        digest = path.rpartition("/")[2].removesuffix(".json")
        yield digest, json.loads(store.read_text(parent_id, path))


def _finished(
    store: Store, run: StoredRun, environments: Mapping[str, Environment]
) -> FinishedTrial | None:
    text = run.tags.get(RECORD_TAG)
    if not run.has_ended or text is None:
        return None
    try:
        if text == RECORD_FILE:
            text = store.read_text(run.run_id, RECORD_FILE)
        return finished_trial(text, environments)
    except TrackingError as error:
        # One damaged run must not make a sweep unreadable; it is written again, or done again.
        _log.warning("run %s is left out: %s", run.run_id, error)
        return None
