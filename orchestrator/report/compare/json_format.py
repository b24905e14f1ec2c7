"""Changes as one JSON object, for programs.

Within a version, properties may be added.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.core.arms import Arm
from orchestrator.report.compare.changes import ArmChange, Changes
from orchestrator.report.compare.sides import Side

FORMAT = "rnnsweep-compare"
VERSION = 1


def as_json(changes: Changes, failed: Iterable[ArmChange]) -> dict[str, Any]:
    """Return the changes with every pair of configs; numbers are finite or null."""
    names = {str(arm.after) for arm in failed}
    return {
        "format": FORMAT,
        "version": VERSION,
        "before": _side(changes.before),
        "after": _side(changes.after),
        "margin": changes.margin,
        "differences": _plain(changes.differences),
        "accuracy_not_compared": changes.unlike_inputs,
        "moved_together": changes.moved_together,
        "moved_with_canary": changes.moved_with_canary,
        "canary_speedup": changes.canary_speedup,
        "inconclusive": changes.all_inconclusive,
        "unjudged": [{"arm": str(arm), "reason": reason} for arm, reason in changes.unjudged],
        "arms": [
            {
                **_plain(arm),
                "other_hardware": arm.is_on_other_hardware,
                "fails": str(arm.after) in names,
            }
            for arm in changes.arms
        ],
        "only_before": _plain(changes.only_before),
        "only_after": _plain(changes.only_after),
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "workload": side.workload,
        "state": side.state,
        "trials": len(side.trials),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Arm):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
