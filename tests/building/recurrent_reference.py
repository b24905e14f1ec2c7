"""Recurrent stacks on any kernel, compared with `run_stack`: outputs and gradients.

`run_stack` is the reference: Keras' equations in float64, without code of any implementation.
"""

# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from workloads.backends.framework import Framework
from workloads.backends.passes import Passes
from workloads.context import Context
from workloads.implementations import Implementation
from workloads.layer_traits import Cell
from workloads.measuring.measurement import prepare_framework
from workloads.models.canonical_weights import CanonicalLayer
from workloads.settings import StackSettings

_DIRECTIONS = 4
_STEP = 1e-6

Array = NDArray[np.float64]
State = tuple[Array, Array]
"""The hidden state and the carry of one direction of one layer, each (batch, units)."""


class Case(BaseModel):
    """A stack and its input, with `lengths` if the sequences are padded on the right."""

    cell: str = "lstm"
    inputs: int = 16
    units: int = 32
    layers: int = 1
    bidirectional: bool = False
    batch: int = 8
    steps: int = 12
    lengths: list[int] | None = None

    @property
    def stack(self) -> StackSettings:
        return StackSettings(
            **self.model_dump(include={"cell", "units", "layers", "bidirectional"})
        )

    @property
    def counts(self) -> Any:
        """Shape (batch, steps, 1): 1 for every step that is not padding."""
        lengths = np.array(self.lengths or [self.steps] * self.batch)
        return (np.arange(self.steps) < lengths[:, None]).astype("float32")[..., None]


def numbers(trial: Context) -> dict[str, float]:
    """Return the relative differences from the float64 reference."""
    # Outputs are compared without padding, for which there are two rules (see `_padding_error`).
    # Gradients are compared by their products with random directions (see `_gradient_error`).
    case = Case(**trial.settings)
    with prepare_framework(trial) as framework:
        import keras

        from workloads.models.layers import read_canonical, write_canonical
        from workloads.models.recurrent_parts import mark_recurrent_layers

        model, short = (
            build(case, trial.implementation, return_sequences=every) for every in (True, False)
        )
        draw, counts = np.random.default_rng(trial.seed), case.counts
        directions = case.stack.directions
        inputs = normal(draw, case.batch, case.steps, case.inputs) * counts
        towards = normal(draw, case.batch, case.steps, case.units * directions) * counts
        stack = [
            layer._replace(
                bias=draw.uniform(-0.5, 0.5, layer.bias.shape).astype("float32"),
                # A lone unit's -1 would cancel its bias: a kink of ReLU, which has no derivative.
                recurrent_kernel=np.float32(0.9) * layer.recurrent_kernel,
            )
            for layer in read_canonical(model)
            if layer.bias is not None
        ]
        for network in (model, short):
            write_canonical(network, stack)
            mark_recurrent_layers(network, framework)
        outputs, last = as_array(model(inputs)), as_array(short(inputs))
        weight = keras.layers.Lambda(  # the mean is the sum of outputs * towards
            lambda outputs: keras.ops.multiply(outputs, towards * towards.size), dtype="float32"
        )
        summed = keras.Sequential([keras.Input(batch_shape=inputs.shape), model, weight])
        passes = framework.make_passes(summed, trial.implementation)
        batch = passes.place(inputs)
        *by_weights, by_inputs = map(as_array, passes.forward_backward(batch))
        short_passes = framework.make_passes(short, trial.implementation)
        short_passes.forward_backward(short_passes.place(inputs))
        report_kernel(trial, framework, [passes, short_passes], batch)
        for variable, gradient in zip(model.trainable_variables, by_weights, strict=True):
            variable.assign(gradient)  # so that `read_canonical` can read them
        by_stack = [np.array(array) for layer in read_canonical(model) for array in layer]

    def run(arrays: list[Any]) -> Any:
        layers = [CanonicalLayer(*arrays[n : n + 3]) for n in range(1, len(arrays), 3)]
        return run_stack(case.stack.cell, layers, arrays[0], counts, directions)

    arrays = [
        np.float64(array) for array in (inputs, *(array for layer in stack for array in layer))
    ]
    gradients = [by_inputs, *by_stack]
    expected, expected_last, _ = run(arrays)
    errors = {
        role: _gradient_error(
            lambda changed: (run(changed)[0] * towards).sum(), arrays, gradients, places, draw
        )
        for role, places in {
            "inputs": range(1),
            "kernel": range(1, len(arrays), 3),
            "recurrent_kernel": range(2, len(arrays), 3),
            "bias": range(3, len(arrays), 3),
        }.items()
    }
    return {
        "outputs": difference(expected, outputs * counts),
        "last": difference(expected_last, last),
        "padding": _padding_error(outputs, last, 1 - counts),
        **{f"by_{role}": error for role, error in errors.items()},
    }


def report_kernel(trial: Context, framework: Framework, run: list[Passes], batch: Any) -> None:
    """Report the kernel of several passes that have run on a batch: one, if they agree."""
    from workloads.models.recurrent_parts import recurrent_parts

    asked = trial.implementation
    proofs = [
        framework.prove_passes(passes, batch, recurrent_parts(passes.model), asked, "train")
        for passes in run
    ]
    ran = {proof.ran for proof in proofs}
    trial.kernel(
        asked.kernel_text,
        proofs[0].ran if len(ran) == 1 else "mixed",
        "; ".join(dict.fromkeys(proof.evidence for proof in proofs)),
    )


def _padding_error(outputs: Array, last: Array, is_padding: Array) -> float:
    """Return the largest difference at padding from zeros, or from the last output if smaller.

    Keras repeats the last output of a sequence there; the libraries, and Keras in both directions,
    return zeros.
    """
    from_zero = np.abs(outputs * is_padding).max()
    from_last = np.abs((outputs - last[:, np.newaxis]) * is_padding).max()
    return float(min(from_zero, from_last))


def _gradient_error(
    function: Callable[[list[Any]], float],
    arrays: list[Any],
    gradients: list[Any],
    places: range,
    draw: np.random.Generator,
) -> float:
    """Return the relative error of the gradient of a function by the arrays at some places."""
    # The gradient's product with a random direction is compared with a finite difference. Over
    # normal directions, their difference has the error's Euclidean norm as standard deviation.
    norm = np.sqrt(sum(float((np.float64(gradients[place]) ** 2).sum()) for place in places))
    errors = []
    for _ in range(_DIRECTIONS):
        directions = {place: draw.standard_normal(arrays[place].shape) for place in places}
        length = np.sqrt(sum(float((values**2).sum()) for values in directions.values()))
        ends = []
        for step in (_STEP / length, -_STEP / length):
            moved = list(arrays)
            for place, values in directions.items():
                moved[place] = arrays[place] + step * values
            ends.append(function(moved))
        slope = (ends[0] - ends[1]) / (2 * _STEP / length)
        product = sum(
            float((gradients[place] * values).sum()) for place, values in directions.items()
        )
        errors.append(abs(product - slope))
    return float(max(errors) / max(norm, 1e-30))


def build(case: Case, implementation: Implementation, *, return_sequences: bool) -> Any:
    """Return a model of the stack alone, on the kernel of the implementation.

    It has the same weights on each.
    """
    import keras

    from workloads.backends.loading import load_framework
    from workloads.models.initial_weights import build_with_initial_weights
    from workloads.models.layers import recurrent_stack
    from workloads.models.rewriting import rewrite

    def build_stack() -> Any:
        layers = recurrent_stack(case.stack, return_sequences=return_sequences, seed=1)
        masking = [keras.layers.Masking()] if case.lengths else []
        return keras.Sequential([keras.Input(batch_shape=batch_shape), *masking, *layers])

    batch_shape = (case.batch, case.steps, case.inputs)
    model = build_with_initial_weights(build_stack, 3)
    return rewrite(model, implementation, load_framework(implementation.backend)).model


def normal(draw: np.random.Generator, *shape: int) -> Any:
    return draw.standard_normal(shape).astype(np.float32)


def difference(expected: Any, received: Any) -> float:
    assert expected.shape == received.shape, (expected.shape, received.shape)
    return float(np.abs(expected - received).max() / max(np.abs(expected).max(), 1e-30))


def as_array(tensor: Any) -> Any:
    import keras

    return np.array(keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32")))


def run_stack(
    cell: Cell,
    stack: Sequence[CanonicalLayer],
    inputs: Array,
    counts: Array,
    directions: int,
    initial: Sequence[State] | None = None,
) -> tuple[Array, Array, list[State]]:
    """Return outputs (batch, steps, directions · units), 0 at padding; the last; final states."""
    # `inputs` are (batch, steps, features), `counts` (batch, steps, 1): 0 for padding on the right.
    outputs, finals = inputs, list[State]()
    for first in range(0, len(stack), directions):
        in_order = []
        for number in range(first, first + directions):
            in_time = slice(None, None, -1 if number > first else None)
            layer, begin = stack[number], initial[number] if initial else None
            steps = outputs[:, in_time], counts[:, in_time]
            states, final = _run_layer(cell, layer, *steps, begin)
            in_order.append(states[:, in_time])
            finals.append(final)
        outputs = np.concatenate(in_order, axis=-1) * counts
    last = np.concatenate([hidden for hidden, _ in finals[-directions:]], axis=-1)
    return outputs, last, finals


def _run_layer(
    cell: Cell, layer: CanonicalLayer, inputs: Array, counts: Array, initial: State | None
) -> tuple[Array, State]:
    """Return the hidden state after each step, and the final state; padded steps keep the state."""
    zeros = np.zeros((len(inputs), len(layer.recurrent_kernel)))
    hidden, carry = initial or (zeros, zeros)
    states = []
    for t in range(inputs.shape[1]):
        next_hidden, next_carry = _step(cell, layer, inputs[:, t], hidden, carry)
        hidden = np.where(counts[:, t], next_hidden, hidden)
        carry = np.where(counts[:, t], next_carry, carry)
        states.append(hidden)
    return np.stack(states, axis=1), (hidden, carry)


def _step(
    cell: Cell, layer: CanonicalLayer, x: Array, hidden: Array, carry: Array
) -> tuple[Array, Array]:
    bias = np.atleast_2d(np.asarray(layer.bias))
    by_x, by_state = x @ layer.kernel + bias[0], hidden @ layer.recurrent_kernel
    if cell == "lstm":
        i, f, g, o = np.split(by_x + by_state, 4, axis=-1)
        carry = _sigmoid(f) * carry + _sigmoid(i) * np.tanh(g)
        return _sigmoid(o) * np.tanh(carry), carry
    if cell == "gru":
        (xz, xr, xh), (hz, hr, hh) = (np.split(a, 3, -1) for a in (by_x, by_state + bias[1]))
        z, r = _sigmoid(xz + hz), _sigmoid(xr + hr)
        return z * hidden + (1 - z) * np.tanh(xh + r * hh), carry
    total = by_x + by_state
    return np.tanh(total) if cell == "rnn_tanh" else np.maximum(total, 0), carry


def _sigmoid(values: Array) -> Array:
    return 1 / (1 + np.exp(-values))
