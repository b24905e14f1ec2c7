"""Homes with a store, and what opens a sweep in it."""

import atexit
import functools
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.core.trial import ImpossibleArm, SweepIdentity
from orchestrator.storage.lock import Owner
from orchestrator.storage.tracking.mlflow.address import default_mlflow_uri
from orchestrator.storage.tracking.stored_records import Manifest, SweepOpening
from tests.building.arms import CUDNN, PORTABLE, XLA
from tests.building.trials import IDENTITY


def build_opening(
    identity: SweepIdentity = IDENTITY, owner: Owner | None = None, **changes: Any
) -> SweepOpening:
    """Return an opening; `changes` are fields of its manifest."""
    manifest = Manifest(
        identity=identity,
        objectives={"val_accuracy": "maximize", "step_ms": "minimize"},
        arms=(PORTABLE, XLA),
        impossible=(ImpossibleArm(CUDNN, "cuDNN kernels need an NVIDIA GPU"),),
        blocks=4,
        repeats=1,
    )
    spec_yaml = "name: quickstart\nworkload: image_rows\n"
    plan = {"arms": [str(PORTABLE), str(XLA)]}
    return SweepOpening(replace(manifest, **changes), spec_yaml, plan, owner or Owner.here())


def build_home(tmp_path: Path) -> Path:
    """Return a home with a copy of an empty store, because MLflow takes seconds to make one."""
    home = tmp_path / "home"
    home.mkdir(parents=True)
    shutil.copy(_build_empty_store(), home / "mlflow.db")
    return home


def mlflow_address(home: Path) -> str:
    return default_mlflow_uri(home, {})


@functools.cache
def _build_empty_store() -> Path:
    from orchestrator.storage.tracking.mlflow.store import MlflowStore  # noqa: PLC0415  (imports MLflow: seconds)

    home = Path(tempfile.mkdtemp(prefix="rnnsweep-test-store-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    MlflowStore(mlflow_address(home), home)
    return home / "mlflow.db"
