"""Sizes of the checks: shapes with published times, and tiny ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from workloads.eligibility import Cell

CELLS: tuple[Cell, ...] = ("lstm", "gru", "rnn_tanh", "rnn_relu")


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    source: str
    batch_size: int
    sequence_length: int
    features: int
    units: int
    layers: int = 1
    bidirectional: bool = False
    with_xla: bool = False  # also time TensorFlow's portable layer with XLA, Keras' default
    published: Mapping[str, float] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        sizes = ("units", "features", "sequence_length", "batch_size")
        return {name: getattr(self, name) for name in (*sizes, "layers", "bidirectional")}


_ROWS = yaml.safe_load(Path(__file__).with_name("shapes.yaml").read_text())
SHAPES = tuple(Shape(**row) for row in _ROWS)


@dataclass(frozen=True, slots=True)
class Sizes:
    cells: tuple[Cell, ...]
    stacks: tuple[tuple[int, bool], ...]  # layers, and whether in both directions
    lengths: tuple[Sequence[int] | None, ...]  # None for no padding
    shapes: tuple[Shape, ...]
    timed_steps: int
    power_s: float


PADDED = (12, 1, 7, 12, 3, 9, 11, 5)
FULL = Sizes(
    cells=CELLS,
    stacks=((1, False), (1, True), (2, False), (2, True)),
    lengths=(None, PADDED),
    shapes=SHAPES,
    timed_steps=30,
    power_s=10.0,
)
USUAL = replace(
    FULL, cells=("lstm", "gru"), stacks=((1, False), (2, True)), shapes=SHAPES[:6], timed_steps=20
)
"""About ten minutes per backend."""

QUICK = Sizes(
    cells=("gru",),
    stacks=((2, True),),
    lengths=(PADDED,),
    shapes=(Shape("tiny", "none", 2, 4, 3, 4),),
    timed_steps=2,
    power_s=0.5,
)
