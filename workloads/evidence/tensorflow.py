"""Evidence on TensorFlow: the graphs that the train step was traced into.

Keras calls `train_step` once per tracing, inside the graph that is being built, and the model's
witness keeps those graphs. Every graph that ran was traced: if all traced graphs agree, the one
that ran is among them. A constant count of tracings over the timed part shows that no other graph
followed. Without graphs, a callback records the operations of one step.
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
    """Identify the kernel of the traced train steps; if none was traced, that of one step."""
    witness = run.model.witness
    if witness.tracing_records and witness.eager_steps:
        return Proof("mixed", "some train steps were traced, and some ran eagerly")
    if witness.eager_steps:
        return prove_eager_step(run.train_one_step, stack)
    return combine_proofs({prove_graph(graph, stack) for graph in witness.tracing_records})


def prove_passes(
    passes: TensorFlowPasses, batch: Any, stack: Stack, implementation: Implementation
) -> Proof:
    """Identify the kernel of a forward and backward pass."""
    if implementation.eager:
        return prove_eager_step(lambda: passes.forward_backward(batch), stack)

    def caller(inputs: Any) -> Any:  # the call of a function, not its body, shows XLA's compilation
        return passes.forward_backward(inputs)

    return prove_graph(tf.function(caller).get_concrete_function(batch).graph, stack)


def prove_graph(graph: Any, stack: Stack) -> Proof:
    """Identify the kernel in a graph that a step was traced into, and in all that it calls."""
    outermost = graph.outer_graph if hasattr(graph.outer_graph, "outer_graph") else graph
    program = TracedGraph(outermost.as_graph_def())
    counts = program.counts()
    parts = identify_kernel(counts, stack, tf32=_rounds_to_tf32())
    return Proof(
        format_kernel(parts, *(["xla"] if program.is_compiled else [])),
        f"TensorFlow's traced step: {_describe(counts, program.operations)};"
        f" _XlaMustCompile {'true' if program.is_compiled else 'false'}",
    )


def prove_eager_step(step: Callable[[], Any], stack: Stack) -> Proof:
    """Identify the kernel from the operations that Python runs one by one during a step."""
    counts, operations = OperationCounts(), Counter[str]()

    def listen(kind: Any, inputs: Any, *_: Any, graph: Any = None, **__: Any) -> None:
        if graph is not None:  # a tracing of something else, such as the data's pipeline
            return
        kind = tf.compat.as_str(kind)
        operations[kind] += 1
        _count(counts, kind, tf.get_current_name_scope(), inputs[0].dtype if inputs else None)

    op_callbacks.add_op_callback(listen)
    try:
        step()
    finally:
        op_callbacks.remove_op_callback(listen)
    parts = identify_kernel(counts, stack, eager=True, tf32=_rounds_to_tf32())
    return Proof(
        format_kernel(parts, "eager"),
        f"TensorFlow's operations in one eager step: {_describe(counts, operations)}",
    )


class TracedGraph:
    """A graph and the functions that it reaches; a function counts once, for any number of calls.

    A loop's body therefore counts the matrix products of one step; an unrolled loop counts those
    of all steps.
    """

    def __init__(self, definition: Any) -> None:
        self._functions = {item.signature.name: item for item in definition.library.function}
        self._parts: dict[str, Any] = {"": definition.node}
        self._reach(definition.node)
        self.operations = Counter(node.op for nodes in self._parts.values() for node in nodes)

    @property
    def is_compiled(self) -> bool:
        """True if XLA must compile a part of it."""
        functions = (self._functions[name].attr for name in self._parts if name)
        nodes = (node.attr for nodes in self._parts.values() for node in nodes)
        return any(
            attributes["_XlaMustCompile"].b
            for attributes in (*functions, *nodes)
            if "_XlaMustCompile" in attributes
        )

    def counts(self) -> OperationCounts:
        """Return the counts of its operations."""
        counts, bodies = OperationCounts(), set[str]()
        for nodes in self._parts.values():
            for node in nodes:
                if node.op in _LOOPS:
                    bodies |= self._count_loop(node, counts)
        for name, nodes in self._parts.items():
            for node in nodes if name not in bodies else ():
                _count(counts, node.op, node.name, _type_of(node))
        return counts

    def _count_loop(self, node: Any, counts: OperationCounts) -> set[str]:
        """Count a loop that computes products; return the functions of its body."""
        body = self._called({node.attr["body"].func.name})
        products = [
            _type_of(inner)
            for name in body
            for inner in self._functions[name].node_def
            if inner.op in _PRODUCTS
        ]
        counts.types.update(kind.name for kind in products if kind)
        counts.loops += bool(products) and not node.name.startswith(_BACKWARD)
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


def _count(counts: OperationCounts, kind: str, scope: str, dtype: tf.DType | None) -> None:
    """Count an operation outside loops.

    CudnnRNN takes bfloat16, casts it, and computes in float32.
    """
    if dtype is None:
        return
    if kind.startswith(_CUDNN) and "Backprop" not in kind and "Params" not in kind:
        counts.types["float32" if dtype == tf.bfloat16 else dtype.name] += 1
        if SCOPE in scope:
            counts.fused_calls += 1
        else:
            counts.library_calls += 1
    elif kind in _PRODUCTS:
        counts.products[dtype.name] += 1


def _type_of(node: Any) -> tf.DType | None:
    number = node.attr["T"].type if "T" in node.attr else 0  # 0 for a list of types
    return tf.as_dtype(number) if number else None


def _describe(counts: OperationCounts, operations: Mapping[str, int]) -> str:
    names = [*sorted(op for op in operations if op.startswith(_CUDNN)), *_LOOPS, *_PRODUCTS]
    text = format_counts({name: operations.get(name, 0) for name in names})
    types = ", ".join(sorted(counts.types or counts.products)) or "no type"
    return f"{text}{f' in {SCOPE}' if counts.fused_calls else ''}, of {types}"


def _rounds_to_tf32() -> bool:
    """Return True if the switch is on, and the GPU has the format."""
    enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    return enabled and _capability() >= TF32_CAPABILITY


def _capability() -> int:
    """Return the major compute capability of the first GPU; 0 without a GPU."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return 0
    return int(tf.config.experimental.get_device_details(gpus[0])["compute_capability"][0])
