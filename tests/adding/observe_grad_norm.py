"""Prints the metric grad_norm of two implementations of one model, which `test_metric` adds."""

import json
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
    norms = []
    with Trainer() as trainer:
        for implementation in ("torch/portable", "torch/fused"):
            events = trainer.ask("image_rows", implementation, settings=SETTINGS, seed=3)
            norms.append(result(events)["grad_norm"])
    print(json.dumps(norms))


if __name__ == "__main__":
    main()
