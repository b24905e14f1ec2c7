"""The Python interface of rnnsweep: run sweeps, read them, and write workloads of your own.

    import rnnsweep

    trials = rnnsweep.query("quickstart", "val_accuracy > 0.8")

The functions are documented in `orchestrator.api`, the `Context` of a workload in
`workloads.context`, and `convert`, which gives a Keras model the kernel of an implementation, in
`workloads.models.conversion`. Errors that a user can fix are a `Refusal` or one of its subclasses.
Importing this package is quick: it imports no Ray, MLflow or Keras. `Context`, `convert` and the
errors are imported when they are first used.
"""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

_IS_COMMAND = Path(sys.argv[0]).name == "rnnsweep"

try:
    import workloads.own_code  # noqa: F401
    from orchestrator import __version__
    from orchestrator.api import best, compare, query, read_sweep, report, run_sweep
except ImportError as error:
    problem = (
        f"{error}: rnnsweep has packages named orchestrator and workloads. If one of yours has the"
        " same name, rename it, or remove its folder from PYTHONPATH"
    )
    if not _IS_COMMAND:
        raise ImportError(problem) from error
    sys.stderr.write(f"Error: {problem}\n")  # a command shows no traceback
    sys.exit(2)
except KeyboardInterrupt:
    if not _IS_COMMAND:
        raise
    sys.stderr.write("Stopped.\n")
    sys.exit(3)

if TYPE_CHECKING:
    from orchestrator.analysis.pairing.baselines import BaselineError
    from orchestrator.cluster.connection import ClusterError
    from orchestrator.core.errors import Refusal
    from orchestrator.execution.session_package import FunctionUnusable
    from orchestrator.report.compare.sides import InvalidSide
    from orchestrator.report.query import QueryError
    from orchestrator.spec.spec_errors import SpecError
    from orchestrator.storage.resume import Incomparable
    from orchestrator.storage.tracking.tracking_errors import (
        NotRecorded,
        SweepNotFound,
        TrackingError,
    )
    from workloads.context import Context
    from workloads.models.conversion import convert

_MODULES = {
    "BaselineError": "orchestrator.analysis.pairing.baselines",
    "ClusterError": "orchestrator.cluster.connection",
    "Context": "workloads.context",
    "FunctionUnusable": "orchestrator.execution.session_package",
    "Incomparable": "orchestrator.storage.resume",
    "InvalidSide": "orchestrator.report.compare.sides",
    "NotRecorded": "orchestrator.storage.tracking.tracking_errors",
    "QueryError": "orchestrator.report.query",
    "Refusal": "orchestrator.core.errors",
    "SpecError": "orchestrator.spec.spec_errors",
    "SweepNotFound": "orchestrator.storage.tracking.tracking_errors",
    "TrackingError": "orchestrator.storage.tracking.tracking_errors",
    "convert": "workloads.models.conversion",
}
"""Where the names are that are imported when they are first used."""

__all__ = [
    "BaselineError",
    "ClusterError",
    "Context",
    "FunctionUnusable",
    "Incomparable",
    "InvalidSide",
    "NotRecorded",
    "QueryError",
    "Refusal",
    "SpecError",
    "SweepNotFound",
    "TrackingError",
    "__version__",
    "best",
    "compare",
    "convert",
    "query",
    "read_sweep",
    "report",
    "run_sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__]
