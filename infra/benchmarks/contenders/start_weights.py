"""The weights that every arm of a `char_rnn` starts from, for the contenders to start from, too.

The program takes settings, the size of the vocabulary and a seed as JSON, and the path of the file
that it writes: arrays by the names in `bare_keras.WEIGHTS`. It runs in a process of its own, as it
imports a framework.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from workloads.backends.registry import backends
from workloads.context import Context
from workloads.eligibility import is_installed
from workloads.implementations import parse_implementation
from workloads.process import environment_for
from workloads.tasks.char_rnn.settings import CharRnnSettings


def start_weights(
    settings: CharRnnSettings, vocabulary: int, seed: int, folder: Path
) -> dict[str, Any]:
    """Return the arrays by name."""
    job = {"settings": settings.model_dump(), "vocabulary": vocabulary, "seed": seed}
    path = folder / "start_weights.npz"
    implementation = next(
        f"{name}/portable" for name, backend in backends().items() if is_installed(name)
    )
    subprocess.run(
        [sys.executable, "-m", __spec__.name, implementation, json.dumps(job), str(path)],
        env={**os.environ, **environment_for(parse_implementation(implementation), "cpu")},
        check=True,
    )
    with np.load(path) as arrays:
        return dict(arrays)


def main(implementation: str, text: str, path: str) -> None:
    from infra.benchmarks.contenders.bare_keras import WEIGHTS  # noqa: PLC0415 - Keras
    from workloads.models.initial_weights import build_with_initial_weights  # noqa: PLC0415
    from workloads.tasks.char_rnn.task import build_language_model  # noqa: PLC0415

    job = json.loads(text)
    settings, seed = CharRnnSettings(**job["settings"]), job["seed"]
    trial = Context({}, parse_implementation(implementation), "cpu", seed, emit=print)
    model = build_with_initial_weights(
        lambda: build_language_model(
            settings, trial, job["vocabulary"], settings.sequence_length, None
        ),
        seed,
    )
    np.savez(path, **dict(zip(WEIGHTS, model.get_weights(), strict=True)))


if __name__ == "__main__":
    main(*sys.argv[1:])
