"""Run a function on chosen nodes of the cluster that is connected, each with devices to itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.core.errors import last_line
from orchestrator.hardware import Node


@dataclass(frozen=True, slots=True)
class NodeTask:
    """A task on a node: what it takes of the node, and what the function is given."""

    node: Node
    cpus: int
    gpus: int
    arguments: tuple[Any, ...]


def on_nodes(function: Callable[..., Any], tasks: Sequence[NodeTask]) -> list[Any]:
    """What each task returned, or the error of Ray's that it ended with; all at the same time.

    A task waits for its node's CPUs and GPUs as a trial does.
    """
    if not tasks:
        return []
    import ray  # noqa: PLC0415  (seconds that this machine alone does without)

    remote = ray.remote(function)
    waiting = [
        remote.options(
            num_cpus=task.cpus,
            num_gpus=task.gpus,
            max_retries=0,
            label_selector={"ray.io/node-id": task.node.id},
        ).remote(*task.arguments)
        for task in tasks
    ]
    return [_outcome(each) for each in waiting]


def _outcome(reference: Any) -> Any:
    import ray  # noqa: PLC0415

    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return RuntimeError(last_line(error))
