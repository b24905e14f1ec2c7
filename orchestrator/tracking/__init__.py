"""A sweep's trials in MLflow: written exactly once, and read back.

Importing the package imports no MLflow. Whoever is about to use a store imports
`orchestrator.tracking.tracker` (the writer) or `orchestrator.tracking.reading`; a driver does
neither and asks `orchestrator.recorder`. Only `orchestrator.tracking.store` speaks to MLflow.
"""

from orchestrator.tracking.errors import (
    LeaseHeld,
    NotRecorded,
    StoreMissing,
    SweepNotFound,
    TrackingError,
)
from orchestrator.tracking.lease import Owner
from orchestrator.tracking.opening import FoundSweep, Manifest, SweepOpening, SweepSummary
from orchestrator.tracking.place import artifact_root, tracking_uri

__all__ = [
    "FoundSweep",
    "LeaseHeld",
    "Manifest",
    "NotRecorded",
    "Owner",
    "StoreMissing",
    "SweepNotFound",
    "SweepOpening",
    "SweepSummary",
    "TrackingError",
    "artifact_root",
    "tracking_uri",
]
