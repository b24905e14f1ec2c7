"""The noise of real trials, recorded once, for simulated sweeps with known truth.

    python -m tests.benchmarks.trusting.noise --trials 10

records the milliseconds per step of equal epochs, one after another in trials of a warm trainer,
into `recorded_noise.json`. A sweep's noise is drawn from it in stretches, so that consecutive
trials stay as similar as consecutive epochs were: Politis and Romano, "The stationary bootstrap",
Journal of the American Statistical Association 89(428), 1994.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

RECORDED = Path(__file__).with_name("recorded_noise.json")

STRETCH = 20
"""The mean number of trials in a stretch, longer than their correlation."""

LEAST_SD, MOST_SD = 0.087, 0.20
"""Standard deviations of the log-ratio of adjacent trials: on an idle machine, and at worst."""

_SETTINGS = {
    "dataset": "digits",
    "layers": 1,
    "units": 16,
    "dense_units": 16,
    "batch_size": 64,
    "epochs": 60,
    "samples": 1_280,
    "validation_samples": 64,
    "dropout": 0.0,
}
_STEPS = 20
"""Steps of an epoch with these settings."""


def recorded(path: Path = RECORDED) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return logarithms of the recorded times, minus their mean."""
    times = np.asarray(json.loads(path.read_text(encoding="utf-8"))["step_ms"], dtype=np.float64)
    logs = np.log(times)
    return np.asarray(logs - logs.mean())


def adjacent_sd(logs: Sequence[float]) -> float:
    """Return the standard deviation of the log-ratios of adjacent trials."""
    return statistics.pstdev([after - before for before, after in pairwise(logs)])


def drawn(
    logs: np.ndarray[Any, np.dtype[np.float64]], count: int, sd: float, random: np.random.Generator
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Draw the noise of consecutive trials whose adjacent log-ratios have about this sd.

    Stretches begin anywhere and wrap around; their lengths are geometric. The recording is
    scaled, so its outliers and the dependence between trials remain.
    """
    places: list[int] = []
    while len(places) < count:
        start, length = random.integers(len(logs)), random.geometric(1 / STRETCH)
        places += [int(start + step) % len(logs) for step in range(length)]
    scale = sd / adjacent_sd([float(value) for value in logs])
    return np.asarray(logs[places[:count]] * scale)


def autocorrelation(logs: np.ndarray[Any, np.dtype[np.float64]], lag: int) -> float:
    """Return the correlation of trials with those `lag` later."""
    return float(np.corrcoef(logs[:-lag], logs[lag:])[0, 1])


def measured(trials: int) -> Iterator[float]:
    """Measure milliseconds per step of equal, consecutive epochs in a warm trainer."""
    from tests.workloads.shared_trainer import Trainer  # noqa: PLC0415 - imports pytest
    from workloads.protocol import Epoch  # noqa: PLC0415

    with Trainer() as trainer:
        for number in range(trials + 1):
            events = trainer.ask("image_rows", "torch/fused", settings=_SETTINGS, seed=1)
            seconds = [event.seconds for event in events if isinstance(event, Epoch)]
            if number:  # a trainer's first trial is its warm-up
                yield from (1_000 * value / _STEPS for value in seconds)


def main() -> None:
    """Record the noise."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--output", type=Path, default=RECORDED)
    asked = parser.parse_args()
    began_s = time.monotonic()
    times = [round(time_ms, 4) for time_ms in measured(asked.trials)]
    logs = [math.log(time_ms) for time_ms in times]
    recording = {
        "date": time.strftime("%Y-%m-%d"),
        "system": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
        "what": "image_rows on torch/fused, equal epochs in trials of a warm trainer",
        "settings": _SETTINGS,
        "seconds": round(time.monotonic() - began_s, 1),
        "adjacent_sd": round(adjacent_sd(logs), 4),
        "step_ms": times,
    }
    asked.output.write_text(json.dumps(recording, indent=1) + "\n", encoding="utf-8")
    print(f"{len(times)} epochs, log-ratios of adjacent ones have sd {recording['adjacent_sd']}")


if __name__ == "__main__":
    main()
