"""A sweep's journal compared with its store, both ways: `rnnsweep check`. Nothing is changed."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from orchestrator.core.formats import Format
from orchestrator.core.text import counted
from orchestrator.core.trial import FinishedTrial
from orchestrator.report.document import Column, Document, Section, make_table
from orchestrator.storage.input_changes import input_changes
from orchestrator.storage.journal import JournalState
from orchestrator.storage.tracking.reader import StoredSweep
from orchestrator.storage.tracking.records import TRIAL, record_of

CHECK = Format("a check of a sweep", 1, id="rnnsweep-check")

FindingKind: TypeAlias = Literal[
    "other_sweep",
    "other_identity",
    "only_journal",
    "only_store",
    "differs",
    "other_config",
    "unfinished",
    "double",
    "damaged_table",
]
"""What a finding is. All but the first two are repaired by the next `run`."""

MEANINGS: dict[FindingKind, str] = {
    "other_sweep": "the journal and the store are of two sweeps with one name: their ids differ",
    "other_identity": "the journal and the store are of two specs: an input differs",
    "only_journal": "a trial is in the journal only: the next `run` records it",
    "only_store": "a trial is in the store only: the next `run` writes it into the journal",
    "differs": "a trial has two outcomes: the next `run` keeps the later one",
    "other_config": "a block has another config in the store than in the journal",
    "unfinished": "a run in the store is half-written: the next `run` completes it",
    "double": "a trial has a second run in the store: the next `run` deletes it",
    "damaged_table": "trials.parquet cannot be read: the next `run` writes it",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference between journal and store; `place` is a trial's key, a run's id, or a name."""

    kind: FindingKind
    place: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SweepCheck:
    """The result of a check: how many trials each side has, and what differs."""

    sweep: str
    journal: int
    store: int
    findings: tuple[Finding, ...]

    @property
    def is_good(self) -> bool:
        """Whether journal and store agree."""
        return not self.findings


def check_sweep(state: JournalState, stored: StoredSweep) -> SweepCheck:
    """Compare the journal of a generation with what a store has of it."""
    findings = (*_of_sweep(state, stored), *_of_trials(state, stored), *_of_runs(stored))
    label, had = state.identity.label, stored.trials.finished
    return SweepCheck(label, len(state.finished), len(had), findings)


def _of_sweep(state: JournalState, stored: StoredSweep) -> Iterator[Finding]:
    if state.sweep_id != stored.sweep_id:
        yield Finding("other_sweep", state.identity.label, f"{state.sweep_id} {stored.sweep_id}")
    for change in input_changes(state.identity, stored.manifest.identity):
        yield Finding("other_identity", state.identity.label, change)


def _of_trials(state: JournalState, stored: StoredSweep) -> Iterator[Finding]:
    kept, had = state.finished, stored.trials.finished
    for key, trial in kept.items():
        if key not in had:
            yield Finding("only_journal", key, _text(trial))
        elif _record(trial) != _record(had[key]):
            yield Finding("differs", key, f"{_text(trial)}; in the store {_text(had[key])}")
    for key, trial in had.items():
        if key not in kept:
            yield Finding("only_store", key, _text(trial))
            block = state.blocks.get(trial.block)
            if block is not None and block.config != trial.config:
                yield Finding("other_config", f"block {trial.block}", _text(trial))


def _of_runs(stored: StoredSweep) -> Iterator[Finding]:
    for key, run in stored.trials.unfinished.items():
        yield Finding("unfinished", run.run_id, f"trial {key}")
    for run in stored.trials.doubles:
        yield Finding("double", run.run_id, f"trial {run.tags.get('trial_key', '')}")
    if stored.trials.has_damaged_table:
        yield Finding("damaged_table", "trials.parquet")


def _record(trial: FinishedTrial) -> str:
    return TRIAL.dump(record_of(trial))


def _text(trial: FinishedTrial) -> str:
    return f"block {trial.block}, {trial.arm}: {trial.status}, attempt {trial.attempt}"


def check_json(check: SweepCheck) -> dict[str, Any]:
    """Return the result as one versioned object."""
    return {
        **CHECK.head(),
        "sweep": check.sweep,
        "agrees": check.is_good,
        "trials": {"journal": check.journal, "store": check.store},
        "findings": [asdict(finding) for finding in check.findings],
    }


def check_document(check: SweepCheck) -> Document:
    """Return the result for people."""
    sides = (
        f"{counted(check.journal, 'trial')} in the journal, "
        f"{counted(check.store, 'trial')} in the store"
    )
    if check.is_good:
        return Document(f"{check.sweep}: {sides}, all of them the same", ())
    kinds = dict.fromkeys(finding.kind for finding in check.findings)
    meanings = tuple(f"{kind}: {MEANINGS[kind]}." for kind in kinds)
    columns: Sequence[Column[Finding]] = [
        Column("finding", lambda finding: finding.kind),
        Column("where", lambda finding: finding.place),
        Column("what", lambda finding: finding.detail),
    ]
    table = make_table(columns, check.findings)
    title = f"{check.sweep}: {sides}, {counted(len(check.findings), 'difference')}"
    return Document(title, (Section("", tables=(table,), paragraphs=meanings),))
