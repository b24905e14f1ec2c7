"""Hardware classes as a document and as one versioned object (`hardware.schema.json`)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.diagnostics.hardware_facts import LABELS, HardwareFact, node_facts
from orchestrator.hardware import HardwareClass, Node, NodeProfile, no_gpu_class_reason
from orchestrator.hardware.files import HARDWARE, node_json
from orchestrator.report.document import (
    Column,
    Document,
    Fact,
    Section,
    Table,
    Tone,
    make_table,
)


def hardware_document(classes: Sequence[HardwareClass]) -> Document:
    """Return hardware classes, and their nodes. Nodes with equal facts share a table.

    The details of a node are in the first class that has it.
    """
    overview: list[Column[HardwareClass]] = [
        Column("class", lambda item: item.name),
        Column("device", lambda item: item.device),
        Column("nodes", lambda item: len(item.nodes)),
        Column(
            "GPUs",
            lambda item: sum(node.gpus for node in item.nodes) if item.device == "gpu" else None,
            optional=True,
        ),
    ]
    nodes = tuple(dict.fromkeys(node for item in classes for node in item.nodes))
    doubts = tuple(
        Fact("GPU", note.text, Tone.BAD if note.is_problem else Tone.PLAIN)
        for note in gpu_notes(nodes)
    )
    sections = [Section("", tables=(make_table(overview, classes),), doubts=doubts)]
    described: set[Node] = set()
    for item in classes:
        sections.append(_section(item, described))
        described |= set(item.nodes)
    return Document("Hardware", tuple(sections))


def hardware_json(classes: Sequence[HardwareClass]) -> dict[str, Any]:
    """Return hardware classes and their nodes."""
    body = {
        **HARDWARE.head(),
        "classes": [
            {
                "id": item.id,
                "name": item.name,
                "device": item.device,
                "unlike": list(_unlike(item)),
                "nodes": [node_json(node) for node in item.nodes],
            }
            for item in classes
        ],
    }
    return dict(json.loads(json.dumps(body)))  # lists instead of tuples, all the way down


@dataclass(frozen=True, slots=True)
class GpuNote:
    """A sentence about GPUs that cannot be used; having none at all is no problem."""

    text: str
    is_problem: bool = True


def gpu_notes(nodes: Sequence[Node]) -> Iterator[GpuNote]:
    """Yield why GPUs do not answer or form no class; why there is none, if no node has any."""
    for node in nodes:
        for fault in node.profile.gpu_faults:
            yield GpuNote(f"{node.profile.hostname}: {fault}")
        if reason := no_gpu_class_reason(node):
            yield GpuNote(f"no GPU class: {reason}")
    if not any(node.profile.gpus or node.profile.gpu_faults for node in nodes):
        yield from dict.fromkeys(no_gpu_note(node.profile) for node in nodes)


def no_gpu_note(profile: NodeProfile) -> GpuNote:
    """Write why a node shows no GPU to this process."""
    if profile.no_gpus is not None:
        return GpuNote(f"no GPU: {profile.no_gpus.reason}", profile.no_gpus.is_problem)
    terms = profile.gpu_terms
    hint = f"is {terms.visibility_variable} set?"
    return GpuNote(f"no GPU: {terms.vendor}'s driver shows none ({hint})")


def _section(item: HardwareClass, described: set[Node]) -> Section:
    groups: dict[tuple[HardwareFact, ...], list[str]] = {}
    for node in item.nodes:
        host = f"{node.profile.hostname} ({node.id[:8]})" if node.id else node.profile.hostname
        facts = node_facts(node, is_first=node not in described, on_gpu=item.device == "gpu")
        groups.setdefault(facts, []).append(host)
    tables = [Table(("node", ", ".join(hosts)), facts) for facts, hosts in groups.items()]
    doubts = tuple(Fact("nodes differ", difference, Tone.DOUBT) for difference in _unlike(item))
    return Section(item.name, tables=tuple(tables), doubts=doubts)


def _unlike(item: HardwareClass) -> Iterator[str]:
    """Yield `memory: 62 GiB on a, b; 251 GiB on c` for each fact in which the nodes differ."""
    on_gpu = item.device == "gpu"
    hosts = [node.profile.hostname for node in item.nodes]
    facts = [dict(node_facts(node, is_first=True, on_gpu=on_gpu)) for node in item.nodes]
    names = dict.fromkeys(name for of_node in facts for name in of_node if name != LABELS)
    for name in names:
        values: dict[str, list[str]] = {}
        for host, of_node in zip(hosts, facts, strict=True):
            values.setdefault(of_node.get(name, "unknown"), []).append(host)
        if len(values) > 1:
            parts = (f"{value} on {', '.join(names)}" for value, names in sorted(values.items()))
            yield f"{name}: {'; '.join(parts)}"
