"""Rules that identify the kernel that really ran from the operations that a backend shows.

A backend counts operations where it can see them: in a traced graph, in a lowered program, or in
the profile of a step. Each recurrent layer runs in a scope of its own, so that its operations are
counted apart from the operations of other layers. The rules are the same for all backends, and
never read the request.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from workloads.backends.stack_call import SCOPE
from workloads.context import Context
from workloads.implementations import MIN_CAPABILITY, PRECISION_OF_TYPE
from workloads.protocol import TimedWork

TF32_CAPABILITY = MIN_CAPABILITY["tf32"]

_PART = re.compile(r"recurrent_part_(\d+)")

_NAMED_LAYERS = 8
"""The most layers that evidence names for one kernel."""


def part_scope(index: int) -> str:
    """Return the name of the scope in which a model's recurrent part of this number runs."""
    return f"recurrent_part_{index:03d}"


def is_part_scope(name: str) -> bool:
    """Return True if `part_scope` returns this name for some number."""
    return _PART.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Proof:
    """The kernel that ran (`portable+xla`), or `mixed` or `unknown`, and the evidence for it."""

    ran: str
    evidence: str


def report_kernel(trial: Context, prove: Callable[[], Proof]) -> None:
    """Report the kernel that `prove` identifies; it is unknown, with the reason, if that fails."""
    proof: Proof | None = None
    with trial.optional("kernel_ran"):
        proof = prove()
    if proof is None:
        proof = Proof("unknown", f"no evidence: {trial.absent['kernel_ran']}")
    trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)


@dataclass(frozen=True, slots=True)
class RecurrentPart:
    """A recurrent layer of a model, or a whole stack of them that is one fused layer.

    `directions` is 2 for a bidirectional layer, which has a loop or a library call for each (or one
    call for both). `steps` is the length of its sequences, or 1 where that is not known.
    """

    name: str
    directions: int = 1
    steps: int = 1
    is_fused: bool = False
    layer: Any = None
    """The Keras layer, for evidence that runs it."""


@dataclass(frozen=True, slots=True)
class EagerStep:
    """An untraced step that evidence may inspect, or run; its caller restores the state."""

    model: Any
    batch: tuple[Any, ...]
    """Inputs and targets (and perhaps weights) of the first batch."""

    run: Callable[[], object]
    """Runs one step on the first batch."""

    timed_work: TimedWork = "train"
    """Whether the step trains on the batch or predicts it."""


@dataclass(slots=True)
class PartCounts:
    """Counts of operations in the forward pass of one recurrent part, or outside of all of them.

    `library_calls` are calls of a library's recurrent kernel, `fused_calls` the calls inside the
    scope of the fused layer. `loops` over time compute matrix products. `products` counts products
    outside of loops and library calls, by the type of their operands, and `types` the types of
    operands in loops and library calls.
    """

    library_calls: int = 0
    fused_calls: int = 0
    loops: int = 0
    products: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class OperationCounts:
    """Counts of a model's operations: for each recurrent part, and those outside of all parts.

    `shown` counts operations by the backend's names, the backward pass included.
    """

    parts: dict[int, PartCounts] = field(default_factory=dict)
    elsewhere: PartCounts = field(default_factory=PartCounts)
    shown: Counter[str] = field(default_factory=Counter)

    def at(self, scope: str) -> PartCounts:
        """Return the counts of the part whose scope is in this path of scopes."""
        found = _PART.search(scope)
        return self.of_part(int(found[1])) if found else self.elsewhere

    def of_part(self, index: int) -> PartCounts:
        """Return the counts of a part by its number."""
        return self.parts.setdefault(index, PartCounts())

    def add_library_call(self, kind: str, scope: str) -> None:
        """Count a forward call with operands of that type, in that path of scopes."""
        counts = self.at(scope)
        counts.types[kind] += 1
        if SCOPE in scope:
            counts.fused_calls += 1
        else:
            counts.library_calls += 1


def make_proof(
    subject: str,
    counts: OperationCounts,
    parts: Sequence[RecurrentPart],
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
    kernel, *kernel_options = identify_kernel(counts, parts, eager=eager, tf32=tf32)
    if kernel not in ("mixed", "unknown"):
        kernel = "+".join([kernel, *sorted([*kernel_options, *options])])
    if not parts:
        return Proof(kernel, f"{subject}: no recurrent layer{remark}")
    of_parts = [counts.of_part(index) for index in range(len(parts))]
    shown = ", ".join(f"{name} × {count}" for name, count in counts.shown.items() if count)
    scope = f" in {SCOPE}" if any(part.fused_calls for part in of_parts) else ""
    types = {kind for part in of_parts for kind in (part.types or part.products)}
    listed = ", ".join(sorted(types)) or "no type"
    text = f"{subject}: {shown or 'no recurrent operation'}{scope}, of {listed}{remark}"
    return Proof(kernel, text + _layers_by_kernel(of_parts, parts, eager=eager))


def identify_kernel(
    counts: OperationCounts,
    parts: Sequence[RecurrentPart],
    *,
    eager: bool = False,
    tf32: bool = False,
) -> tuple[str, ...]:
    """Return kernel and options that explain the counts, or ("mixed",), or ("unknown",).

    A model whose fused stacks stand next to layers in a loop ran the kernel `fused`. Any other
    combination of two kernels is mixed. A model without a recurrent layer ran `portable`.
    """
    if not parts:
        return ("portable", *_precision_without_recurrent_layers(counts.elsewhere, tf32=tf32))
    of_parts = [counts.of_part(index) for index in range(len(parts))]
    kernels = {
        _kernel_of_part(count, part, eager=eager)
        for count, part in zip(of_parts, parts, strict=True)
    }
    if ("unknown",) in kernels:
        return ("unknown",)
    if ("fused",) in kernels:
        kernels.discard(("portable",))
        kernels.discard(("portable", "unroll"))
    types = set[str]()
    for count, part in zip(of_parts, parts, strict=True):
        types |= set(count.types) or _types_of_steps(count, part)
    if len(kernels) > 1 or ("mixed",) in kernels or len(types) != 1:
        return ("mixed",)
    ((kernel, *options),) = kernels
    (kind,) = types
    if kind in PRECISION_OF_TYPE:
        options.append(PRECISION_OF_TYPE[kind])
    elif tf32 and kind == "float32":
        options.append("tf32")
    return (kernel, *sorted(options))


def _kernel_of_part(counts: PartCounts, part: RecurrentPart, *, eager: bool) -> tuple[str, ...]:
    """Return the kernel that one recurrent part ran, without its precision."""
    step_types = _types_of_steps(counts, part)
    if counts.fused_calls or counts.library_calls:
        # A library's call has no loop and no products of its own: one direction fell back, or one
        # call of a layer that is called several times.
        has_loop = counts.loops > 0 or any(
            number >= part.steps for number in counts.products.values()
        )
        if has_loop or (counts.fused_calls and counts.library_calls):
            return ("mixed",)
        return ("fused",) if counts.fused_calls else ("cudnn",)
    if counts.loops >= part.directions and not part.is_fused:
        return ("portable",)
    if counts.loops == 0 and step_types and not part.is_fused:
        return ("portable",) if eager else ("portable", "unroll")
    return ("unknown",)


def _types_of_steps(counts: PartCounts, part: RecurrentPart) -> set[str]:
    """Return the types of products that are numerous enough for each step to have one."""
    min_products = part.directions * part.steps
    return {kind for kind, number in counts.products.items() if number >= min_products}


def _precision_without_recurrent_layers(counts: PartCounts, *, tf32: bool) -> tuple[str, ...]:
    """Return the reduced precision of a model's products; its last layer may be in float32."""
    types = {*counts.products, *counts.types}
    reduced = sorted(PRECISION_OF_TYPE[kind] for kind in types & PRECISION_OF_TYPE.keys())
    if reduced:
        return tuple(reduced[:1])
    return ("tf32",) if tf32 and "float32" in types else ()


def _layers_by_kernel(
    of_parts: Sequence[PartCounts], parts: Sequence[RecurrentPart], *, eager: bool
) -> str:
    """Return which layers ran which kernel, where that is not the same for all."""
    names = dict[str, list[str]]()
    for counts, part in zip(of_parts, parts, strict=True):
        kernel = "+".join(_kernel_of_part(counts, part, eager=eager))
        kinds = sorted(set(counts.types) or _types_of_steps(counts, part))
        if len(kinds) > 1:
            kernel += f" of {' and '.join(kinds)}"
        names.setdefault(kernel, []).append(part.name)
    if len(names) == 1:
        return ""
    texts = (f"{kernel}: {_first_names(layers)}" for kernel, layers in sorted(names.items()))
    return f"; by layer: {'; '.join(texts)}"


def _first_names(layers: Sequence[str]) -> str:
    shown = ", ".join(layers[:_NAMED_LAYERS])
    return f"{shown}, …" if len(layers) > _NAMED_LAYERS else shown
