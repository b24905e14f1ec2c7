"""Errors between a sweep and its tracking store. Picklable: they cross processes."""

import datetime
from collections.abc import Sequence
from pathlib import Path

from orchestrator.core.errors import Refusal, wrong_version
from orchestrator.core.text import counted


class TrackingError(Refusal, RuntimeError):
    """The store cannot be reached or used: where, what was expected and received, what to do."""

    def __init__(self, place: str, expected: str, received: str, next_step: str) -> None:
        super().__init__(place, expected, received, next_step)

    def __str__(self) -> str:
        place, expected, received, next_step = self.args
        return f"{place}: expected {expected}, received {received}. {next_step}"


class StoreAway(TrackingError):
    """A server or database that does not answer now."""

    is_away = True


class WrongVersion(TrackingError):
    """The store has something that another version of rnnsweep wrote."""

    def __init__(self, place: str, kind: str, expected: int, received: object) -> None:
        RuntimeError.__init__(self, place, kind, expected, received)

    def __str__(self) -> str:
        return wrong_version(*self.args)


class Damaged(TrackingError):
    """Stored content that cannot be read."""


class ContentRefused(TrackingError):
    """The store works and rejects this content: trying again changes nothing."""


class StoreMissing(TrackingError):
    """A store that is a file, and the file is not there."""


def no_store(path: Path) -> StoreMissing:
    """Return the error for a missing store."""
    return StoreMissing(
        f"MLflow store {path}",
        "a SQLite file",
        "no such file",
        "Run a sweep first, or set MLFLOW_TRACKING_URI (or RNNSWEEP_HOME) to the store you mean",
    )


class LeaseHeld(Refusal, RuntimeError):
    """Another driver records into this `sweep` until `until_s` (since the epoch): its `owner`."""

    def __str__(self) -> str:
        sweep, owner, until_s = self.args
        try:
            end = datetime.datetime.fromtimestamp(until_s, datetime.UTC)
            until = f"{end:%Y-%m-%d %H:%M:%S} UTC"
        except (ValueError, OverflowError, OSError):  # a damaged one
            until = f"{until_s:g} s after 1970"
        return (
            f"sweep {sweep!r}: expected no other driver, but {owner} is recording into it. Stop"
            f" that one first; if it is gone already, its lease ends at {until}, or now with"
            " --take-over"
        )


class OtherSweep(Refusal):
    """A journal and a parent run with different ids: not of one sweep, though of one spec."""

    def __str__(self) -> str:
        sweep, store = self.args
        return (
            f"sweep {sweep!r}: expected the journal of the sweep in {store}, received that of"
            " another sweep with this name and spec, under another id. Set MLFLOW_TRACKING_URI to"
            " the store of its trials; or move journal.jsonl of this generation away, and run the"
            " same command again: finished trials are read back from MLflow"
        )


class SweepNotFound(Refusal, LookupError):
    """The store has no such sweep; `nearest` are the names most like it, or all if few."""

    def __init__(self, name: str, where: str, nearest: Sequence[str] = ()) -> None:
        super().__init__(name, where, tuple(nearest))

    def __str__(self) -> str:
        name, where, names = self.args
        nearest = f"; the nearest there: {', '.join(names)}" if names else ""
        return (
            f"no sweep {name!r} in {where}{nearest}. Name one of those, run the sweep"
            " first, or set MLFLOW_TRACKING_URI (or RNNSWEEP_HOME) to the store that has it"
        )


class NotRecorded(Refusal, RuntimeError):
    """So many `trials` are in the journal and, for a `reason`, not yet in the tracking store."""

    def __str__(self) -> str:
        trials, reason = self.args
        trials_are = f"{counted(trials, 'finished trial')} {'is' if trials == 1 else 'are'}"
        return (
            f"{trials_are if trials else 'all is'} safe in the journal but could not be recorded"
            f" in MLflow: {reason}. Nothing is lost: the next start of the same command records"
            " what is missing"
        )
