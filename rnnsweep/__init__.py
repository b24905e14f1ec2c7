"""The Python interface of rnnsweep: run sweeps, read them, and write workloads of your own.

    import rnnsweep

    trials = rnnsweep.query("quickstart", "val_accuracy > 0.8")

`orchestrator.api` documents the functions, `workloads.context` the `Context` of a workload.
Importing this package is quick; each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator import __version__
    from orchestrator.api import compare, predict, query, read_sweep, run_sweep
    from workloads.context import Context

_HOMES = {
    "Context": "workloads.context",
    "__version__": "orchestrator",
    **dict.fromkeys(("compare", "predict", "query", "read_sweep", "run_sweep"), "orchestrator.api"),
}

__all__ = ["Context", "__version__", "compare", "predict", "query", "read_sweep", "run_sweep"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
