"""Sizes of the checks: shapes with published times, and tiny ones.

The published figures come from other hardware and software. They are recorded for comparison.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workloads.eligibility import Cell

CELLS: tuple[Cell, ...] = ("lstm", "gru", "rnn_tanh", "rnn_relu")


@dataclass(frozen=True, slots=True)
class Shape:
    """A stack of LSTMs, its input, and the source of the sizes."""

    name: str
    source: str
    batch_size: int
    sequence_length: int
    features: int
    units: int
    layers: int = 1
    bidirectional: bool = False
    with_xla: bool = False
    """Also time TensorFlow's portable layer with XLA, which Keras uses by default."""

    published: Mapping[str, float] = field(default_factory=dict)
    at_least: float | None = None
    """Target speed-up of TensorFlow's cuDNN layer over its portable layer."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of `synthetic`."""
        sizes = ("units", "features", "sequence_length", "batch_size")
        return {name: getattr(self, name) for name in (*sizes, "layers", "bidirectional")}


_KERAS = "Keras' LSTM against CuDNNLSTM, 612,235 samples on an RTX 2070: sizes not published"
_BRAUN = "Braun 2018 (arXiv 1806.01818), GTX 1080"
_DEEPBENCH = "DeepBench, one LSTM layer, forward and backward"

SHAPES: tuple[Shape, ...] = (
    Shape("next_token", f"{_KERAS}, these are assumed", 128, 40, 64, 512,
          with_xla=True, published={"portable/cudnn": 15.0}, at_least=15.0),
    Shape("next_token_32", f"{_KERAS}, these are Keras' default batch and longer sequences",
          32, 100, 64, 512, published={"portable/cudnn": 15.0}),
    Shape("mnist_rows", "mnist-CuDNNLSTM: rows of MNIST, 2 layers; ratios of whole `fit`s",
          32, 28, 28, 128, 2, with_xla=True,
          published={"K80 portable/cudnn": 7.5, "P100 portable/cudnn": 12.5}),
    Shape("char_rnn", "MyCaffe's Char-RNN, a claim about training, Titan Xp",
          25, 75, 15, 512, 2, published={"portable/fused": 5.0}),
    Shape("deepbench_512", _DEEPBENCH, 64, 25, 512, 512,
          published={"M40 ms": 8.463, "P100 ms": 6.683, "V100 ms": 3.034}),
    Shape("deepbench_1024", _DEEPBENCH, 128, 25, 1024, 1024,
          published={"M40 ms": 25.110, "P100 ms": 16.897, "V100 ms": 8.373}),
    Shape("braun_100", _BRAUN, 64, 100, 123, 320,
          published={"cudnn ms": 10, "portable ms": 54, "Keras cudnn ms": 13}),
    Shape("imdb_bilstm", "Woolf 2017, seconds per epoch of IMDb, K80: the stack alone",
          32, 100, 128, 64, 1, True, published={"portable/cudnn": 6.4}),
    Shape("appleyard_4x512", "Appleyard 2016 (arXiv 1604.01946), M40, forward, against naive",
          64, 100, 512, 512, 4, published={"forward ms": 27.8, "portable/fused": 11.0}),
    Shape("braun_1000", _BRAUN, 32, 1000, 123, 320,
          published={"cudnn ms": 75, "portable ms": 543, "Keras cudnn ms": 82}),
    Shape("braun_4x320", _BRAUN, 32, 1000, 123, 320, 4, True,
          published={"cudnn ms": 528, "portable ms": 3689}),
)  # fmt: skip
"""Light shapes come first, so that a time limit cuts off as few as possible."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes and repetitions of a run of the checks."""

    cells: tuple[Cell, ...] = CELLS
    stacks: tuple[tuple[int, bool], ...] = ((1, False), (1, True), (2, False), (2, True))
    """(layers, bidirectional) for the check `numbers`."""

    shapes: tuple[Shape, ...] = SHAPES
    timed_steps: int = 30
    """Timed passes of an arm of `speed`."""

    images: int = 6_000
    image_rows: Mapping[str, Any] = field(
        default_factory=lambda: {"units": 128, "layers": 2, "batch_size": 32, "epochs": 1}
    )
    hand_written: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {
            "1×128, batch 64, 64 steps": {},
            "1×512, batch 128, 40 steps": {
                "units": 512,
                "batch_size": 128,
                "sequence_length": 40,
            },
        }
    )
    hand_written_steps: int = 100
    parity: Mapping[str, Any] = field(default_factory=dict)
    """Settings that replace the defaults of `rnnsweep parity`."""

    power_s: float = 10.0


FULL = Sizes()
QUICK = Sizes(
    cells=("gru",),
    stacks=((2, True),),
    shapes=(
        dataclasses.replace(
            SHAPES[0],
            batch_size=2,
            sequence_length=4,
            features=3,
            units=4,
            with_xla=False,
            at_least=None,
        ),
    ),
    timed_steps=2,
    images=64,
    image_rows={"units": 4, "layers": 1, "batch_size": 16, "epochs": 1, "timed_steps": 2},
    hand_written={
        "1×8": {"units": 8, "batch_size": 4, "sequence_length": 4, "validation_samples": 4}
    },
    hand_written_steps=2,
    parity={"units": 4, "samples": 64, "validation_samples": 32},
    power_s=0.5,
)
