"""What the orchestrator knows where foreign backends are installed, as one JSON line."""

import json
import sys
from pathlib import Path
from typing import Any

from orchestrator.cluster.connection import this_machine
from orchestrator.diagnostics import doctor
from orchestrator.diagnostics.peaks import versions
from orchestrator.hardware import HardwareClass, classify
from orchestrator.hardware.probing import probe
from orchestrator.planning.plan import make_plan
from orchestrator.spec import SweepSpec, json_schema
from workloads.backends.registry import backends, parse_known_implementation, unusable_backends

SPEC: dict[str, Any] = {
    "name": "foreign",
    "workload": "image_rows",
    "search": {"configs": 1, "space": {"units": [4]}, "objectives": {"step_ms": "minimize"}},
    "arms": {
        "implementations": ["mirror/portable", "mirror/fused", "array/portable"],
        "hardware": ["cpu"],
    },
}


def known() -> dict[str, object]:
    classes: tuple[HardwareClass, ...] = tuple(classify(this_machine()))
    spec = SweepSpec.model_validate(SPEC)
    plan = make_plan(spec, classes, None)
    profile = probe()
    return {
        "backends": list(backends()),
        "unusable": [skipped.name for skipped in unusable_backends()],
        "parsed": str(parse_known_implementation("mirror/portable+polished")),
        "schema": json_schema.spec_schema_text(),
        "arms": [arm.implementation for arm in plan.arms],
        "impossible": {
            impossible.arm.implementation: impossible.reason for impossible in plan.impossible
        },
        "peak_versions": sorted(versions(profile, "mirror", "cpu")),
        "checks": checks("mirror/portable", "array/portable", "absent/portable"),
    }


def checks(*implementations: str) -> dict[str, tuple[str, str]]:
    """Return status and text of what the doctor says up to the last backend."""
    arms = {**SPEC["arms"], "implementations": list(implementations)}
    asked, found = SweepSpec.model_validate({**SPEC, "arms": arms}), dict[str, tuple[str, str]]()
    for check in doctor.check_machine(Path.cwd(), asked, None, lambda text: None):
        found[check.name] = check.status, check.text
        if check.name == "mirror":
            break
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(known()) + "\n")
