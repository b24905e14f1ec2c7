"""The sizes of the checks, and shapes with published times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workloads.layer_traits import Cell


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a recurrent stack and of its batches, and the published times or ratios."""

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


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much the checks try, and for how long."""

    cells: Sequence[Cell]
    stacks: Sequence[tuple[int, bool]]  # layers, and whether in both directions
    lengths: Sequence[Sequence[int] | None]  # of the sequences of a batch; None for no padding
    shapes: Sequence[Shape]
    timed_steps: int
    power_s: float
    idle_s: Sequence[float]
    masked_batches: int = 300  # of changing lengths


SHAPES = [
    Shape(
        name="next_token",
        source="Keras' LSTM against CuDNNLSTM, 612,235 samples on an RTX 2070: sizes not published,"
        " these are assumed",
        batch_size=128,
        sequence_length=40,
        features=64,
        units=512,
        with_xla=True,
        published={"portable/cudnn": 15.0},
    ),
    Shape(
        name="next_token_32",
        source="Keras' LSTM against CuDNNLSTM, 612,235 samples on an RTX 2070: sizes not published,"
        " these are Keras' default batch and longer sequences",
        batch_size=32,
        sequence_length=100,
        features=64,
        units=512,
        published={"portable/cudnn": 15.0},
    ),
    Shape(
        name="mnist_rows",
        source="mnist-CuDNNLSTM: rows of MNIST, 2 layers; ratios of whole `fit`s",
        batch_size=32,
        sequence_length=28,
        features=28,
        units=128,
        layers=2,
        with_xla=True,
        published={"K80 portable/cudnn": 7.5, "P100 portable/cudnn": 12.5},
    ),
    Shape(
        name="char_rnn",
        source="MyCaffe's Char-RNN, a claim about training, Titan Xp",
        batch_size=25,
        sequence_length=75,
        features=15,
        units=512,
        layers=2,
        published={"portable/fused": 5.0},
    ),
    Shape(
        name="deepbench_512",
        source="DeepBench, one LSTM layer, forward and backward",
        batch_size=64,
        sequence_length=25,
        features=512,
        units=512,
        published={"M40 ms": 8.463, "P100 ms": 6.683, "V100 ms": 3.034},
    ),
    Shape(
        name="deepbench_1024",
        source="DeepBench, one LSTM layer, forward and backward",
        batch_size=128,
        sequence_length=25,
        features=1024,
        units=1024,
        published={"M40 ms": 25.11, "P100 ms": 16.897, "V100 ms": 8.373},
    ),
    Shape(
        name="braun_100",
        source="Braun 2018 (arXiv 1806.01818), GTX 1080",
        batch_size=64,
        sequence_length=100,
        features=123,
        units=320,
        published={"cudnn ms": 10, "portable ms": 54, "Keras cudnn ms": 13},
    ),
    Shape(
        name="imdb_bilstm",
        source="Woolf 2017, seconds per epoch of IMDb, K80: the stack alone",
        batch_size=32,
        sequence_length=100,
        features=128,
        units=64,
        layers=1,
        bidirectional=True,
        published={"portable/cudnn": 6.4},
    ),
    Shape(
        name="appleyard_4x512",
        source="Appleyard 2016 (arXiv 1604.01946), M40, forward, against naive",
        batch_size=64,
        sequence_length=100,
        features=512,
        units=512,
        layers=4,
        published={"forward ms": 27.8, "portable/fused": 11.0},
    ),
    Shape(
        name="braun_1000",
        source="Braun 2018 (arXiv 1806.01818), GTX 1080",
        batch_size=32,
        sequence_length=1000,
        features=123,
        units=320,
        published={"cudnn ms": 75, "portable ms": 543, "Keras cudnn ms": 82},
    ),
    Shape(
        name="braun_4x320",
        source="Braun 2018 (arXiv 1806.01818), GTX 1080",
        batch_size=32,
        sequence_length=1000,
        features=123,
        units=320,
        layers=4,
        bidirectional=True,
        published={"cudnn ms": 528, "portable ms": 3689},
    ),
]
"""Light ones first, so that a time limit cuts off as few as possible."""

PADDED = (12, 1, 7, 12, 3, 9, 11, 5)

SIZES = {
    "full": Sizes(
        cells=("lstm", "gru", "rnn_tanh", "rnn_relu"),
        stacks=((1, False), (1, True), (2, False), (2, True)),
        lengths=(None, PADDED),
        shapes=SHAPES,
        timed_steps=30,
        power_s=12.0,
        idle_s=(0.0, 0.3, 2.0, 10.0),
    ),
    # about ten minutes per backend
    "usual": Sizes(
        cells=("lstm", "gru"),
        stacks=((1, False), (2, True)),
        lengths=(None, PADDED),
        shapes=SHAPES[:6],
        timed_steps=20,
        power_s=12.0,
        idle_s=(0.0, 0.3, 2.0, 10.0),
    ),
    "quick": Sizes(
        cells=("gru",),
        stacks=((2, True),),
        lengths=(PADDED,),
        shapes=(Shape("tiny", "none", batch_size=2, sequence_length=4, features=3, units=4),),
        timed_steps=2,
        power_s=6.0,
        idle_s=(0.0,),
        masked_batches=20,
    ),
}
