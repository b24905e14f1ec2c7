"""The kinds of trackers, and which kind an address means. Nothing heavy is imported here.

An address whose scheme is a name in the entry points of the group `rnnsweep.trackers` is that
package's (docs/adding/tracker.md). Every other address is MLflow's.
"""

import functools
import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from orchestrator.storage.tracking.errors import TrackingError
from orchestrator.storage.tracking.mlflow.kind import MlflowKind
from orchestrator.storage.tracking.tracker import Tracker

TRACKER_ENTRY_POINTS = "rnnsweep.trackers"
TRACKING_URI_VARIABLE = "RNNSWEEP_TRACKING_URI"


class TrackerKind(Protocol):
    """How trackers of one kind are found and opened. It imports its library when it opens one."""

    def open(self, address: str) -> Tracker:
        """Open a tracker to read it; raise `StoreMissing` if it is a file that is not there."""

    def create(self, address: str, home: Path) -> Tracker:
        """Open a tracker to write to it, made if need be; its files may be kept in the home."""

    def local_path(self, address: str) -> Path | None:
        """Return the file or folder of a tracker on this machine; None for one on a server."""

    def shown(self, text: str) -> str:
        """Return an address, or a text that quotes one, without passwords: for messages."""

    def prepare(self) -> None:
        """Import what takes seconds. The recorder process calls it in a thread at its start."""


def tracking_uri(home: Path, environ: Mapping[str, str]) -> str:
    """Return the address of the tracker: RNNSWEEP_TRACKING_URI, or else MLflow's of this home."""
    return environ.get(TRACKING_URI_VARIABLE, "").strip() or MlflowKind.default_address(
        home, environ
    )


def open_tracker(address: str) -> Tracker:
    """Open the tracker of an address to read it."""
    return kind_of(address).open(address)


def without_passwords(address: str) -> str:
    """Return an address without passwords: for messages and logs."""
    return kind_of(address).shown(address)


def is_missing(address: str) -> bool:
    """Return whether the tracker is a file on this machine that is not there (yet)."""
    path = kind_of(address).local_path(address)
    return path is not None and not path.exists()


@functools.cache
def kind_of(address: str) -> TrackerKind:
    """Return the kind of tracker that an address means."""
    scheme, separator, _ = address.partition(":")
    if not separator or scheme.partition("+")[0] in MlflowKind.SCHEMES:
        return MlflowKind()
    for point in importlib.metadata.entry_points(group=TRACKER_ENTRY_POINTS, name=scheme):
        try:
            kind: TrackerKind = point.load()()
        except Exception as error:
            raise TrackingError(
                f"the tracker {scheme!r}",
                f"a class that can be loaded from {point.value}",
                f"{type(error).__name__}: {error}",
                "Repair or remove the package that has it as an entry point",
            ) from error
        return kind
    return MlflowKind()
