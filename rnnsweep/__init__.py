"""The Python interface of rnnsweep: run sweeps, read them, and write workloads of your own.

    import rnnsweep

    trials = rnnsweep.query("quickstart", "val_accuracy > 0.8")

`orchestrator.api` documents the functions, `workloads.context` the `Context` of a workload.
Importing this package is quick; `Context` is imported when it is first used.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import workloads.own_code  # noqa: F401
    from orchestrator import __version__
    from orchestrator.api import compare, predict, query, read_sweep, run_sweep
except ImportError as error:
    problem = (
        f"{error}: rnnsweep has packages named orchestrator and workloads. If one of yours has such"
        " a name, rename it, or take its folder out of the path of imports (PYTHONPATH)"
    )
    if Path(sys.argv[0]).name != "rnnsweep":
        raise ImportError(problem) from error
    sys.stderr.write(f"Error: {problem}\n")  # a command shows no traceback
    sys.exit(2)

if TYPE_CHECKING:
    from workloads.context import Context

__all__ = ["Context", "__version__", "compare", "predict", "query", "read_sweep", "run_sweep"]


def __getattr__(name: str) -> Any:
    if name != "Context":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from workloads.context import Context  # noqa: PLC0415

    return Context
