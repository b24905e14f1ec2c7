"""A sweep's trials in MLflow: written exactly once, and read back.

Importing the package imports no MLflow. Whoever is about to use a store imports
`orchestrator.storage.tracking.writer` (the writer) or `orchestrator.storage.tracking.reader`; a
driver does
neither and asks `orchestrator.storage.tracking.recorder`. Only
`orchestrator.storage.tracking.mlflow_store` speaks to MLflow.
"""

from orchestrator.storage.tracking.address import artifact_root, tracking_uri
from orchestrator.storage.tracking.errors import (
    LeaseHeld,
    NotRecorded,
    StoreMissing,
    SweepNotFound,
    TrackingError,
)
from orchestrator.storage.tracking.lease import Owner
from orchestrator.storage.tracking.manifest import Manifest, StoredSweep, SweepOpening, SweepSummary

__all__ = [
    "LeaseHeld",
    "Manifest",
    "NotRecorded",
    "Owner",
    "StoreMissing",
    "StoredSweep",
    "SweepNotFound",
    "SweepOpening",
    "SweepSummary",
    "TrackingError",
    "artifact_root",
    "tracking_uri",
]
