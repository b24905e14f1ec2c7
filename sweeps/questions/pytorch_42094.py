"""pytorch/pytorch issue 42094: an LSTM is faster if the number of threads is set."""

import numpy as np
import torch


class Forward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(510, 32, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def build(settings):
    return Forward()


def load(settings):
    return np.random.default_rng(7).random((1000, 5, 510), "float32"), np.zeros((1000, 5, 32))
