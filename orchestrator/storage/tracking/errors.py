"""Errors between a sweep and its tracking store. Picklable: they cross processes."""

import datetime
from collections.abc import Sequence
from pathlib import Path

from orchestrator.core.errors import Refusal, wrong_version
from orchestrator.core.text import rendered


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


class _Worded(Refusal):
    """An error whose text follows from its class and its arguments (`errors.j2`)."""

    def __str__(self) -> str:
        facts = {"kind": type(self).__name__, "args": self.args, **vars(self)}
        return rendered(Path(__file__).with_suffix(".j2"), **facts)


class LeaseHeld(_Worded, RuntimeError):
    """Another driver records into this `sweep` until `until_s` (since the epoch): its `owner`."""

    def __init__(self, sweep: str, owner: str, until_s: float) -> None:
        super().__init__(sweep, owner, until_s)
        try:
            end = datetime.datetime.fromtimestamp(until_s, datetime.UTC)
            self.until = f"{end:%Y-%m-%d %H:%M:%S} UTC"
        except (ValueError, OverflowError, OSError):  # a damaged one
            self.until = f"{until_s:g} s after 1970"


class OtherSweep(_Worded):
    """A journal and a parent run with different ids: not of one sweep, though of one spec."""


class SweepNotFound(_Worded, LookupError):
    """The store has no such sweep; `nearest` are the names most like it, or all if few."""

    def __init__(self, name: str, where: str, nearest: Sequence[str] = ()) -> None:
        super().__init__(name, where, tuple(nearest))


class NotRecorded(_Worded, RuntimeError):
    """So many `trials` are in the journal and, for a `reason`, not yet in the tracking store."""
