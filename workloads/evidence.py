"""Which kernel really ran: read from the graphs that TensorFlow traced, never from the request.

Keras fires `train_step` once per tracing, inside the graph that is being built. `WitnessedModel`
keeps those graphs. A graph that ran is one that was traced, so where all traced graphs agree, the
one that ran is among them; and a count of tracings that stays the same over the timed window
shows that no other one came after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

_LOOPS = ("While", "StatelessWhile")
_CUDNN = "CudnnRNN"


@dataclass(frozen=True, slots=True)
class Proof:
    """The kernel that a graph runs, in the grammar of implementations (`portable+xla`)."""

    ran: str
    evidence: str


@dataclass(slots=True)
class Witness:
    """What a model remembers of its tracings: the graphs of its train steps, and how many of each.

    A plain object beside the model, because Keras wraps lists and dicts that are set on one.
    """

    train_graphs: list[Any] = field(default_factory=list)
    tracings: Counter[str] = field(default_factory=Counter)
    after_steps: Callable[[], None] | None = None


class WitnessedModel(keras.Sequential):
    """A model that remembers each tracing of its steps, and tells when an epoch's steps are done.

    At run time it is the plain model: the overridden steps run while tracing only.
    """

    def __init__(self, layers: list[Any], *, name: str) -> None:
        super().__init__(layers, name=name)
        self.witness = Witness()

    def train_step(self, data: Any) -> Any:
        """Keras' own step; runs once per tracing."""
        self.witness.tracings["train"] += 1
        self.witness.train_graphs.append(tf.compat.v1.get_default_graph())
        return super().train_step(data)

    def test_step(self, data: Any) -> Any:
        """Keras' own step; runs once per tracing."""
        self.witness.tracings["test"] += 1
        return super().test_step(data)

    def predict_step(self, data: Any) -> Any:
        """Keras' own step; runs once per tracing."""
        self.witness.tracings["predict"] += 1
        return super().predict_step(data)

    def get_metrics_result(self) -> Any:
        """Keras' own; `fit` asks for it right after an epoch's last step, before it validates.

        That moment is the end of the training window. `on_test_begin` comes too late: in the
        first epoch `fit` builds the validation pipeline before it.
        """
        result = super().get_metrics_result()
        if self.witness.after_steps is not None and tf.executing_eagerly():
            self.witness.after_steps()
        return result


def prove(model: WitnessedModel, *, layers: int, steps: int) -> Proof:
    """Which kernel the train steps of `model` ran.

    Args:
        model: after at least one step of `fit`.
        layers: the recurrent layers it has.
        steps: the length of the sequences.
    """
    proofs = {_of_graph(graph, layers, steps) for graph in model.witness.train_graphs}
    if not proofs:
        return Proof("unknown", "no train step was traced")
    if len(proofs) > 1:
        seen = sorted(f"{proof.ran} ({proof.evidence})" for proof in proofs)
        return Proof("mixed", f"the traced train steps differ: {'; '.join(seen)}")
    return proofs.pop()


def _of_graph(graph: Any, layers: int, steps: int) -> Proof:
    outermost = graph.outer_graph if _is_function(graph.outer_graph) else graph
    counts, compiled = _operations(outermost.as_graph_def())
    cudnn = sum(n for op, n in counts.items() if op.startswith(_CUDNN) and "Backprop" not in op)
    loops = sum(counts[op] for op in _LOOPS)
    if cudnn and (loops or cudnn != layers):
        kernel = "mixed"
    elif cudnn:
        kernel = "cudnn"
    elif loops:
        kernel = "portable"
    else:
        kernel = "portable+unroll" if counts["MatMul"] >= layers * steps else "unknown"
    names = [*sorted(op for op in counts if op.startswith(_CUDNN)), *_LOOPS, "MatMul"]
    shown = ", ".join(f"{op} × {counts[op]}" for op in names if counts[op])
    return Proof(
        _with_xla(kernel) if compiled else kernel,
        f"TensorFlow's traced train step: {shown or 'no recurrent operation'};"
        f" _XlaMustCompile {'true' if compiled else 'false'}",
    )


def _with_xla(kernel: str) -> str:
    base, *options = kernel.split("+")
    return "+".join([base, *sorted([*options, "xla"])])


def _is_function(graph: Any) -> bool:
    return graph is not None and hasattr(graph, "outer_graph")


def _operations(definition: Any) -> tuple[Mapping[str, int], bool]:
    """How often each operation stands in a graph and its function library; whether XLA must run.

    A function counts once, however often it is called: a loop's body is one matrix product, an
    unrolled loop has one for each step.
    """
    counts: Counter[str] = Counter()
    compiled = False
    for nodes, attributes in _parts(definition):
        counts.update(node.op for node in nodes)
        compiled |= attributes["_XlaMustCompile"].b if "_XlaMustCompile" in attributes else False
        compiled |= any(
            node.attr["_XlaMustCompile"].b for node in nodes if "_XlaMustCompile" in node.attr
        )
    return counts, compiled


def _parts(definition: Any) -> Iterator[tuple[Any, Any]]:
    yield definition.node, {}
    for function in definition.library.function:
        yield function.node_def, function.attr
