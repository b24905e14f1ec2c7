"""Evidence on TensorFlow: the graphs of train steps, or the operations of an eager step."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from workloads.backends.kernel_evidence import (
    TF32_CAPABILITY,
    EagerStep,
    OperationCounts,
    Proof,
    RecurrentPart,
    make_proof,
)

_LOOPS = ("While", "StatelessWhile")
_PRODUCTS = ("MatMul", "BatchMatMulV2", "Conv2D")
_CUDNN = "CudnnRNN"
_BACKWARD = "gradient_tape/"


def prove_traced(record: Any, parts: Sequence[RecurrentPart]) -> Proof:
    """Identify the kernel in a graph that a step was traced into, and in all that it calls."""
    outermost = record.outer_graph if hasattr(record.outer_graph, "outer_graph") else record
    return _prove_graph(outermost, parts)


def prove_eager(step: EagerStep, parts: Sequence[RecurrentPart]) -> Proof:
    """Identify the kernel of one untraced step."""
    return _prove_eager_step(step.run, parts)


def prove_passes(
    timed_pass: Callable[[Any], Any], batch: Any, parts: Sequence[RecurrentPart], *, eager: bool
) -> Proof:
    """Identify the kernel of a pass over a batch."""
    if eager:
        return _prove_eager_step(lambda: timed_pass(batch), parts)

    def caller(inputs: Any) -> Any:  # the call of a function, not its body, shows XLA's compilation
        return timed_pass(inputs)

    return _prove_graph(tf.function(caller).get_concrete_function(batch).graph, parts)


def _prove_graph(graph: Any, parts: Sequence[RecurrentPart]) -> Proof:
    program = _TracedGraph(graph.as_graph_def())
    is_compiled = program.is_compiled()
    return make_proof(
        "TensorFlow's traced step",
        program.counts(),
        parts,
        tf32=_rounds_to_tf32(),
        options=("xla",) if is_compiled else (),
        remark=f"; _XlaMustCompile {str(is_compiled).lower()}",
    )


def _prove_eager_step(step: Callable[[], Any], parts: Sequence[RecurrentPart]) -> Proof:
    counts, operations = OperationCounts(), Counter[str]()

    def listen(kind: Any, inputs: Any, *_: Any, graph: Any = None, **__: Any) -> None:
        if graph is not None:  # a tracing of something else, such as the data's pipeline
            return
        kind = tf.compat.as_str(kind)
        operations[kind] += 1
        _count_operation(
            counts, kind, tf.get_current_name_scope(), inputs[0].dtype if inputs else None
        )

    op_callbacks.add_op_callback(listen)
    try:
        step()
    finally:
        op_callbacks.remove_op_callback(listen)
    counts.shown = _shown(operations)
    return make_proof(
        "TensorFlow's operations in one eager step",
        counts,
        parts,
        eager=True,
        tf32=_rounds_to_tf32(),
        options=("eager",),
    )


class _TracedGraph:
    """A graph and the functions that it reaches, each counted once: a loop's body is one step."""

    def __init__(self, definition: Any) -> None:
        self._functions = {item.signature.name: item for item in definition.library.function}
        called = {name for node in definition.node for name in _functions_of(node)}
        self._parts: dict[str, Any] = {"": definition.node}
        self._parts |= {name: self._functions[name].node_def for name in self._called(called)}

    def is_compiled(self) -> bool:
        """Return True if XLA must compile a part of it."""
        functions = (self._functions[name].attr for name in self._parts if name)
        nodes = (node.attr for nodes in self._parts.values() for node in nodes)
        return any(
            attributes["_XlaMustCompile"].b
            for attributes in (*functions, *nodes)
            if "_XlaMustCompile" in attributes
        )

    def counts(self) -> OperationCounts:
        """Return the counts of its operations."""
        operations = Counter(node.op for nodes in self._parts.values() for node in nodes)
        counts, bodies = OperationCounts(shown=_shown(operations)), set[str]()
        for nodes in self._parts.values():
            for node in nodes:
                if node.op in _LOOPS:
                    bodies |= self._count_loop(node, counts)
        for name, nodes in self._parts.items():
            if name in bodies:
                continue
            for node in nodes:
                _count_operation(counts, node.op, node.name, _type_of(node))
        return counts

    def _count_loop(self, node: Any, counts: OperationCounts) -> set[str]:
        """Count a loop that computes products; return the functions of its body."""
        body = self._called({node.attr["body"].func.name})
        nodes = (inner for name in body for inner in self._functions[name].node_def)
        products = [_type_of(inner) for inner in nodes if inner.op in _PRODUCTS]
        part = counts.at(node.name)
        part.types.update(kind.name for kind in products if kind)
        part.loops += bool(products) and not node.name.startswith(_BACKWARD)
        return body

    def _called(self, names: set[str]) -> set[str]:
        new = names
        while new:
            nodes: Iterable[Any] = [n for name in new for n in self._functions[name].node_def]
            new = {name for node in nodes for name in _functions_of(node)} - names
            names = names | new
        return names


def _functions_of(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)


def _count_operation(
    counts: OperationCounts, kind: str, scope: str, dtype: tf.DType | None
) -> None:
    """Count an operation outside loops."""
    # CudnnRNN takes bfloat16, casts it, and computes in float32.
    if dtype is None:
        return
    if kind.startswith(_CUDNN) and "Backprop" not in kind and "Params" not in kind:
        counts.add_library_call("float32" if dtype == tf.bfloat16 else dtype.name, scope)
    elif kind in _PRODUCTS and not scope.startswith(_BACKWARD):
        counts.at(scope).products[dtype.name] += 1


def _type_of(node: Any) -> tf.DType | None:
    number = node.attr["T"].type if "T" in node.attr else 0  # 0 for a list of types
    return tf.as_dtype(number) if number else None


def _shown(operations: Counter[str]) -> Counter[str]:
    names = [*sorted(op for op in operations if op.startswith(_CUDNN)), *_LOOPS, *_PRODUCTS]
    return Counter({name: operations[name] for name in names})


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
