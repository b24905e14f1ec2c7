"""Prints the metric grad_norm of a trial of each implementation, which `test_metric` adds."""

import json
import sys
from pathlib import Path

import workloads
from tests.workloads.shared_trainer import Trainer, result

SETTINGS = {
    "units": 4,
    "dropout": 0.0,  # masks differ between backends
    "epochs": 1,
    "samples": 64,
    "validation_samples": 32,
    "batch_size": 16,
}


def main() -> None:
    assert Path(workloads.__file__).is_relative_to(Path.cwd())
    norms = {}
    for implementation in sys.argv[1:]:
        with Trainer() as trainer:
            events = trainer.ask("image_rows", implementation, settings=SETTINGS, seed=3)
        norms[implementation] = result(events)["grad_norm"]
    print(json.dumps(norms))


if __name__ == "__main__":
    main()
