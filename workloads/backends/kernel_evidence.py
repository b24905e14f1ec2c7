"""Rules that identify the kernel that really ran from the operations that a backend shows.

A backend counts operations where it can see them: in a traced graph, in a lowered program, or in
the profile of a step. The rules are the same for all of them, and never read the request.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workloads.backends.stack_call import SCOPE
from workloads.implementations import MIN_CAPABILITY

TF32_CAPABILITY = MIN_CAPABILITY["tf32"]

_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True, slots=True)
class Proof:
    """The kernel that ran (`portable+xla`), or `mixed` or `unknown`, and the evidence for it."""

    ran: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Stack:
    """The recurrent layers of a model; `steps` is the length of their sequences."""

    layers: int
    directions: int
    steps: int

    @property
    def passes(self) -> int:
        """Passes over the sequence: a layer has one per direction."""
        return self.layers * self.directions


@dataclass(frozen=True, slots=True)
class EagerStep:
    """An untraced train step that evidence may inspect, or run; its caller restores the state."""

    model: Any
    batch: tuple[Any, Any]
    """Inputs and targets of the first batch."""

    run: Callable[[], None]
    """Runs one step of `fit` on the first batch."""


@dataclass(slots=True)
class OperationCounts:
    """Counts of operations in a forward (and perhaps backward) pass, from a backend's evidence.

    `library_calls` are those of a library's recurrent kernel in the forward pass, `fused_calls`
    those inside the scope of the fused layer. `loops` over time compute matrix products. `products`
    counts products outside of loops, by the type of their operands, and `types` the types of
    operands in loops and library calls. `shown` counts operations by the backend's names.
    """

    library_calls: int = 0
    fused_calls: int = 0
    loops: int = 0
    products: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    shown: Counter[str] = field(default_factory=Counter)

    def add_library_call(self, kind: str, scope: str) -> None:
        """Count a forward call with operands of that type, in that scope."""
        self.types[kind] += 1
        if SCOPE in scope:
            self.fused_calls += 1
        else:
            self.library_calls += 1


def make_proof(
    subject: str,
    counts: OperationCounts,
    stack: Stack,
    *,
    eager: bool = False,
    tf32: bool = False,
    options: tuple[str, ...] = (),
    remark: str = "",
) -> Proof:
    """Identify the kernel that explains the counts, and describe them.

    `subject` was inspected. `eager`: Python ran the operations one by one, so that a loop appears
    as its products. `tf32`: products of float32 are rounded to TF32. The counts do not show
    `options`.
    """
    kernel, *kernel_options = identify_kernel(counts, stack, eager=eager, tf32=tf32)
    if kernel not in ("mixed", "unknown"):
        kernel = "+".join([kernel, *sorted([*kernel_options, *options])])
    shown = ", ".join(f"{name} × {count}" for name, count in counts.shown.items() if count)
    scope = f" in {SCOPE}" if counts.fused_calls else ""
    types = ", ".join(sorted(counts.types or counts.products)) or "no type"
    return Proof(
        kernel, f"{subject}: {shown or 'no recurrent operation'}{scope}, of {types}{remark}"
    )


def identify_kernel(
    counts: OperationCounts, stack: Stack, *, eager: bool = False, tf32: bool = False
) -> tuple[str, ...]:
    """Return kernel and options that explain the counts, or ("mixed",), or ("unknown",)."""
    min_products = stack.passes * stack.steps
    step_types = {kind for kind, number in counts.products.items() if number >= min_products}
    options = []
    if counts.fused_calls or counts.library_calls:
        kernel, types = _library_kernel(counts, stack), set(counts.types)
    elif counts.loops >= stack.passes:
        kernel, types = "portable", set(counts.types)
    elif counts.loops == 0 and step_types:
        kernel, types, options = "portable", step_types, [] if eager else ["unroll"]
    else:
        return ("unknown",)
    if kernel == "mixed" or len(types) != 1:
        return ("mixed",)
    (kind,) = types
    if kind in _PRECISIONS:
        options.append(_PRECISIONS[kind])
    elif tf32 and kind == "float32":
        options.append("tf32")
    return (kernel, *sorted(options))


def _library_kernel(counts: OperationCounts, stack: Stack) -> str:
    if counts.loops or (counts.fused_calls and counts.library_calls):
        return "mixed"
    if counts.fused_calls:
        return "fused" if counts.fused_calls == 1 else "mixed"
    if counts.library_calls == stack.passes:
        return "cudnn"
    # PyTorch's and JAX's layers of two directions make one call for both
    has_loop = max(counts.products.values(), default=0) >= stack.steps
    return "cudnn" if counts.library_calls == stack.layers and not has_loop else "mixed"
