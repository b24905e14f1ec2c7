"""What is known of a user's own model before its first trial, found in a process of each backend.

`workloads.diagnostics.model_inspection` finds it; the orchestrator plans with it. Plain data.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter

from workloads.protocol import Device, TimedWork

NOT_KEPT = "model_not_kept"
"""The fact of a trial that says why its model could not be kept."""

COMPILED_GRAPHS = "compiled_graphs"
"""The fact of a trial with `+compile` that says how many graphs it compiled."""

GRAPH_BREAKS = "graph_breaks"
"""The fact of such a trial that says how often the code between two graphs, or instead of one, ran
as it is written."""

FaultKind: TypeAlias = Literal[
    "refused",  # the functions do not keep their contract, on whatever backend
    "failed",  # their code raised an error, perhaps because of the backend
    "lacking",  # a package that they import is not installed here
]


@dataclass(frozen=True, slots=True)
class InspectionRequest:
    """A question to a process of one backend about an own model.

    `probes` are whole settings of configs that stand for all, the first one in the middle of the
    others. `searched` are the names of settings that differ between blocks or variants. A model
    whose predictions are timed need not be compiled.
    """

    workload: str
    implementations: tuple[str, ...]
    probes: tuple[Mapping[str, Any], ...]
    searched: tuple[str, ...] = ()
    timed_work: TimedWork = "train"

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class ArmFact:
    """Whether an implementation can run the model of one probe on a device.

    `reason` says why it cannot; it is None if it can. With `is_masked` a layer that has a mask runs
    in a library's call.
    """

    probe: int
    implementation: str
    device: Device
    reason: str | None
    is_masked: bool = False


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """What `+compile` makes of a PyTorch module.

    `causes` explain the graph breaks, each once. `reason` says why nothing could be counted; None
    if it was.
    """

    graphs: int = 0
    breaks: int = 0
    causes: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """An own model on one backend: its metrics, the digest of its data, and what can run it.

    `metrics` are computed in training, by Keras' names (`loss`, `mae`); validation adds `val_` to
    them. `validation_metrics` are those that only the validation computes, with their `val_`.
    `data_digest` is None for random data; `data_types` are the arrays with their types: `y int32`.
    `import_notes` are sentences on what the import of the
    model's file changed in its process, which each trial sets back. `carried` are the layers or
    attributes that carry a state from batch to batch. `callbacks` are the classes of the user's
    callbacks. `graphs` are of a PyTorch module that an arm compiles, else None.
    """

    metrics: tuple[str, ...]
    data_digest: str | None
    arms: tuple[ArmFact, ...]
    validation_metrics: tuple[str, ...] = ()
    import_notes: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    callbacks: tuple[str, ...] = ()
    data_types: tuple[str, ...] = ()
    graphs: GraphCounts | None = None


@dataclass(frozen=True, slots=True)
class ModelFault:
    """Why the functions of an own model cannot be used: a text with the location and the next step.

    `setting` is the searched setting that is to blame, if one is.
    """

    kind: FaultKind
    text: str
    setting: str | None = None


Inspection: TypeAlias = ModelFacts | ModelFault


@dataclass(frozen=True, slots=True)
class InspectionAnswer:
    """What an inspection found, and the files that the user's code read for it.

    `files` are the size and the time of change of each, as one text, by path.
    """

    found: Inspection
    files: Mapping[str, str] = field(default_factory=dict)


REQUEST_ADAPTER: TypeAdapter[InspectionRequest] = TypeAdapter(InspectionRequest)
ANSWER_ADAPTER: TypeAdapter[InspectionAnswer] = TypeAdapter(InspectionAnswer)
