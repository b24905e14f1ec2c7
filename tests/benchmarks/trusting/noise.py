"""The noise of real trials, recorded once, for simulated sweeps with known truth.

`recorded_noise.json` has the milliseconds per step of equal epochs of `image_rows` on torch/fused,
one after another in ten trials of a warm trainer. A sweep's noise is drawn from it in stretches, so
that consecutive trials stay as similar as consecutive epochs were: Politis and Romano, "The
stationary bootstrap", Journal of the American Statistical Association 89(428), 1994.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Logs: TypeAlias = NDArray[np.float64]

RECORDED = Path(__file__).with_name("recorded_noise.json")

STRETCH = 20
"""The mean number of trials in a stretch, longer than their correlation."""

LEAST_SD, MOST_SD = 0.087, 0.20
"""Standard deviations of the log-ratio of adjacent trials: on an idle machine, and at worst."""


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
