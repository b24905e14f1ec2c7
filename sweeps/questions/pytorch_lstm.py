"""The module of pytorch/pytorch issues 42094, 81634 and 140845: an LSTM, for predictions."""

import numpy as np
import torch


class Network(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.lstm = torch.nn.LSTM(
            settings["features"], settings["units"], settings["layers"], batch_first=True
        )

    def forward(self, x):
        return self.lstm(x)[0]


def build(settings):
    return Network(settings)


def load(settings):
    shape = settings["samples"], settings["steps"], settings["features"]
    return np.random.default_rng(0).random(shape, "float32"), np.zeros((shape[0], 1), "float32")
