"""Prints what rnnsweep knows of the GPUs of the reader that `test_gpu_reader` adds."""

import json
import os
import sys
import tempfile
from pathlib import Path

from orchestrator.cluster.connection import this_machine
from orchestrator.hardware import classify
from orchestrator.hardware.gpu_readers import known_readers
from tests.nvml.simulated import SimulatedNvml


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= SimulatedNvml().environment(Path(folder))  # NVML has no GPU
        os.environ["PRETEND_GPUS"] = sys.argv[1]
        nodes = this_machine()
    observed = {
        "place": known_readers.__file__,
        "readers": [reader.info.id for reader in known_readers.READERS],
        "gpus": [gpu.uuid for node in nodes for gpu in node.profile.gpus],
        "classes": [found.ref.gpu for found in classify(nodes) if found.device == "gpu"],
        "hidden from a CPU trial": known_readers.hiding_environment()["PRETEND_VISIBLE_DEVICES"],
    }
    print(json.dumps(observed))


if __name__ == "__main__":
    main()
