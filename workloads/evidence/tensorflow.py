"""Evidence on TensorFlow: the graphs into which the train step was traced.

Keras fires `train_step` once per tracing, inside the graph that is being built, and the model's
witness keeps those graphs. A graph that ran is one that was traced, so where all traced graphs
agree, the one that ran is among them; and a count of tracings that stays the same over the timed
part shows that no other one came after. Without graphs, the operations of one step are listened to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from workloads.evidence.kernel_evidence import (
    TF32_CAPABILITY,
    OperationCounts,
    Proof,
    Stack,
    combine_proofs,
    format_counts,
    format_kernel,
    identify_kernel,
)
from workloads.implementations import Implementation
from workloads.models.fused.call import SCOPE

if TYPE_CHECKING:
    from workloads.models.passes.tensorflow import TensorFlowPasses
    from workloads.models.run import TrainingRun

_LOOPS = ("While", "StatelessWhile")
_PRODUCTS = ("MatMul", "BatchMatMulV2")
_CUDNN = "CudnnRNN"
_BACKWARD = "gradient_tape/"


def prove(run: TrainingRun, stack: Stack) -> Proof:
    """Which kernel the traced train steps hold; where none was traced, which one a step runs."""
    witness = run.model.witness
    if witness.tracing_records and witness.eager_steps:
        return Proof("mixed", "some train steps were traced, and some ran eagerly")
    if witness.eager_steps:
        return prove_eager_step(run.train_one_step, stack)
    return combine_proofs({prove_graph(graph, stack) for graph in witness.tracing_records})


def prove_passes(
    passes: TensorFlowPasses, batch: Any, stack: Stack, implementation: Implementation
) -> Proof:
    """Which kernel a forward and backward pass holds."""
    if implementation.eager:
        return prove_eager_step(lambda: passes.forward_backward(batch), stack)

    def calling(given: Any) -> Any:  # whether XLA compiles a function is told where it is called
        return passes.forward_backward(given)

    return prove_graph(tf.function(calling).get_concrete_function(batch).graph, stack)


def prove_graph(graph: Any, stack: Stack) -> Proof:
    """The kernel in a graph that a step was traced into, and in all that it calls."""
    outermost = graph.outer_graph if hasattr(graph.outer_graph, "outer_graph") else graph
    program = TracedGraph(outermost.as_graph_def())
    seen = program.seen()
    parts = identify_kernel(seen, stack, tf32=_rounds_to_tf32())
    return Proof(
        format_kernel(parts, *(["xla"] if program.is_compiled else [])),
        f"TensorFlow's traced step: {_told(seen, program.operations)};"
        f" _XlaMustCompile {'true' if program.is_compiled else 'false'}",
    )


def prove_eager_step(step: Callable[[], Any], stack: Stack) -> Proof:
    """The kernel in the operations that Python runs one by one during a step."""
    seen, operations = OperationCounts(), Counter[str]()

    def listen(kind: Any, inputs: Any, *_: Any, graph: Any = None, **__: Any) -> None:
        if graph is not None:  # being traced for something else, such as the data's pipeline
            return
        kind = tf.compat.as_str(kind)
        operations[kind] += 1
        _note(seen, kind, tf.get_current_name_scope(), inputs[0].dtype if inputs else None)

    op_callbacks.add_op_callback(listen)
    try:
        step()
    finally:
        op_callbacks.remove_op_callback(listen)
    parts = identify_kernel(seen, stack, eager=True, tf32=_rounds_to_tf32())
    return Proof(
        format_kernel(parts, "eager"),
        f"TensorFlow's operations in one eager step: {_told(seen, operations)}",
    )


class TracedGraph:
    """A graph and the functions that it reaches; each counts once, however often it is called.

    A loop's body is thus one matrix product for each that the cell has; an unrolled loop has one
    for each step.
    """

    def __init__(self, definition: Any) -> None:
        self._functions = {item.signature.name: item for item in definition.library.function}
        self._parts: dict[str, Any] = {"": definition.node}
        self._reach(definition.node)
        self.operations = Counter(node.op for nodes in self._parts.values() for node in nodes)

    @property
    def is_compiled(self) -> bool:
        """Whether XLA must compile some of it."""
        functions = (self._functions[name].attr for name in self._parts if name)
        nodes = (node.attr for nodes in self._parts.values() for node in nodes)
        return any(
            attributes["_XlaMustCompile"].b
            for attributes in (*functions, *nodes)
            if "_XlaMustCompile" in attributes
        )

    def seen(self) -> OperationCounts:
        """What it holds."""
        seen, bodies = OperationCounts(), set[str]()
        for nodes in self._parts.values():
            for node in nodes:
                if node.op in _LOOPS:
                    bodies |= self._note_loop(node, seen)
        for name, nodes in self._parts.items():
            for node in nodes if name not in bodies else ():
                _note(seen, node.op, node.name, _type_of(node))
        return seen

    def _note_loop(self, node: Any, seen: OperationCounts) -> set[str]:
        """Count a loop that computes products; returns the functions of its body."""
        body = self._called({node.attr["body"].func.name})
        products = [
            _type_of(inner)
            for name in body
            for inner in self._functions[name].node_def
            if inner.op in _PRODUCTS
        ]
        seen.types.update(kind.name for kind in products if kind)
        seen.loops += bool(products) and not node.name.startswith(_BACKWARD)
        return body

    def _called(self, names: set[str]) -> set[str]:
        new = names
        while new:
            nodes = [node for name in new for node in self._functions[name].node_def]
            new = {name for node in nodes for name in _functions_of(node)} - names
            names = names | new
        return names

    def _reach(self, nodes: Iterable[Any]) -> None:
        called = {name for node in nodes for name in _functions_of(node)}
        for name in self._called(called):
            self._parts[name] = self._functions[name].node_def


def _functions_of(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)


def _note(seen: OperationCounts, kind: str, scope: str, dtype: tf.DType | None) -> None:
    """Count an operation that stands in no loop.

    CudnnRNN takes bfloat16, casts it, and computes in float32.
    """
    if dtype is None:
        return
    if kind.startswith(_CUDNN) and "Backprop" not in kind and "Params" not in kind:
        seen.types["float32" if dtype == tf.bfloat16 else dtype.name] += 1
        if SCOPE in scope:
            seen.fused_calls += 1
        else:
            seen.library_calls += 1
    elif kind in _PRODUCTS:
        seen.products[dtype.name] += 1


def _type_of(node: Any) -> tf.DType | None:
    number = node.attr["T"].type if "T" in node.attr else 0  # 0 where it is a list of types
    return tf.as_dtype(number) if number else None


def _told(seen: OperationCounts, operations: Mapping[str, int]) -> str:
    names = [*sorted(op for op in operations if op.startswith(_CUDNN)), *_LOOPS, *_PRODUCTS]
    counts = format_counts({name: operations.get(name, 0) for name in names})
    types = ", ".join(sorted(seen.types or seen.products)) or "no type"
    return f"{counts}{f' in {SCOPE}' if seen.fused_calls else ''}, of {types}"


def _rounds_to_tf32() -> bool:
    """Whether the switch is on, and the GPU has the format."""
    enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    return enabled and _capability() >= TF32_CAPABILITY


def _capability() -> int:
    """The major compute capability of the first GPU; 0 without one."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return 0
    return int(tf.config.experimental.get_device_details(gpus[0])["compute_capability"][0])
