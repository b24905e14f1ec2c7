"""Evidence on JAX: the StableHLO of the train step, lowered again from its arguments' shapes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from workloads.backends.kernel_evidence import (
    TF32_CAPABILITY,
    EagerStep,
    OperationCounts,
    Proof,
    RecurrentPart,
    make_proof,
)
from workloads.protocol import TimedWork

_BACKWARD = "transpose("
_TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64"}


def prove_traced(record: Any, model: Any, parts: Sequence[RecurrentPart]) -> Proof:
    """Identify the kernel of a step from the shapes of its arguments."""
    return prove_lowered(_lower(model, record, model.witness.timed_work), parts)


def prove_eager(step: EagerStep, parts: Sequence[RecurrentPart]) -> Proof:
    """Identify the kernel of an untraced step on the model's state and a batch."""
    model = step.model
    kinds = [model.trainable_variables, model.non_trainable_variables]
    if step.timed_work == "train":
        kinds += [model.optimizer.variables, model.metrics_variables]
    state = tuple([variable.value for variable in variables] for variables in kinds)
    batch = step.batch if step.timed_work == "train" else step.batch[:1]
    lowered = _lower(model, (state, batch), step.timed_work)
    return prove_lowered(lowered, parts, eager=True)


def prove_passes(
    timed_pass: Callable[[Any], Any], batch: Any, parts: Sequence[RecurrentPart], *, eager: bool
) -> Proof:
    """Identify the kernel of a pass over a batch."""
    return prove_lowered(jax.jit(timed_pass).lower(batch), parts, eager=eager)


def prove_lowered(lowered: Any, parts: Sequence[RecurrentPart], *, eager: bool = False) -> Proof:
    """Identify the kernel in a lowered program."""
    program = _LoweredProgram(lowered.compiler_ir("stablehlo"))
    return make_proof(
        "JAX's step, run operation by operation" if eager else "JAX's lowered step",
        program.counts,
        parts,
        eager=eager,
        tf32=program.may_round and _capability() >= TF32_CAPABILITY,
        options=("eager",) if eager else (),
        remark=f"; precision {', '.join(sorted(program.precisions)) or 'none'}{program.memory}",
    )


class _LoweredProgram:
    """A module in StableHLO with its counts; a function counts as often as it is called."""

    def __init__(self, module: Any) -> None:
        self.counts = OperationCounts()
        self.precisions: set[str] = set()
        self._work_mib = 0.0
        self._functions = {
            operation.attributes["sym_name"].value: operation
            for operation in (item.operation for item in module.body.operations)
        }
        self._visit(self._functions["main"], "")

    @property
    def may_round(self) -> bool:
        """True if every product of float32 operands may be rounded, wherever XLA computes it."""
        parts = self.counts.parts.values()
        if any(part.fused_calls or part.library_calls for part in parts):  # opaque attributes
            return jax.config.jax_default_matmul_precision is None
        return self.precisions <= {"DEFAULT"}  # HIGH rounds in cuBLAS only

    @property
    def memory(self) -> str:
        """Work space of cuDNN's calls: jaxlib takes sizes in bytes for numbers of float32."""
        shown = f"; {self._work_mib:.3g} MiB of work space, four times what cuDNN asks for"
        return shown if self._work_mib else ""

    def _visit(self, outer: Any, call_path: str, *, in_loop: bool = False) -> int:
        """Count the operations inside one, and return the number of products."""
        products = 0
        for operation in _inside(outer):
            path = f"{call_path} {operation.location}"
            match operation.name:
                case "stablehlo.dot_general" | "stablehlo.convolution":
                    products += 1
                    self._count_product(operation, path, in_loop=in_loop)
                case "stablehlo.custom_call":
                    self._count_library_call(operation, path)
                case "func.call" | "call":
                    called = self._functions[operation.attributes["callee"].value]
                    products += self._visit(called, path, in_loop=in_loop)
                case "stablehlo.while" if not in_loop:
                    if inner := self._visit(operation, path, in_loop=True):
                        self.counts.shown["while"] += 1
                        self.counts.at(path).loops += _BACKWARD not in path
                    products += inner
                case _:
                    products += self._visit(operation, call_path, in_loop=in_loop)
        return products

    def _count_product(self, product: Any, path: str, *, in_loop: bool) -> None:
        self.counts.shown[product.name.removeprefix("stablehlo.")] += 1
        counts = self.counts.at(path)
        if in_loop:
            counts.types[_type_of(product)] += 1
        elif _BACKWARD not in path:
            counts.products[_type_of(product)] += 1
        if "precision_config" in product.attributes:
            for precision in product.attributes["precision_config"]:
                self.precisions.add(str(precision).rpartition(" ")[2].rstrip(">"))

    def _count_library_call(self, operation: Any, path: str) -> None:
        target = operation.attributes["call_target_name"].value
        if "dnn_rnn" in target:
            self.counts.shown[target] += 1
            if "bwd" not in target:
                *_, work, reserve = (result.type.shape[0] for result in operation.results)
                self._work_mib += 4 * (work + reserve) / 2**20
                self.counts.add_library_call(_type_of(operation), path)


def _lower(model: Any, arguments: Any, timed_work: TimedWork) -> Any:
    step = model.train_step if timed_work == "train" else model.predict_step
    return jax.jit(step, donate_argnums=0).lower(*arguments)


def _type_of(operation: Any) -> str:
    """Return the element type of the first operand."""
    kind = str(operation.operands[0].type.element_type)
    return _TYPES.get(kind, kind)


def _inside(operation: Any) -> Iterable[Any]:
    for region in operation.regions:
        for block in region.blocks:
            for item in block.operations:
                yield item.operation


def _capability() -> int:
    """Return the major compute capability of the first device; 0 without a GPU."""
    version = str(getattr(jax.local_devices()[0], "compute_capability", "0"))
    return int(version.partition(".")[0])
