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
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks import rig

Logs: TypeAlias = NDArray[np.float64]

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


def recorded(path: Path = RECORDED) -> Logs:
    """Return logarithms of the recorded times, minus their mean."""
    times = np.asarray(json.loads(path.read_text(encoding="utf-8"))["step_ms"], dtype=np.float64)
    logs = np.log(times)
    return np.asarray(logs - logs.mean())


def adjacent_sd(logs: Logs) -> float:
    """Return the standard deviation of the log-ratios of adjacent trials."""
    return float(np.std(np.diff(logs)))


def drawn(logs: Logs, count: int, sd: float, random: np.random.Generator) -> Logs:
    """Draw the noise of consecutive trials whose adjacent log-ratios have about this sd.

    Stretches begin anywhere and wrap around; their lengths are geometric. The recording is
    scaled, so its outliers and the dependence between trials remain.
    """
    places: list[int] = []
    while len(places) < count:
        start, length = random.integers(len(logs)), random.geometric(1 / STRETCH)
        places += [int(start + step) % len(logs) for step in range(length)]
    scale = sd / adjacent_sd(logs)
    return np.asarray(logs[places[:count]] * scale)


def autocorrelation(logs: Logs, lag: int) -> float:
    """Return the correlation of trials with those `lag` later."""
    return float(np.corrcoef(logs[:-lag], logs[lag:])[0, 1])


def main() -> None:
    """Measure equal, consecutive epochs in a warm trainer, and record them."""
    from tests.workloads.shared_trainer import Trainer  # noqa: PLC0415 - imports pytest
    from workloads.protocol import Epoch  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--output", type=Path, default=RECORDED)
    asked = parser.parse_args()
    times_ms = []
    with Trainer() as trainer:
        for number in range(asked.trials + 1):
            events = trainer.ask("image_rows", "torch/fused", settings=_SETTINGS, seed=1)
            seconds = [event.seconds for event in events if isinstance(event, Epoch)]
            if number:  # a trainer's first trial is its warm-up
                times_ms += [round(1_000 * value / _STEPS, 4) for value in seconds]
    recording = {
        "environment": rig.environment("torch"),
        "what": "image_rows on torch/fused, equal epochs in trials of a warm trainer",
        "settings": _SETTINGS,
        "adjacent_sd": round(adjacent_sd(np.log(times_ms)), 4),
        "step_ms": times_ms,
    }
    asked.output.write_text(json.dumps(recording, indent=1) + "\n", encoding="utf-8")
    print(f"{len(times_ms)} epochs, log-ratios of adjacent ones have sd {recording['adjacent_sd']}")


if __name__ == "__main__":
    main()
