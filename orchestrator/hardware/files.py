"""Nodes as JSON data, and read back from a file of `rnnsweep hardware --format json`."""

import dataclasses
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from orchestrator.core.errors import Refusal, one_line
from orchestrator.core.formats import Format, written_by
from orchestrator.core.json_text import parse_json
from orchestrator.hardware.classes import no_gpu_class_reason
from orchestrator.hardware.profile import Node, NodeProfile

HARDWARE = Format(
    "a listing of hardware",
    6,
    migrations={5: lambda listing: listing},
    id="rnnsweep-hardware",
    again="write it again with `rnnsweep hardware --format json`",
)
"""A migration gets the whole object of a listing. What a later number lacks is not read."""

_profile = TypeAdapter(NodeProfile).validate_python


def node_json(node: Node) -> dict[str, Any]:
    """Return a node as JSON data, for `read_nodes`."""
    return {
        "id": node.id,
        "cpus_given": node.cpus,
        "gpus_given": node.gpus,
        "labels": dict(node.labels),
        "no_gpu_class_reason": no_gpu_class_reason(node),
        **dataclasses.asdict(node.profile),
        "packages": dict(node.profile.packages),
    }


def read_nodes(file: Path) -> tuple[Node, ...]:
    """Return the nodes of a saved listing of hardware, each once; refuse any other file."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise _no_listing(str(file), error) from error
    return parse_nodes(content, str(file))


def parse_nodes(content: bytes, source: str) -> tuple[Node, ...]:
    """Return the nodes of a listing of hardware, each once; `source` names it in refusals."""
    try:
        listing = parse_json(content)
        kind, number = listing.get("format"), listing.get("version")
        if kind != HARDWARE.id:
            raise ValueError(f"format {kind!r}")
        if not HARDWARE.reads(number):
            writer = written_by(listing.get("written_by"))
            raise Refusal(HARDWARE.refusal(source, number, writer))
        listing = HARDWARE.migrate(listing, number)
        nodes = [
            Node(row["id"], _profile(row), row["cpus_given"], row["gpus_given"], row["labels"])
            for group in listing["classes"]
            for row in group["nodes"]
        ]
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        raise _no_listing(source, error) from error
    return tuple(dict.fromkeys(nodes))


def _no_listing(source: str, error: Exception) -> Refusal:
    text = "not a file that `rnnsweep hardware --format json` wrote"
    return Refusal(f"{source}: {text} ({one_line(error)})")
