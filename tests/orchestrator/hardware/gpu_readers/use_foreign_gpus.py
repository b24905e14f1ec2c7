"""Print what rnnsweep knows about the GPUs here; test_door.py runs it with a foreign reader."""

import json
import os
import time
from typing import Any

from orchestrator.cluster.connection import this_machine
from orchestrator.diagnostics.hardware_listing import gpu_notes, hardware_json
from orchestrator.execution.telemetry import Instruments, TelemetrySampler
from orchestrator.execution.telemetry.gpu_gauge import gpu_memory_share
from orchestrator.execution.trainer_process import trainer_environment
from orchestrator.hardware import classify


def main() -> None:
    nodes = this_machine()
    sampler = TelemetrySampler("gpu", os.getpid(), Instruments())
    sampler.start()
    time.sleep(1.5)
    recording = sampler.stop()
    known: dict[str, Any] = {
        "listing": hardware_json(classify(nodes)),
        "notes": [note.text for note in gpu_notes(nodes)],
        "reader": recording.gpu_reader,
        "energy": [(sample.at_s, sample.gpus[0].energy_j) for sample in recording.samples],
        "strangers": [sample.gpus[0].other_processes for sample in recording.samples],
        "memory_share": gpu_memory_share(),
        "cpu_environment": trainer_environment(None, "cpu"),
    }
    print(json.dumps(known))


if __name__ == "__main__":
    main()
