"""Hardware classes as one versioned object. `schema.json` in this folder is its JSON Schema."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

from orchestrator.hardware.classes import HardwareClass, no_gpu_class_reason
from orchestrator.hardware.peak import Peak
from orchestrator.hardware.profile import Node

FORMAT, VERSION = "rnnsweep-hardware", 3


def hardware_json(classes: Iterable[HardwareClass], peaks: Sequence[Peak] = ()) -> dict[str, Any]:
    """Return hardware classes, their nodes and their measured peaks."""
    body = {
        "format": FORMAT,
        "version": VERSION,
        "classes": [
            {
                "id": item.id,
                "name": item.name,
                "slug": item.slug,
                "device": item.device,
                "unlike": list(item.unlike),
                "nodes": [_node(node) for node in item.nodes],
                "peaks": [_peak(peak) for peak in peaks if peak.hardware == item.id],
            }
            for item in classes
        ],
    }
    return dict(json.loads(json.dumps(body)))  # lists in the place of tuples, all the way down


def _node(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "cpus_given": node.cpus,
        "gpus_given": node.gpus,
        "labels": dict(node.labels),
        "no_gpu_class_reason": no_gpu_class_reason(node),
        **dataclasses.asdict(node.profile),
        "packages": dict(node.profile.packages),
    }


def _peak(peak: Peak) -> dict[str, Any]:
    body = dataclasses.asdict(peak)
    del body["hardware"]  # the class that it stands in
    return body
