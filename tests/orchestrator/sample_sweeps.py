"""Sample sweeps to record: an identity, an opening, finished trials, and ready-made stores."""

import atexit
import functools
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.trial import (
    Block,
    DatasetRecord,
    EpochRecord,
    FailureRecord,
    FinishedTrial,
    ImpossibleArm,
    Kernel,
    Outcome,
    SweepIdentity,
    make_trial,
)
from orchestrator.storage.lock import Owner
from orchestrator.storage.tracking.mlflow.address import default_mlflow_uri
from orchestrator.storage.tracking.records import Manifest, SweepOpening
from tests.orchestrator.sample_hardware import on_cpu

CPU = on_cpu("AMD EPYC 7763", 2)
PORTABLE = Arm("tensorflow/portable", CPU)
XLA = Arm("tensorflow/portable+xla", CPU)
CUDNN = RequestedArm("tensorflow/cudnn", "cpu")

IDENTITY = SweepIdentity(
    name="quickstart",
    generation=1,
    workload="image_rows",
    settings={"dataset": "digits", "cell": "lstm", "epochs": 3},
    search={"sampler": "tpe", "space": {"units": {"low": 16, "high": 128}}},
    seed=7,
    data_digest="0f" * 16,
)


def opening(
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


def finished(
    block: int = 0, arm: Arm = PORTABLE, repeat: int = 0, epochs: int = 3, **changes: Any
) -> FinishedTrial:
    """Return a trial as from the runner; `changes` are fields of the outcome."""
    config = {"units": 32 + block, "layers": 2, "learning_rate": 1e-3, "bidirectional": False}
    start_s = 1.7e9 + 10.25 * block
    outcome = Outcome(
        status="complete",
        started_s=start_s,
        ended_s=start_s + 5.5,
        node="node-1",
        metrics={"loss": 0.25, "val_accuracy": 0.875, "step_ms": 8.123456789, "train_s": 1.5},
        epochs=tuple(
            EpochRecord(index, 0.5, 0.125, {"loss": 1 / (index + 1), "val_accuracy": 0.5})
            for index in range(epochs)
        ),
        kernel=Kernel("portable", "portable", "graph has While, no CudnnRNNV3"),
        dataset=DatasetRecord("digits", "ab" * 32, "scikit-learn load_digits", 1437, 360),
        environment={"python": "3.11.7", "tensorflow": "2.21.0", "cpus": 2, "gpu": None},
        trainer_trials=block,
    )
    trial = make_trial(IDENTITY, Block(block, config), arm, repeat)
    return FinishedTrial(trial, replace(outcome, **changes))


def failed(block: int = 0, arm: Arm = PORTABLE, **changes: Any) -> FinishedTrial:
    failure = FailureRecord("crash", "the trainer process ended with SIGSEGV", "last\nlines\n")
    nothing: dict[str, Any] = {"metrics": {}, "epochs": 0, "kernel": None, "dataset": None}
    return finished(block, arm, **{"status": "failed", "failure": failure, **nothing, **changes})


def fresh_home(tmp_path: Path) -> Path:
    """Return a home with a copy of an empty store, because MLflow takes seconds to make one."""
    home = tmp_path / "home"
    home.mkdir(parents=True)
    shutil.copy(_empty_store(), home / "mlflow.db")
    return home


def address(home: Path) -> str:
    return default_mlflow_uri(home, {})


@functools.cache
def _empty_store() -> Path:
    from orchestrator.storage.tracking.mlflow.store import MlflowStore  # noqa: PLC0415  (imports MLflow: seconds)

    home = Path(tempfile.mkdtemp(prefix="rnnsweep-test-store-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    MlflowStore(address(home), home)
    return home / "mlflow.db"
