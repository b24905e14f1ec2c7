"""The module of pytorch/pytorch issue 140845: one LSTM(64), for predictions."""

import numpy as np
import torch


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(64, 64, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def build(settings):
    return Network()


def load(settings):
    draw = np.random.default_rng(0)
    return draw.normal(size=(512, 128, 64)).astype("float32"), np.zeros((512, 128, 64), "float32")
