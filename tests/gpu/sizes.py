"""Sizes of the checks: shapes with published times, and tiny ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    at_least: float | None = None  # target speed-up of TensorFlow's cuDNN over its portable layer

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
    images: int
    image_rows: Mapping[str, Any]
    power_s: float
    parity: Mapping[str, Any] = field(default_factory=dict)  # replace the usual settings


PADDED = (12, 1, 7, 12, 3, 9, 11, 5)
FULL = Sizes(
    cells=CELLS,
    stacks=((1, False), (1, True), (2, False), (2, True)),
    lengths=(None, PADDED),
    shapes=SHAPES,
    timed_steps=30,
    images=6_000,
    image_rows={"units": 128, "layers": 2, "batch_size": 32, "epochs": 1},
    power_s=10.0,
)
QUICK = Sizes(
    cells=("gru",),
    stacks=((2, True),),
    lengths=(PADDED,),
    shapes=(Shape("tiny", "none", 2, 4, 3, 4),),
    timed_steps=2,
    images=64,
    image_rows={"units": 4, "layers": 1, "batch_size": 16, "epochs": 1, "timed_steps": 2},
    power_s=0.5,
    parity={"units": 4, "samples": 64, "validation_samples": 32},
)
