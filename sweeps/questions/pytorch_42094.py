"""The module of pytorch/pytorch issue 42094: one LSTM of 510 features over 5 steps."""

import numpy as np
import torch


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(510, 32, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def build(settings):
    return Network()


def load(settings):
    draw = np.random.default_rng(0)
    return draw.random((2000, 5, 510), "float32"), np.zeros((2000, 5, 32), "float32")
