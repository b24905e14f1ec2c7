"""pytorch/pytorch issue 140845: inference of an LSTM is slower in torch.compile."""

import numpy as np
import torch


class Forward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(64, 64, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def build(settings):
    return Forward()


def load(settings):
    return np.random.default_rng(7).random((320, 128, 64), "float32"), np.zeros((320, 128, 64))
