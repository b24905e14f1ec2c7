"""Evidence on JAX: the program (StableHLO) that the train step was lowered to.

The model's witness keeps the shapes of every tracing of the step. The step is lowered again from
these, which compiles and runs nothing. Without compilation the step is lowered only to list its
operations; the count of untraced steps shows that they ran one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import jax

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
from workloads.frameworks import feeding
from workloads.implementations import Implementation
from workloads.models.fused.call import SCOPE

if TYPE_CHECKING:
    from workloads.models.passes.jax import JaxPasses
    from workloads.models.run import TrainingRun

_WHILE, _PRODUCT, _LIBRARY_CALL = (
    "stablehlo.while",
    "stablehlo.dot_general",
    "stablehlo.custom_call",
)
_LIBRARY = "dnn_rnn"
_BACKWARD = "transpose("


def prove(run: TrainingRun, stack: Stack) -> Proof:
    """Identify the kernel of the traced train steps; if none was traced, that of one step."""
    witness = run.model.witness
    if witness.tracing_records and witness.eager_steps:
        return Proof("mixed", "some train steps were traced, and some ran eagerly")
    with witness.paused():
        step = jax.jit(run.model.train_step, donate_argnums=0)
        if witness.eager_steps:
            return prove_lowered(step.lower(*_arguments(run)), stack, eager=True)
        return combine_proofs(
            {prove_lowered(step.lower(*shapes), stack) for shapes in witness.tracing_records}
        )


def prove_passes(
    passes: JaxPasses, batch: Any, stack: Stack, implementation: Implementation
) -> Proof:
    """Identify the kernel of a forward and backward pass."""
    step = jax.jit(passes.run_both) if implementation.eager else passes.run_both
    lowered = step.lower(*passes.variables, batch)
    return prove_lowered(lowered, stack, eager=implementation.eager)


def prove_lowered(lowered: Any, stack: Stack, *, eager: bool = False) -> Proof:
    """Identify the kernel in a lowered program.

    Args:
        lowered: the result of `jax.jit(…).lower(…)`.
        stack: the recurrent layers of the model.
        eager: the program was lowered for inspection only, and its operations run one by one.
    """
    program = LoweredProgram(lowered.compiler_ir("stablehlo"))
    parts = identify_kernel(
        program.counts, stack, eager=eager, tf32=program.may_round and _has_tf32()
    )
    subject = "JAX's step, run operation by operation" if eager else "JAX's lowered step"
    scope = f" in {SCOPE}" if program.counts.fused_calls else ""
    types = ", ".join(sorted(program.counts.types or program.counts.products)) or "no type"
    precision = ", ".join(sorted(program.precisions)) or "none"
    return Proof(
        format_kernel(parts, *(["eager"] if eager else [])),
        f"{subject}: {format_counts(program.operations)}{scope}, of {types}; precision {precision}",
    )


class LoweredProgram:
    """A module in StableHLO with its counts; a function counts as often as it is called."""

    def __init__(self, module: Any) -> None:
        self.counts = OperationCounts()
        self.operations: Counter[str] = Counter()
        self.precisions: set[str] = set()
        self._functions = {
            operation.attributes["sym_name"].value: operation
            for operation in (item.operation for item in module.body.operations)
        }
        self._visit(_inside(self._functions["main"]), "")

    @property
    def may_round(self) -> bool:
        """True if no product requests all bits of its float32 operands."""
        if self.counts.fused_calls or self.counts.library_calls:  # opaque attributes
            return jax.config.jax_default_matmul_precision == "tensorfloat32"
        return "HIGHEST" not in self.precisions

    def _visit(self, operations: Iterable[Any], place: str) -> None:
        """Count operations outside loops; `place` is the call path of their function."""
        for operation in operations:
            if operation.name == _WHILE:
                self._visit_loop(operation, f"{place} {operation.location}")
            elif operation.name == _PRODUCT:
                self._count_product(operation, self.counts.products)
            elif operation.name == _LIBRARY_CALL:
                self._visit_library_call(operation, f"{place} {operation.location}")
            elif (called := self._called(operation)) is not None:
                self._visit(_inside(called), f"{place} {operation.location}")
            else:
                self._visit(_inside(operation), place)

    def _visit_loop(self, operation: Any, place: str) -> None:
        products = list(self._products(_inside(operation)))
        for product in products:
            self._count_product(product, self.counts.types)
        if products:
            self.operations["while"] += 1
            self.counts.loops += _BACKWARD not in place

    def _visit_library_call(self, operation: Any, place: str) -> None:
        target = operation.attributes["call_target_name"].value
        if _LIBRARY not in target:
            return
        self.operations[target] += 1
        self.counts.types[_type_of(operation)] += 1
        if "bwd" in target:
            return
        if SCOPE in place:
            self.counts.fused_calls += 1
        else:
            self.counts.library_calls += 1

    def _products(self, operations: Iterable[Any]) -> Iterable[Any]:
        for operation in operations:
            if operation.name == _PRODUCT:
                yield operation
            elif (called := self._called(operation)) is not None:
                yield from self._products(_inside(called))
            else:
                yield from self._products(_inside(operation))

    def _called(self, operation: Any) -> Any | None:
        if operation.name not in ("func.call", "call"):
            return None
        return self._functions[operation.attributes["callee"].value]

    def _count_product(self, product: Any, types: Counter[str]) -> None:
        self.operations["dot_general"] += 1
        types[_type_of(product)] += 1
        if "precision_config" in product.attributes:
            for precision in product.attributes["precision_config"]:
                self.precisions.add(str(precision).rpartition(" ")[2].rstrip(">"))


_TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64"}


def _arguments(run: TrainingRun) -> tuple[Any, Any]:
    """Return the arguments that Keras passes to the train step: the model's state, and a batch."""
    model = run.model
    state = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    values = tuple([variable.value for variable in variables] for variables in state)
    return values, feeding.read_batch(run.train, run.batch_size, 0)


def _type_of(operation: Any) -> str:
    """Return the element type of the first operand."""
    kind = str(operation.operands[0].type.element_type)
    return _TYPES.get(kind, kind)


def _inside(operation: Any) -> Iterable[Any]:
    for region in operation.regions:
        for block in region.blocks:
            for item in block.operations:
                yield item.operation


def _has_tf32() -> bool:
    """Return True if the device has the format."""
    return int(_capability().partition(".")[0]) >= TF32_CAPABILITY


def _capability() -> str:
    """Return the compute capability of the first device, such as 9.0; 0 without a GPU."""
    return str(getattr(jax.local_devices()[0], "compute_capability", "0"))
