"""pytorch/pytorch issue 81634: inference of an LSTM, 260 times slower on another processor."""

import numpy as np
import torch


class Forward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(32, 256, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0][:, -1]


def build(settings):
    return Forward()


def load(settings):
    return np.random.default_rng(7).random((10, 2000, 32), "float32"), np.zeros((10, 256))
