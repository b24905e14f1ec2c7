"""Statistics over the turns of an arm: functions along the last axis of an array of times."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]


def mean_of_logs(times: Times) -> Times:
    """Return the geometric mean: a ratio of two is the mean of the ratios' logarithms by turn."""
    return np.asarray(np.exp(np.log(times).mean(axis=-1)))


def quantile(share: float) -> Callable[[Times], Times]:
    """Return the function that interpolates this quantile linearly."""
    return lambda times: np.asarray(np.quantile(times, share, axis=-1))


def lowest(place: int) -> Callable[[Times], Times]:
    """Return the function of the lowest value (1), the second lowest (2), and so on."""
    return lambda times: np.asarray(np.sort(times, axis=-1)[..., place - 1])


def mean_of_lowest(number: int) -> Callable[[Times], Times]:
    """Return the function of the mean of this number of lowest values."""
    return lambda times: np.asarray(np.sort(times, axis=-1)[..., :number].mean(axis=-1))


def mean_of_lowest_share(share: float) -> Callable[[Times], Times]:
    """Return the function of the mean of this share of the values, the lowest ones."""
    return lambda times: mean_of_lowest(math.ceil(share * times.shape[-1]))(times)


def half_sample_mode(times: Times) -> Times:
    """Return the mode by halving: the densest half of the values, of that half, and so on.

    Robertson and Cryer, "An iterative procedure for estimating the mode", 1974.
    """
    flat = times.reshape(-1, times.shape[-1])
    return np.array([_mode(np.sort(values)) for values in flat]).reshape(times.shape[:-1])


def _mode(ordered: Times) -> float:
    while len(ordered) > 2:
        half = math.ceil(len(ordered) / 2)
        widths = ordered[half - 1 :] - ordered[: len(ordered) - half + 1]
        start = int(widths.argmin())
        ordered = ordered[start : start + half]
    return float(ordered.mean())


STATISTICS: Mapping[str, Callable[[Times], Times]] = {
    "mean": lambda times: np.asarray(times.mean(axis=-1)),
    "mean of logs": mean_of_logs,
    "median": quantile(0.5),
    "lower quartile": quantile(0.25),
    "10 % quantile": quantile(0.1),
    "mean of lowest tenth": mean_of_lowest_share(0.1),
    "mean of lowest quarter": mean_of_lowest_share(0.25),
    "mean of lowest three": mean_of_lowest(3),
    "second lowest": lowest(2),
    "minimum": lowest(1),
    "half-sample mode": half_sample_mode,
}
