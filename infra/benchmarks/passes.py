"""Milliseconds per pass of recurrent layers on PyTorch: as Keras' model, and as nn.LSTM by hand.

Both run in one process on the same input, in turns and in a random order: the passes of the task
`synthetic` on `torch/fused`, which call a Keras model, and PyTorch's own `nn.LSTM`. A figure is the
median over turns of the mean of a turn.

A second table has the step of an optimizer on the weights of these layers: Keras' Adam, which all
arms have, and PyTorch's own, which launches one kernel if it is fused.
"""

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from infra.benchmarks import rig
from workloads.resources import usable_cpus

os.environ["KERAS_BACKEND"] = "torch"


@dataclass(frozen=True)
class Shape:
    """The sizes of a stack of LSTM layers, and of its input."""

    units: int
    batch_size: int
    steps: int
    layers: int = 1
    bidirectional: bool = False

    @property
    def name(self) -> str:
        directions = ", both directions" if self.bidirectional else ""
        return (
            f"{self.layers} × {self.units}, batch {self.batch_size}, T = {self.steps}{directions}"
        )


SHAPES = (
    Shape(1, 1, 1),
    Shape(1, 1, 1, layers=2),
    Shape(1, 1, 1, bidirectional=True),
    Shape(320, 64, 100),
)
_TURN_S = 0.25
_COLUMNS = {
    "synthetic": ".3f",
    "by_hand": ".3f",
    "synthetic_over_by_hand": ".2f",
}


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--turns", type=int, default=15, help="turns of each contender")
    options = parser.parse_args()
    _fix_threads()
    environment = rig.environment("keras", "torch")
    passes, adam = _passes(options.turns), _adam(options.turns)
    lines = [
        "Recurrent layers on PyTorch, on a CPU",
        "",
        "Milliseconds per pass",
        rig.table(passes, _COLUMNS),
        "",
        "Milliseconds per step of Adam",
        rig.table(adam, dict.fromkeys(("keras", "torch", "torch_fused"), ".3f")),
    ]
    rig.publish(options.output, "passes-cpu", environment, lines, passes=passes, adam=adam)


def _fix_threads() -> None:
    """Set PyTorch's threads as in a trainer."""
    import torch  # noqa: PLC0415 - after the backend was chosen

    torch.set_num_threads(usable_cpus())
    torch.set_num_interop_threads(usable_cpus())


def _passes(turns: int) -> list[dict[str, Any]]:
    return [
        {"name": f"{shape.name}: {work}", **_row(contenders, turns)}
        for shape in SHAPES
        for work, contenders in _contenders(shape).items()
    ]


def _adam(turns: int) -> list[dict[str, Any]]:
    return [{"name": shape.name, **_medians(_times(_optimizers(shape), turns))} for shape in SHAPES]


def _contenders(shape: Shape) -> dict[str, dict[str, Callable[[], Any]]]:
    """Return, for each timed work, the pass of each contender."""
    import torch  # noqa: PLC0415

    from workloads.backends.loading import load_framework  # noqa: PLC0415
    from workloads.context import Context  # noqa: PLC0415
    from workloads.implementations import parse_implementation  # noqa: PLC0415
    from workloads.models.recurrent_parts import mark_recurrent_layers  # noqa: PLC0415
    from workloads.models.rewriting import rewrite  # noqa: PLC0415
    from workloads.tasks.synthetic.settings import SyntheticSettings  # noqa: PLC0415
    from workloads.tasks.synthetic.task import build, load, random_inputs  # noqa: PLC0415

    features = shape.units
    settings = SyntheticSettings(**_settings(shape))
    framework, implementation = load_framework("torch"), parse_implementation("torch/fused")
    trial = Context({}, implementation, "cpu", 0, lambda _: None)
    author = build(settings, trial, load(settings, 0))
    model = rewrite(author, implementation, framework).model
    mark_recurrent_layers(model, framework)
    passes = framework.make_passes(model, implementation)
    batch = passes.place(random_inputs(settings, 0))
    by_hand = torch.nn.LSTM(
        features, shape.units, shape.layers, batch_first=True, bidirectional=shape.bidirectional
    )
    parameters = list(by_hand.parameters())

    def forward_by_hand() -> Any:
        with torch.no_grad():
            return by_hand(batch)[0]

    def both_ways_by_hand() -> Any:
        leaf = batch.detach().requires_grad_()
        return torch.autograd.grad(by_hand(leaf)[0].float().mean(), [*parameters, leaf])

    return {
        "forward": {
            "synthetic": lambda: passes.forward(batch),
            "by_hand": forward_by_hand,
        },
        "both ways": {
            "synthetic": lambda: passes.forward_backward(batch),
            "by_hand": both_ways_by_hand,
        },
    }


def _settings(shape: Shape) -> dict[str, Any]:
    """Return the settings of the task `synthetic` for this shape."""
    return {
        "features": shape.units,
        "sequence_length": shape.steps,
        "units": shape.units,
        "batch_size": shape.batch_size,
        "layers": shape.layers,
        "bidirectional": shape.bidirectional,
    }


def _optimizers(shape: Shape) -> dict[str, Callable[[], Any]]:
    """Return a step of each optimizer, on weights as an LSTM of this shape has them."""
    import keras  # noqa: PLC0415 - after the backend was chosen
    import torch  # noqa: PLC0415

    layer = torch.nn.LSTM(shape.units, shape.units, shape.layers, bidirectional=shape.bidirectional)
    weights = list(layer.parameters())
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    gradients = [weight.grad for weight in weights]
    variables = [keras.Variable(weight.detach().numpy()) for weight in weights]
    adam = keras.optimizers.Adam()
    adam.build(variables)

    def step_of_keras() -> None:
        with torch.no_grad():
            adam.apply(gradients, variables)

    return {
        "keras": step_of_keras,
        "torch": torch.optim.Adam(weights).step,
        "torch_fused": torch.optim.Adam(weights, fused=True).step,
    }


def _row(contenders: dict[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """Return the median ms of each contender, and the median of their ratios."""
    times = _times(contenders, turns)
    ratios = [a / b for a, b in zip(times["synthetic"], times["by_hand"], strict=True)]
    return {**_medians(times), "synthetic_over_by_hand": median(ratios)}


def _medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: median(values) for name, values in times.items()}


def _times(contenders: dict[str, Callable[[], Any]], turns: int) -> dict[str, list[float]]:
    """Run the contenders in turns, in a random order; return the mean ms of each turn."""
    counts = {name: _passes_in_a_turn(run) for name, run in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    order = random.Random(0)
    for _ in range(turns):
        for name in order.sample(list(contenders), k=len(contenders)):
            times[name].append(_mean_ms(contenders[name], counts[name]))
    return times


def _passes_in_a_turn(run: Callable[[], Any]) -> int:
    """Warm up, and return how many passes fill a turn."""
    _mean_ms(run, 3)
    return max(1, round(1e3 * _TURN_S / _mean_ms(run, 3)))


def _mean_ms(run: Callable[[], Any], count: int) -> float:
    began_s = time.perf_counter()
    for _ in range(count):
        run()
    return 1e3 * (time.perf_counter() - began_s) / count


if __name__ == "__main__":
    main()
