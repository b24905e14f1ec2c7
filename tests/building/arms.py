"""The arms that most tests use: CPU and GPU, two implementations and a third, two cells."""

from orchestrator.core.arms import Arm, RequestedArm, Variant
from tests.building.hardware import build_cpu_use, build_gpu_use

CPU, GPU = build_cpu_use(), build_gpu_use()
PORTABLE = Arm("tensorflow/portable", CPU)
XLA = Arm("tensorflow/portable+xla", CPU)
UNROLL = Arm("tensorflow/portable+unroll", CPU)
CUDNN = RequestedArm("tensorflow/cudnn", str(CPU))
"""An arm that cannot run: it needs a GPU."""

LSTM, GRU = (Variant(cell, {"cell": cell}) for cell in ("lstm", "gru"))
ARMS_OF_CELLS = tuple(
    Arm(name, CPU, cell) for name in ("tensorflow/portable", "torch/fused") for cell in (LSTM, GRU)
)
