"""Errors between a sweep and its tracker. They can be pickled, because they cross processes."""

import datetime
from collections.abc import Sequence

from orchestrator.core.caller import as_typed
from orchestrator.core.errors import Refusal
from orchestrator.core.text import counted


class TrackingError(Refusal, RuntimeError):
    """The store cannot be reached or used: where, what happened, and what to do."""

    __module__ = "rnnsweep"

    def __init__(self, source: str, problem: str, next_step: str) -> None:
        super().__init__(source, problem, next_step)

    def __str__(self) -> str:
        source, problem, next_step = self.args
        return f"{source}: {problem}. {next_step}"


class StoreAway(TrackingError):
    """A server or database that does not answer now, or whose disk is full."""

    is_away = True


class WrongVersion(TrackingError):
    """The store has something of a format number that is not read: `Format.refusal` says why."""

    def __init__(self, refusal: str) -> None:
        RuntimeError.__init__(self, refusal)

    def __str__(self) -> str:
        return str(self.args[0])


class Damaged(TrackingError):
    """Stored content that cannot be read."""


class Outdated(Damaged):
    """A cache of another format number, which is written again."""


class ContentRefused(TrackingError):
    """The store works and rejects this content: trying again changes nothing."""


class StoreMissing(TrackingError):
    """A store that is a file, and the file is not there."""


class LeaseHeld(Refusal, RuntimeError):
    """Another driver records into this `sweep` until `until_s` (since the epoch): its `owner`.

    Without an owner: another driver has taken the sweep over, and released it since.
    """

    def __init__(self, sweep: str, owner: str, until_s: float) -> None:
        super().__init__(sweep, owner, until_s)
        self.sweep, self.owner, self.until_s = sweep, owner, until_s

    def __str__(self) -> str:
        if not self.owner:
            return (
                f"Another machine took over {self.sweep} and has ended. Run the same command again"
                " to continue with the trials of both"
            )
        return (
            f"{self.sweep} is already running ({self.owner}). Stop it first. If it is gone, wait"
            f" until {self._end}, or use {as_typed('--take-over', 'take_over=True')}"
        )

    @property
    def _end(self) -> str:
        try:
            end = datetime.datetime.fromtimestamp(self.until_s, datetime.UTC)
        except (ValueError, OverflowError, OSError):  # a damaged lease
            return f"{self.until_s:g} s after 1970"
        return f"{end:%Y-%m-%d %H:%M:%S} UTC"


class OtherSweep(Refusal):
    """A journal and a sweep's run with different ids: not of one sweep, though of one spec."""

    def __init__(self, sweep: str, store: str) -> None:
        super().__init__(sweep, store)
        self.sweep, self.store = sweep, store

    def __str__(self) -> str:
        return (
            f"sweep '{self.sweep}': the journal here and the sweep in {self.store} have the same"
            " name and spec, but are not the same sweep. Set MLFLOW_TRACKING_URI to the journal's"
            " store, or move journal.jsonl of this generation away and run the same command again:"
            " finished trials are read back from the store"
        )


class SweepNotFound(Refusal, LookupError):
    """The store has no sweep of this name; `nearest` has the most similar names."""

    __module__ = "rnnsweep"

    def __init__(self, name: str, store: str, nearest: Sequence[str] = ()) -> None:
        super().__init__(name, store, tuple(nearest))
        self.name, self.store, self.nearest = name, store, tuple(nearest)

    def __str__(self) -> str:
        nearest = f" (similar: {', '.join(self.nearest)})" if self.nearest else ""
        return (
            f"no sweep '{self.name}' in {self.store}{nearest}. Run it first (rnnsweep run SPEC), or"
            " set RNNSWEEP_HOME or MLFLOW_TRACKING_URI to its place"
        )


class NotRecorded(Refusal, RuntimeError):
    """Finished trials are in the journal, but could not be recorded in the tracking store.

    `trials` is their number (0: only the end of the sweep is missing), `reason` why.
    """

    __module__ = "rnnsweep"

    def __init__(self, trials: int, reason: str) -> None:
        super().__init__(trials, reason)
        self.trials, self.reason = trials, reason

    def __str__(self) -> str:
        what = counted(self.trials, "finished trial") if self.trials else "the end of the sweep"
        return (
            f"{what} could not be recorded in MLflow: {self.reason}. Nothing is lost: the same"
            " command records it from the journal"
        )
