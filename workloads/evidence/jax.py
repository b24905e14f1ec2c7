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
    make_proof,
)
from workloads.frameworks.feeding import Batches
from workloads.implementations import Implementation

if TYPE_CHECKING:
    from workloads.models.passes import JaxPasses
    from workloads.models.run import TrainingRun

_PRODUCT, _LIBRARY_CALL = "stablehlo.dot_general", "stablehlo.custom_call"
_LIBRARY = "dnn_rnn"
_BACKWARD = "transpose("
_TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64"}


def prove_traced(record: Any, run: TrainingRun, stack: Stack) -> Proof:
    """Identify the kernel of a train step from the shapes of its arguments."""
    return prove_lowered(_lower(run, record), stack)


def prove_eager(run: TrainingRun, stack: Stack) -> Proof:
    """Identify the kernel of an untraced train step on the model's state and a batch."""
    model = run.model
    state = tuple(
        [variable.value for variable in variables]
        for variables in (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
    )
    batch = Batches(run.train, run.batch_size)[0]
    return prove_lowered(_lower(run, (state, batch)), stack, eager=True)


def prove_passes(
    passes: JaxPasses, batch: Any, stack: Stack, implementation: Implementation
) -> Proof:
    """Identify the kernel of a forward and backward pass."""
    step = jax.jit(passes.run_both) if implementation.eager else passes.run_both
    lowered = step.lower(*passes.variables, batch)
    return prove_lowered(lowered, stack, eager=implementation.eager)


def prove_lowered(lowered: Any, stack: Stack, *, eager: bool = False) -> Proof:
    """Identify the kernel in a lowered program."""
    program = _LoweredProgram(lowered.compiler_ir("stablehlo"))
    return make_proof(
        "JAX's step, run operation by operation" if eager else "JAX's lowered step",
        program.counts,
        program.operations,
        stack,
        eager=eager,
        tf32=program.may_round and int(_capability().partition(".")[0]) >= TF32_CAPABILITY,
        options=("eager",) if eager else (),
        remark=f"; precision {', '.join(sorted(program.precisions)) or 'none'}",
    )


class _LoweredProgram:
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

    def _visit(self, operations: Iterable[Any], place: str, *, in_loop: bool = False) -> int:
        """Count operations, and return the number of products; `place` is the call path."""
        products = 0
        for operation in operations:
            name = operation.name
            if name == _PRODUCT:
                products += 1
                self._count_product(operation, in_loop)
            elif name == _LIBRARY_CALL:
                self._count_library_call(operation, place)
            elif name in ("func.call", "call"):
                called = self._functions[operation.attributes["callee"].value]
                path = f"{place} {operation.location}"
                products += self._visit(_inside(called), path, in_loop=in_loop)
            elif name == "stablehlo.while" and not in_loop:
                path = f"{place} {operation.location}"
                if inner := self._visit(_inside(operation), path, in_loop=True):
                    self.operations["while"] += 1
                    self.counts.loops += _BACKWARD not in path
                products += inner
            else:
                products += self._visit(_inside(operation), place, in_loop=in_loop)
        return products

    def _count_product(self, product: Any, in_loop: bool) -> None:
        self.operations["dot_general"] += 1
        types = self.counts.types if in_loop else self.counts.products
        types[_type_of(product)] += 1
        if "precision_config" in product.attributes:
            for precision in product.attributes["precision_config"]:
                self.precisions.add(str(precision).rpartition(" ")[2].rstrip(">"))

    def _count_library_call(self, operation: Any, place: str) -> None:
        target = operation.attributes["call_target_name"].value
        if _LIBRARY not in target:
            return
        self.operations[target] += 1
        if "bwd" not in target:
            self.counts.add_library_call(_type_of(operation), f"{place} {operation.location}")


def _lower(run: TrainingRun, arguments: Any) -> Any:
    return jax.jit(run.model.train_step, donate_argnums=0).lower(*arguments)


def _type_of(operation: Any) -> str:
    """Return the element type of the first operand."""
    kind = str(operation.operands[0].type.element_type)
    return _TYPES.get(kind, kind)


def _inside(operation: Any) -> Iterable[Any]:
    for region in operation.regions:
        for block in region.blocks:
            for item in block.operations:
                yield item.operation


def _capability() -> str:
    """Return the compute capability of the first device, such as 9.0; 0 without a GPU."""
    return str(getattr(jax.local_devices()[0], "compute_capability", "0"))
