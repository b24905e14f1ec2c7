"""A Keras model of your own, and its data: which implementation trains it fastest?

own_model.yaml names the two functions. Put your model and your data in their place.
"""

import keras
import numpy as np


def build(settings):
    """Return the compiled model. `settings`: of the spec, and the values of the search."""
    model = keras.Sequential(
        [
            keras.Input((settings["window"], 2)),
            keras.layers.LSTM(settings["units"], return_sequences=True),
            keras.layers.LSTM(settings["units"]),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    return model


def load(settings):
    """Return the data: windows of a noisy wave and of the hour, and the value that follows each."""
    steps = np.arange(4096 + settings["window"])
    noise = np.random.default_rng(7).normal(0, 0.1, len(steps))  # the same in every trial
    wave = np.sin(steps / 5) + 0.5 * np.sin(steps / 31) + noise
    series = np.stack([wave, steps % 24 / 24], axis=1).astype("float32")
    windows = np.lib.stride_tricks.sliding_window_view(series, settings["window"], axis=0)
    x = np.ascontiguousarray(windows[:-1].transpose(0, 2, 1))
    y = series[settings["window"] :, :1]
    return (x[:3072], y[:3072]), (x[3072:], y[3072:])
