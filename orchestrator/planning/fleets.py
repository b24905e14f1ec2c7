"""Fleets to plan with: numbers of nodes of hardware classes, or the nodes of saved listings."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.core.errors import Refusal
from orchestrator.core.selectors import selects
from orchestrator.core.trial import FinishedTrial
from orchestrator.hardware import Node
from orchestrator.hardware.files import read_nodes

_COUNTED = re.compile(r"\s*(?:(?P<count>\d{1,9})\s*[x×]\s+)?(?P<name>.*?)\s*")
_NEXT = re.compile(r",(?=\s*\d+\s*[x×]\s|[^,]*\.json\s*(?:,|$))")
"""A comma before the next part; those within a name (`AMD EPYC, 8 CPUs`) are none."""

_MOST = 10_000

NODE_GPUS = "node_gpus"
"""The fact of a trial on a GPU that says how many GPUs its node had for trials."""


def known_nodes(present: Iterable[Node], finished: Iterable[FinishedTrial]) -> list[Node]:
    """Return a node of each class that is present, or that trials were measured on."""
    nodes = {node.main_class: node for node in present}
    for trial in finished:
        ref = trial.arm.hardware_class
        if ref not in nodes:
            nodes[ref] = Node.of_class(ref, _gpus_of_node(trial))
    return list(nodes.values())


def _gpus_of_node(trial: FinishedTrial) -> int:
    """Return how many GPUs the node of a trial had for trials; 1 if that is not known."""
    environment, name = trial.outcome.environment, trial.arm.hardware_class.gpu
    gpus = environment.get(NODE_GPUS)
    if not isinstance(gpus, int):  # 0.1.0 recorded the names of all of them alone, as one text
        gpus = str(environment.get("gpus", "")).count(name) if name else 1
    return max(1, gpus)


def read_fleet(text: str, samples: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes of `4 x NVIDIA T4, 8 x lab.json`: numbers of classes or of saved listings.

    A class has the name that trials show, a GPU's name, or a pattern; see `core.names.selects`.
    """
    nodes = list[Node]()
    for part in _NEXT.split(text):
        match = _COUNTED.fullmatch(part)
        assert match is not None
        count, name = int(match["count"] or 1), match["name"]
        is_file = name.endswith(".json")
        if not name or (match["count"] is None and not is_file) or not 0 < count <= _MOST:
            raise Refusal(
                "--nodes: expected a number of nodes and their class, such as '4 x NVIDIA T4, 8 x "
                f"lab.json' (at most {_MOST:,}); received {part.strip()!r}"
            )
        nodes += count * (read_nodes(Path(name)) if is_file else (_node_of(name, samples),))
    return tuple(replace(node, id=f"{number}") for number, node in enumerate(nodes))


def _node_of(name: str, samples: Sequence[Node]) -> Node:
    matching = [node for node in samples if selects(name, node.main_class)]
    if len(matching) == 1:
        return matching[0]
    refs = [node.main_class for node in samples]
    names = {text.lower(): ref for ref in refs for text in (ref.name, ref.gpu or "")}
    near = [names[text] for text in difflib.get_close_matches(name.lower(), names, cutoff=0.4)]
    choices = [node.main_class for node in matching] or near or refs
    raise Refusal(
        f"--nodes: {name!r} means {'several classes' if matching else 'no class'} of this machine "
        f"or this sweep ({'; '.join(dict.fromkeys(map(str, choices)))}). For other nodes, save "
        "`rnnsweep hardware --format json` there, and name the file"
    )
